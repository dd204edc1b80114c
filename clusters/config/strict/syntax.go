// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"bytes"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parserPrefix is what the parser puts before its message. Its line is that of the token before, for most faults.
var parserPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// malformed is the fault of a text that is not YAML, at the place where the parser gave up; or, where that is the end of
// the text, where what is not closed begins, if the parser knows, and else at the last character.
func malformed(parser *yaml.Decoder, data []byte, err error) Fault {
	f := Fault{Message: "is not valid YAML: " + reason(parserPrefix.ReplaceAllString(err.Error(), ""))}
	whole := reflect.ValueOf(parser)
	state := inside(whole, "parser", "parser")
	at, known := markOf(inside(state, "problem_mark"))
	last := markIn(bytes.TrimRight(data, " \t\r\n"))
	switch {
	case !known:
		return f
	case strings.Contains(err.Error(), "anchor"): // found after the parser had read it
		at, _ = markOf(inside(whole, "parser", "event", "start_mark"))
	case at == mark{}: // a character that YAML does not allow, or the first one
		at = markIn(data[:min(len(data), int(inside(state, "problem_offset").Int()))])
	case at.line < last.line || at.line == last.line && at.column < last.column:
	case inside(state, "context").String() != "":
		if begun, _ := markOf(inside(state, "context_mark")); begun != at {
			at = begun
			break
		}
		fallthrough
	default:
		at = mark{last.line, max(0, last.column-1)}
	}
	f.Line, f.Column = at.line+1, at.column+1
	return f
}

// markIn is where a text ends.
func markIn(text []byte) mark {
	return mark{bytes.Count(text, []byte("\n")), utf8.RuneCount(text[bytes.LastIndexByte(text, '\n')+1:])}
}

// mark is a place in the text, from 0.
type mark struct{ line, column int }

// inside is an unexported part of the parser, which tells in no other way where it stands; not valid in a version of it
// that has another form. Places are then missing, which the tests of this package notice.
func inside(v reflect.Value, names ...string) reflect.Value {
	for _, name := range names {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return reflect.Value{}
		}
		v = v.FieldByName(name)
	}
	return v
}

func markOf(v reflect.Value) (mark, bool) {
	line, column := inside(v, "line"), inside(v, "column")
	if !line.IsValid() || !column.IsValid() {
		return mark{}, false
	}
	return mark{int(line.Int()), int(column.Int())}, true
}

// reason is the parser's message without what it may quote from the file: only
// its message about anchors does.
func reason(text string) string {
	if strings.Contains(text, "anchor") {
		return "an alias names an unknown anchor (a value that begins with * must be quoted)"
	}
	return text
}
