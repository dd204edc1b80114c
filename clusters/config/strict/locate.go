// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Locate returns a copy in which every fault that names this file, or none, has the line
// and column of its field in data, or of the innermost field around it that is there. It
// is for when there are faults: the text is parsed once more.
func (fs Faults) Locate(file string, data []byte) Faults {
	if len(fs) == 0 {
		return fs
	}
	var document yaml.Node
	if yaml.Unmarshal(data, &document) != nil || len(document.Content) == 0 {
		return fs
	}
	places := map[string]*yaml.Node{}
	place(document.Content[0], "", places)
	out := make(Faults, len(fs))
	for i, f := range fs {
		if (f.File == "" || f.File == file) && f.Field != "" && f.Line == 0 {
			if n := innermost(f.Field, places); n != nil {
				f.Line, f.Column = n.Line, n.Column
			}
			if value := places[f.Field+valueMark]; value != nil && f.ValueLine > 0 {
				f.Line, f.Column = inText(data, value, f.ValueLine, f.ValueColumn)
			}
		}
		out[i] = f
	}
	return out
}

// valueMark after a field's path is where its text stands.
const valueMark = "="

// place notes where every field stands: that of a mapping at its key, where a person
// looks for it.
func place(n *yaml.Node, path string, places map[string]*yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			field := join(path, n.Content[i].Value)
			if places[field] == nil {
				places[field] = n.Content[i]
				if n.Content[i+1].Kind == yaml.ScalarNode {
					places[field+valueMark] = n.Content[i+1]
				}
				place(n.Content[i+1], field, places)
			}
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			field := fmt.Sprintf("%s[%d]", path, i)
			places[field] = item
			place(item, field, places)
		}
	}
}

// innermost finds a field, or the nearest one around it.
func innermost(field string, places map[string]*yaml.Node) *yaml.Node {
	for field != "" {
		if n := places[field]; n != nil {
			return n
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return nil
}
