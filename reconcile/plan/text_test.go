// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/golden"
	"tributary.dev/tributary/syncer"
)

// story is a set of plans as `tributary plan` shows them: one of each kind.
func story(t *testing.T) []Plan {
	t.Helper()
	settings := Settings{WriteEndpoints: true, WriteSlices: true, CreateNamespaces: true}
	fresh := func(current Current, contributions ...Contribution) Plan {
		r := Merge(shopWeb, contributions, current, settings)
		return Diff(current, &r, settings)
	}
	w, contributions := stand(t)
	drained := contributions[1]
	drained.Drain = true
	left := []Contribution{from("idc-a", 100, "http:80>8080 admin:81>9000", "10.0.0.1!", "10.0.0.2"), drained}
	waiting := Current{Key: shopWeb, Namespace: NamespaceTerminating}
	foreign := Current{Key: shopWeb, Namespace: NamespaceActive, Service: &CurrentService{}}
	conflict := w.current
	held := from("idc-b", 200, "http:8080 admin:81>9000", "10.1.0.1")
	held.Drain = true
	kept := Plan{Replica: shopWeb, Kept: []Kept{{"idc-old", 3}}}
	plans := []Plan{
		fresh(Current{Key: shopWeb}, contributions...),
		fresh(w.current, left...),
		fresh(conflict, from("idc-a", 100, "http:80>8080 admin:81>9000", "10.0.0.1!"), held),
		fresh(waiting, contributions...),
		fresh(foreign, contributions...),
		Diff(w.current, nil, settings),
		kept,
	}
	for i := range plans {
		plans[i].Replica = syncer.Key{Namespace: "shop", Name: string(rune('a'+i)) + "-web"}
		for j := range plans[i].Conflicts {
			plans[i].Conflicts[j].Replica = plans[i].Replica
		}
	}
	return plans
}

func TestWriteText(t *testing.T) { golden.File(t, "testdata/plan.txt", []byte(textOf(t, story(t)...))) }

func TestWriteWide(t *testing.T) {
	var b strings.Builder
	if err := WriteText(&b, story(t), true); err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(b.String(), "\n\n")
	golden.File(t, "testdata/wide.txt", []byte(table+"\n"))
}

func TestWriteTextWithoutChanges(t *testing.T) {
	golden.File(t, "testdata/unchanged.txt", []byte(textOf(t, Plan{Replica: shopWeb}, Plan{Replica: shopWeb})))
}

func TestDocument(t *testing.T) {
	out, err := json.MarshalIndent(Document(story(t), nil), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/plan.json", append(out, '\n'))
}

// A program is told about the replicas that matter, and how many do not.
func TestDocumentLeavesOutWhatIsUnchanged(t *testing.T) {
	out, err := json.Marshal(Document([]Plan{{Replica: shopWeb}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Summary  Summary
		Replicas []any
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Summary != (Summary{Replicas: 1, Unchanged: 1}) || doc.Replicas == nil || len(doc.Replicas) > 0 {
		t.Errorf("%s", out)
	}
}
