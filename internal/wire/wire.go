// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire reads protobuf field by field, for messages of which little is wanted and of which
// there are many: the rest is skipped, and never decoded.
//
// What never happens here: whatever the bytes are, there is no panic; nothing is copied.
package wire

import "google.golang.org/protobuf/encoding/protowire"

// Path names a field of a message in a message: the numbers of the fields on the way to it, a byte
// each. 0x0b06 is the field 6 of the message in the field 11.
type Path uint32

// Walk visits the fields of a message in their order, and those of a message in it if visit returns
// into. number is the value of a number or a bool, bytes that of a text or a message. Fields of the
// same number may follow each other, and any may be missing. After an error, discard what was
// visited.
func Walk(message []byte, visit func(at Path, number uint64, bytes []byte) (into bool)) error {
	return walk(message, 0, visit)
}

func walk(rest []byte, in Path, visit func(Path, uint64, []byte) bool) error {
	for len(rest) > 0 {
		field, kind, size := protowire.ConsumeTag(rest)
		if size < 0 {
			return protowire.ParseError(size)
		}
		var number uint64
		var bytes []byte
		switch rest = rest[size:]; kind {
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(rest)
		case protowire.BytesType:
			bytes, size = protowire.ConsumeBytes(rest)
		default:
			size = protowire.ConsumeFieldValue(field, kind, rest)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		rest = rest[size:]
		if field > 0xff { // none that anybody wants
			continue
		}
		if at := in<<8 | Path(field); visit(at, number, bytes) {
			if err := walk(bytes, at, visit); err != nil {
				return err
			}
		}
	}
	return nil
}
