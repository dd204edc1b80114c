// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"iter"
	"slices"
	"strings"
)

// Labels are a set of labels as one text: its pairs as "key=value", sorted and joined by
// commas. A set costs its text and nothing else, two sets are equal when their texts are,
// and it can be the key of a map.
type Labels string

// LabelsOf returns a set as Labels. A pair that no API server accepts, because a comma or an
// equals sign is in it, is left out: no selector can ask for it.
func LabelsOf(set map[string]string) Labels {
	var room [24]string
	pairs := room[:0]
	for key, value := range set {
		if !strings.ContainsAny(key, ",=") && !strings.ContainsAny(value, ",=") {
			pairs = append(pairs, key+"="+value)
		}
	}
	slices.Sort(pairs)
	return Labels(strings.Join(pairs, ","))
}

// Get returns the value of a key; "" when there is none.
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// Lookup returns the value of a key.
func (l Labels) Lookup(key string) (value string, found bool) {
	for pair := range l.Pairs() {
		if len(pair) > len(key) && pair[len(key)] == '=' && pair[:len(key)] == key {
			return pair[len(key)+1:], true
		}
	}
	return "", false
}

// Pairs are the pairs as "key=value", sorted.
func (l Labels) Pairs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest := string(l); rest != ""; {
			pair, after, _ := strings.Cut(rest, ",")
			if !yield(pair) {
				return
			}
			rest = after
		}
	}
}

// Contains reports whether every pair of a selector is in the set. An empty selector is in
// every set.
func (l Labels) Contains(selector Labels) bool {
	mine := string(l)
	for want := range selector.Pairs() {
		for have := ""; have != want; {
			if mine == "" || have > want {
				return false
			}
			have, mine, _ = strings.Cut(mine, ",")
		}
	}
	return true
}

// Map returns the set as a map; nil for an empty one.
func (l Labels) Map() map[string]string {
	if l == "" {
		return nil
	}
	set := make(map[string]string, 1+strings.Count(string(l), ","))
	for pair := range l.Pairs() {
		key, value, _ := strings.Cut(pair, "=")
		set[key] = value
	}
	return set
}
