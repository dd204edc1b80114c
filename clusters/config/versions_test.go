// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestFormerVersionsAreRead: a file that a version of this apiVersion took is taken by all that follow, and no field of
// it has lost its effect: each is still of the types, so that it decodes and leaves no fault. Beside a file may be what
// that version made of it, its defaults included: it means the same.
func TestFormerVersionsAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/versions/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := Parse(path, text)
		if err != nil {
			t.Errorf("%s is refused: %v", path, err)
			continue
		}
		var fields map[string]any
		if err := yaml.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			without := strings.Replace(string(text), "\n"+name+":", "\nunknown-"+name+":", 1)
			if _, err := Parse(path, []byte(without)); err == nil && strings.Contains(without, "unknown-") {
				t.Errorf("%s: %s could be left out and nobody would know", path, name)
			}
		}
		was, err := os.ReadFile(strings.TrimSuffix(path, ".yaml") + ".json")
		if err != nil {
			continue
		}
		is, err := json.Marshal(parsed)
		if err != nil {
			t.Fatal(err)
		}
		var before, now any
		if err := errors.Join(json.Unmarshal(was, &before), json.Unmarshal(is, &now)); err != nil {
			t.Fatal(err)
		}
		for _, difference := range differences("", before, now) {
			t.Errorf("%s: %s", path, difference)
		}
	}
}

// TestFormerSecretsAreRead: the annotations of a Secret that is a member mean what they meant.
func TestFormerSecretsAreRead(t *testing.T) {
	text, err := os.ReadFile("testdata/versions/1c131de-secret.json")
	if err != nil {
		t.Fatal(err)
	}
	var former struct {
		Annotations map[string]string
		Member      any
	}
	if err := json.Unmarshal(text, &former); err != nil {
		t.Fatal(err)
	}
	var defaults Cluster
	defaults.SetDefaults()
	member, faults := Secret{Namespace: "members", Name: "idc-b", Annotations: former.Annotations}.cluster(defaults)
	is, err := json.Marshal(member)
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	var now any
	if err := json.Unmarshal(is, &now); err != nil {
		t.Fatal(err)
	}
	for _, difference := range differences("", former.Member, now) {
		t.Error(difference)
	}
}

// differences are the places at which a value is not as it was; fields that came later are none.
func differences(at string, was, is any) (all []string) {
	switch was := was.(type) {
	case map[string]any:
		fields, _ := is.(map[string]any)
		for name, value := range was {
			all = append(all, differences(at+"."+name, value, fields[name])...)
		}
		return all
	case []any:
		if items, ok := is.([]any); ok && len(items) == len(was) {
			for i := range was {
				all = append(all, differences(fmt.Sprintf("%s[%d]", at, i), was[i], items[i])...)
			}
			return all
		}
	}
	if !reflect.DeepEqual(was, is) {
		all = append(all, fmt.Sprintf("%s was %v, and is %v", at, was, is))
	}
	return all
}
