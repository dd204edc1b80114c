// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"
)

// suggest says which known name was meant, or which there are.
func suggest(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known here: " + strings.Join(known, ", ")
}

// Nearest is the known name that a slip of the fingers would turn into this one; "" if
// there is none.
func Nearest(name string, known []string) (best string) {
	const longest = 64
	if len(name) > longest {
		return ""
	}
	bestDistance := max(2, len(name)/3) + 1
	for _, k := range known {
		if distance := editDistance(strings.ToLower(name), strings.ToLower(k)); distance < bestDistance && distance < len(k) {
			best, bestDistance = k, distance
		}
	}
	return best
}

// editDistance counts the insertions, deletions and substitutions of bytes that turn a
// into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
