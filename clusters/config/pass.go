// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path"
	"slices"
	"strings"
)

// matchesAny reports whether a name matches one of some valid globs.
func matchesAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		matched, err := path.Match(glob, name)
		return err == nil && matched
	})
}

// Matcher returns the choice as a function of the key, nil if every key passes. It
// does not change with p.
func (p Pass) Matcher() func(key string) bool {
	pass, drop := unslashedAll(p.Pass), unslashedAll(p.Drop)
	if slices.Contains(pass, "*") {
		if len(drop) == 0 {
			return nil
		}
		pass = []string{"*"}
	}
	return func(key string) bool {
		key = unslashed(key)
		return matchesAny(pass, key) && !matchesAny(drop, key)
	}
}

// unslashed makes a slash a character like any other: globs of paths keep it apart.
func unslashed(text string) string { return strings.ReplaceAll(text, "/", "\x00") }

func unslashedAll(globs []string) []string {
	out := make([]string, len(globs))
	for i, glob := range globs {
		out[i] = unslashed(glob)
	}
	return out
}
