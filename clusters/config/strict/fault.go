// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"fmt"
	"strings"
)

// Fault is one thing wrong with a file: where it is, what is wrong and what to
// do about it. It never holds a secret.
type Fault struct {
	// File is the path of the file as the user wrote it; empty if unknown.
	File string
	// Line and Column are where Field stands in the file, or what is not YAML, in characters
	// from 1; 0 if unknown.
	Line, Column int
	// ValueLine and ValueColumn are where the fault is inside of Field's text, such as a
	// script, in characters from 1; 0 if it is that of the whole field. Locate adds them to
	// where the text stands.
	ValueLine, ValueColumn int
	// Field is the path of the field, such as clusters[1].namespaces.include[0];
	// empty when the fault is that of the whole file.
	Field string
	// Message says what is wrong.
	Message string
	// Remedy says what to do; empty when Message leaves no doubt.
	Remedy string
}

// Error renders the fault on one line: "file:line:column: field: message; remedy".
func (f Fault) Error() string {
	file := f.File
	if file != "" && f.Line > 0 {
		file += fmt.Sprintf(":%d", f.Line)
		if f.Column > 0 {
			file += fmt.Sprintf(":%d", f.Column)
		}
	}
	text := f.Message
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	for _, place := range []string{f.Field, file} {
		if place != "" {
			text = place + ": " + text
		}
	}
	return text
}

// Faults are all the faults found, in the order of the file where it is known.
// A nil or empty list must not be returned as an error: use Err.
type Faults []Fault

// Error renders one fault a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Err is the list as an error, nil if there is no fault.
func (fs Faults) Err() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}

// In returns a copy in which every fault that names no file names this one.
func (fs Faults) In(file string) Faults {
	if fs == nil {
		return nil
	}
	out := make(Faults, len(fs))
	for i, f := range fs {
		if f.File == "" {
			f.File = file
		}
		out[i] = f
	}
	return out
}
