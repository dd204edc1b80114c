// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import "strings"

// The limits of names in the API (apimachinery's validation package).
const (
	maxLabel     = 63
	maxSubdomain = 253
	maxPortName  = 15
)

// IsLabel reports whether s is a DNS-1123 label: lower-case letters, digits and
// inner dashes, at most 63 bytes.
func IsLabel(s string) bool { return len(s) <= maxLabel && isLabelText(s) }

func isLabelText(s string) bool { return isText(s, isLowerAlnum, "-") }

// isText reports whether s is not empty, of alphanumerics, and between these of some others.
func isText(s string, alphanumeric func(byte) bool, others string) bool {
	for i := range len(s) {
		inner := i > 0 && i < len(s)-1
		if !alphanumeric(s[i]) && (!inner || strings.IndexByte(others, s[i]) < 0) {
			return false
		}
	}
	return s != ""
}

// isSubdomain reports whether s is a DNS-1123 subdomain: label texts joined by
// dots, at most 253 bytes in all. As in the API, a part may exceed 63 bytes.
func isSubdomain(s string) bool {
	if len(s) > maxSubdomain {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if !isLabelText(part) {
			return false
		}
	}
	return true
}

// IsQualifiedName reports whether s is an optional subdomain and a slash, then
// at most 63 letters, digits, dashes, dots and underscores that begin and end
// with a letter or digit.
func IsQualifiedName(s string) bool {
	prefix, name, found := strings.Cut(s, "/")
	if !found {
		name = prefix
	} else if !isSubdomain(prefix) {
		return false
	}
	return name != "" && IsLabelValue(name)
}

// IsLabelValue reports whether s is empty, or at most 63 letters, digits, dashes, dots
// and underscores that begin and end with a letter or digit.
func IsLabelValue(s string) bool {
	return s == "" || len(s) <= maxLabel && isText(s, isAlnum, "-_.")
}

// IsTargetPortName reports whether s may be a Service's targetPort by name, an IANA
// service name: a DNS label of at most 15 bytes that holds a letter and no two dashes in
// a row.
func IsTargetPortName(s string) bool {
	return len(s) <= maxPortName && isLabelText(s) && !strings.Contains(s, "--") &&
		strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyz")
}

func isLowerAlnum(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

func isAlnum(c byte) bool { return isLowerAlnum(c) || c >= 'A' && c <= 'Z' }
