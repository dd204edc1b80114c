// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uid stores the UIDs of objects in little memory: nearly all are UUIDs, which fit into 16 bytes instead of 36.
package uid

import "encoding/hex"

// Length is that of a UUID as text.
const Length = 36

// Packed is a UUID; the zero value is none.
type Packed [16]byte

// Pack reads a UUID as API servers write it; plain is false for any other text but the empty one.
func Pack(text string) (u Packed, plain bool) {
	if len(text) == Length {
		var digits, again [Length]byte
		n := copy(digits[:], text[:8])
		for _, part := range []string{text[9:13], text[14:18], text[19:23], text[24:]} {
			n += copy(digits[n:], part)
		}
		_, err := hex.Decode(u[:], digits[:n])
		if err == nil && u != (Packed{}) && string(u.Append(again[:0])) == text {
			return u, true
		}
	}
	return Packed{}, text == ""
}

// Append appends the text of a UUID.
func (u Packed) Append(b []byte) []byte {
	for _, part := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10]} {
		b = append(hex.AppendEncode(b, part), '-')
	}
	return hex.AppendEncode(b, u[10:])
}
