// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAPlaceInATextIsFoundInTheFile: however YAML writes the text. «» enclose what is
// looked for; nothing between them is the place after what stands before.
func TestAPlaceInATextIsFoundInTheFile(t *testing.T) {
	for _, file := range []string{
		"when: «pod».a\n", "when:   true && «pod».a   # c\n", "when: \"true && «pod».a\"\n", "when: 'a == ''b'' && «pod».c'\n",
		"when: \"a == \\\"b\\\" && «pod».c\"\n", "when: |\n  true &&\n    «pod».a\n", "a: 1\nwhen: |- # a comment\n\n      true &&\n\n        «pod».a\nb: 2\n",
		"when: >\n  true &&\n  «pod».a ||\n\n  x\n", "when: \"true &&\n  «pod».a\"\n", "when: true &&\n  «pod».a\n", "when: |\n  'äöü€' == «pod».a\n",
		"when: |\n  pod.a ==«»\n", "when: 'pod.a ==«»'\n", "when: pod.a ==«»\nb: pod\n", "when: \"\\t\\u00e4 == «pod».a\"\n", "rules: [{when: «pod».a}]\n",
	} {
		line := strings.Count(file[:strings.Index(file, "«")], "\n") + 1
		start := file[:strings.Index(file, "«")]
		column := len([]rune(start[strings.LastIndex(start, "\n")+1:])) + 1
		data := strings.NewReplacer("«", "", "»", "").Replace(file)
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(data), &document); err != nil {
			t.Fatal(file, err)
		}
		n := find(&document, "when")
		// The place in the value, as its reader tells it.
		at := strings.LastIndex(n.Value, "pod")
		if strings.Contains(file, "«»") {
			at = len(strings.TrimRight(n.Value, "\n"))
		}
		inLine := strings.Count(n.Value[:at], "\n") + 1
		inColumn := len([]rune(n.Value[strings.LastIndex(n.Value[:at], "\n")+1:at])) + 1
		if gotLine, gotColumn := inText([]byte(data), n, inLine, inColumn); gotLine != line || gotColumn != column {
			t.Errorf("%q: found at %d:%d, stands at %d:%d", file, gotLine, gotColumn, line, column)
		}
	}
}

// find returns the value of the first key of that name.
func find(n *yaml.Node, key string) *yaml.Node {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Value == key {
			return n.Content[i+1]
		}
		if found := find(c, key); found != nil {
			return found
		}
	}
	return nil
}
