// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"regexp"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

// The twins of the hand-written checks: the API's formats as it documents them.
var (
	labelFormat     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomainFormat = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	nameFormat      = regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`)
	letter          = regexp.MustCompile(`[a-z]`)
)

func qualifiedByFormat(s string) bool {
	parts := strings.Split(s, "/")
	name := parts[len(parts)-1]
	if len(parts) > 2 || len(name) > 63 || !nameFormat.MatchString(name) {
		return false
	}
	return len(parts) == 1 || len(parts[0]) <= 253 && subdomainFormat.MatchString(parts[0])
}

func TestNamesFollowTheFormats(t *testing.T) {
	texts := []string{"", "a", "-", "a-", "-a", "a.b", "a..b", ".a", "a.", "A", "a_b", "a/b", "/b", "a/", "a/b/c", "a/B_c.d", "a.b/c",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 127) + "a",
		strings.Repeat("a", 253), strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63), "ä"}
	r := dice.New(t)
	for range 20_000 {
		b := make([]byte, r.IntN(6))
		for i := range b {
			b[i] = "ab9-._/AZ "[r.IntN(10)]
		}
		texts = append(texts, string(b))
	}
	for _, s := range texts {
		if got, want := IsLabel(s), len(s) <= 63 && labelFormat.MatchString(s); got != want {
			t.Errorf("IsLabel(%q) = %v", s, got)
		}
		if got, want := isSubdomain(s), len(s) <= 253 && subdomainFormat.MatchString(s); got != want {
			t.Errorf("isSubdomain(%q) = %v", s, got)
		}
		if got, want := IsQualifiedName(s), qualifiedByFormat(s); got != want {
			t.Errorf("IsQualifiedName(%q) = %v", s, got)
		}
		if got, want := IsLabelValue(s), s == "" || len(s) <= 63 && nameFormat.MatchString(s); got != want {
			t.Errorf("IsLabelValue(%q) = %v", s, got)
		}
		if got, want := IsTargetPortName(s), len(s) <= 15 && labelFormat.MatchString(s) && letter.MatchString(s) && !strings.Contains(s, "--"); got != want {
			t.Errorf("IsTargetPortName(%q) = %v", s, got)
		}
	}
}
