// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// What values are written with: texts and numbers.

// reader reads what was written. had is the most that one list or map, and one text had.
type reader struct {
	all, left string
	had       sizes
}

func newReader(text string) *reader { return &reader{all: text, left: text} }

// appendText writes a text, or where it was written before: a container mostly runs the
// image that is asked for. What is written never changes, so any of it may be that.
func appendText(b []byte, text string) []byte {
	const short, near = 4, 4 << 10
	if len(text) > short {
		if at := bytes.Index(b[:min(len(b), near)], []byte(text)); at >= 0 {
			return binary.AppendUvarint(binary.AppendUvarint(b, uint64(len(text))<<1|1), uint64(1+at))
		}
	}
	return append(binary.AppendUvarint(b, uint64(len(text))<<1), text...)
}

// appendLength writes how many characters a text has, and nothing of it.
func appendLength(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(utf8.RuneCountInString(text))<<1|1), 0)
}

func (r *reader) byte() (b byte) {
	if r.left != "" {
		b, r.left = r.left[0], r.left[1:]
	}
	return b
}

func (r *reader) unsigned() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := r.byte()
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

// number reads what AppendVarint wrote.
func (r *reader) number() int64 {
	n := r.unsigned()
	return int64(n>>1) ^ -int64(n&1)
}

// count is how many elements follow: each takes a byte at least.
func (r *reader) count() int {
	n := int(min(r.unsigned(), uint64(len(r.left))))
	r.had.list = max(r.had.list, uint64(n))
	return n
}

func (r *reader) text() (text string) {
	const most = 1 << 24 // more than an object has
	n := r.unsigned()
	size := int(min(n>>1, most))
	r.had.text = max(r.had.text, uint64(size))
	if n&1 != 0 {
		at := r.unsigned()
		if at == 0 {
			return strings.Repeat(" ", size)
		}
		size = min(size, len(r.all))
		from := int(min(at-1, uint64(len(r.all)-size)))
		return r.all[from : from+size]
	}
	size = min(size, len(r.left))
	text, r.left = r.left[:size], r.left[size:]
	return text
}
