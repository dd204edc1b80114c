// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "bytes"

// content is what one look at a file gave: its bytes, or why there were none.
type content struct {
	data []byte
	err  error
}

func (c content) equal(other content) bool {
	if c.err != nil || other.err != nil {
		return c.err != nil && other.err != nil && c.err.Error() == other.err.Error()
	}
	return bytes.Equal(c.data, other.data)
}

// followed is one file that is looked at again and again. A new content counts when two
// looks in a row saw it: what is being written in place is seen growing, and a file that
// is deleted and created again is missed at one look at most.
type followed struct{ settled, seen content }

// settle makes a content count at once, as at the start.
func (f *followed) settle(now content) { *f = followed{now, now} }

// look takes one look's content and reports whether what counts has changed.
func (f *followed) look(now content) bool {
	again := now.equal(f.seen)
	f.seen = now
	if !again || now.equal(f.settled) {
		return false
	}
	f.settled = now
	return true
}
