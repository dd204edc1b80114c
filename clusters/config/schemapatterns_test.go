// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/internal/dice"
)

// form is how the text of a field must look: what the schema says by a pattern, and Go by rules of its own.
type form struct {
	pattern string
	// samples are texts to try, some of that form and some not; letters are for more of them.
	samples, letters string
}

const (
	label       = `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`
	units       = `(ns|us|µs|μs|ms|s|m|h)`
	durations   = `[-+]?0|\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)` + units + `)+|-((0+(\.0*)?|\.0+)` + units + `)+`
	anyElement  = `([^-\]\\]|\\[\s\S])`
	anyFirst    = `([^-\]\\^]|\\[\s\S])`
	nameElement = `([a-z0-9*?[^]|\\[-a-z0-9*?[\]^\\])`
	nameFirst   = `([a-z0-9*?[]|\\[-a-z0-9*?[\]^\\])`
)

// glob is the pattern of globs: of what stands for itself, of what may follow a backslash, and of the elements of a class,
// the first of which is no ^.
func glob(plain, escaped, element, first string) string {
	follow := `(` + element + `(-` + element + `)?)`
	return `^(` + plain + `|\\` + escaped + `|\[(\^` + follow + `+|` + first + `(-` + element + `)?` + follow + `*)\])+$`
}

var (
	labelled  = form{`^` + label + `$`, "a|a-b|0|A|a_b|-a|a-|a.b||idc-a|" + strings.Repeat("x", 63) + "|" + strings.Repeat("x", 64), "a0-A."}
	namespace = form{`^(` + label + `)?$`, labelled.samples, labelled.letters}
	lasting   = form{`^(` + durations + `)$`, "-0s|-.0h|1s|1m30s|1.5m|.5m|1.m|100ms|0|0s|2000000µs|+3s|-3s|3|3x|s||1 s|1s 2s|1.2.3s|1h|.s|s3", "013.smh+-"}
	overrides = form{`^(` + durations + `)?$`, lasting.samples, lasting.letters}
	anyGlob   = form{glob(`[^\\[]`, `[\s\S]`, anyElement, anyFirst), `a|*|idc-*|[a-c]|[^a]|[a|\|a\|\a|[]|[^]|[a-]|[-a]|[a\]|[]a]|?|]|A/B|[^^]|[ab-d]|[a-b-c]|`, `a*[]^\-/`}
	nameGlob  = form{glob(`[-a-z0-9*?^\]]`, `[-a-z0-9*?[\]^\\]`, nameElement, nameFirst), anyGlob.samples + "|Prod|a.b|kube-*|web", `a*[]^\-A`}
)

// forms are those of fields, beside every Duration.
var forms = map[string]form{
	"instance": labelled, "clusters[].name": labelled, "sinks[].name": labelled, "rules[].name": labelled,
	"namespace": namespace, "leases.namespace": namespace, "leaderElection.namespace": namespace, "clustersFrom.secrets.namespace": namespace,
	"clusters[].namespaces.include[]": nameGlob, "clusters[].namespaces.exclude[]": nameGlob, "ingress.namespaces[]": nameGlob, "replicas.rules[].namespaces[]": nameGlob,
	"readiness.namespaces[].names[]": nameGlob, "clusters[].readiness.namespaces[].names[]": nameGlob, "rules[].namespaces[]": nameGlob, "sinks[].namespaces[]": nameGlob,
	"rules[].clusters[]": anyGlob, "replicas.labels.pass[]": anyGlob, "replicas.labels.drop[]": anyGlob, "replicas.annotations.pass[]": anyGlob, "replicas.annotations.drop[]": anyGlob,
}

// loose are patterns of fields whose form no pattern can tell: what one refuses Go refuses, and Go refuses more.
var loose = map[string]string{
	"listen": `:[0-9]+$`, "metricsListen": `^$|:[0-9]+$`, "clusters[].allowedCIDRs[]": `^[0-9a-fA-F.:]+/[0-9]+$`,
	"sinks[].url": `^[hH][tT][tT][pP][sS]?://.`, "clustersFrom.secrets.selector": `.`,
}

// TestLoosePatternsRefuseNothingGood: what such a pattern refuses, Go refuses.
func TestLoosePatternsRefuseNothingGood(t *testing.T) {
	patterns := patternsIn(schema(t))
	samples := strings.Split("||foo|9440|:1|:x|127.0.0.1:9440|[::1]:65535|localhost:0|a b:1|10.0.0.0/8|fd00::/8|::/0|10.0.0.0|10.0.0.0/|1/8|::ffff:10.0.0.0/104|"+
		"https://x|HTTP://x/a?b|https://|https:x|ftp://x|x|https://[::1]:1/|a=b|!a|a in (b)| |,", "|")
	for path, pattern := range loose {
		if patterns[path] != pattern {
			t.Errorf("%s has the pattern %q", path, patterns[path])
		}
		for _, text := range samples {
			if !regexp.MustCompile(pattern).MatchString(text) && refusal(t, path, text, regexp.MustCompile(`.`)) == "" {
				t.Errorf("%s: Go takes %q, the schema does not", path, text)
			}
		}
	}
}

// formOf is the form of a field of a type, whose default is given; false if it has none.
func formOf(path string, t reflect.Type, value string) (form, bool) {
	if t == reflect.TypeFor[Duration]() {
		if value == "" { // overrides nothing
			return overrides, true
		}
		return lasting, true
	}
	f, found := forms[unshared(path)]
	if pattern, known := loose[unshared(path)]; known {
		return form{pattern: pattern}, true
	}
	return f, found
}

// malformed are the words by which Go refuses a text for its form, and not for what else the file says.
var malformed = regexp.MustCompile(`is not a (length of time|DNS label|glob|namespace)|is not the name of a namespace|cannot match any namespace|must be given|has \d+ characters`)

// TestSchemaAndGoAgree: a text that Go refuses for its form the schema refuses by its pattern, and no other.
func TestSchemaAndGoAgree(t *testing.T) {
	random := dice.New(t)
	patterns := patternsIn(schema(t))
	for path := range forms {
		if patterns[path] == "" {
			t.Errorf("no field is called %s", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(patterns)) {
		if loose[unshared(path)] != "" {
			continue
		}
		var of form
		for _, f := range append(slices.Collect(maps.Values(forms)), lasting, overrides) {
			if f.pattern == patterns[path] {
				of = f
			}
		}
		samples := strings.Split(of.samples, "|")
		for range 60 {
			text := make([]byte, random.IntN(7))
			for i := range text {
				text[i] = of.letters[random.IntN(len(of.letters))]
			}
			samples = append(samples, string(text))
		}
		pattern := regexp.MustCompile(patterns[path])
		for _, text := range samples {
			if fits, refused := pattern.MatchString(text), refusal(t, path, text, malformed); fits == (refused != "") {
				t.Errorf("%s: %q fits the schema's pattern: %v; Go says %q", path, text, fits, refused)
			}
		}
	}
}

// refusal is what Go says against a value of a field, in some words.
func refusal(t *testing.T, path string, value any, words *regexp.Regexp) string {
	t.Helper()
	parts := strings.Split(path, ".")
	for i := len(parts) - 1; i >= 0; i-- {
		name, list := strings.CutSuffix(parts[i], "[]")
		if list {
			value = []any{value}
		}
		value = map[string]any{name: value}
	}
	file, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse("", file)
	faults, _ := err.(Faults)
	for _, f := range faults {
		if f.Field == strings.ReplaceAll(path, "[]", "[0]") && words.MatchString(f.Message) {
			return f.Message
		}
	}
	return ""
}

// patternsIn are the patterns of a schema, by the path of their field.
func patternsIn(s map[string]any) map[string]string {
	out := map[string]string{}
	eachProperty(s, "", func(path string, of map[string]any) {
		if pattern, ok := of["pattern"].(string); ok {
			out[path] = pattern
		}
	})
	return out
}
