// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"strings"

	"tributary.dev/tributary/syncer"
)

// maxRaw bounds what is read, and stored, of a text that may be an address, in
// bytes. The longest canonical spelling has 45.
const maxRaw = 64

// parseIP reads an address by the rules' lenient parser; a text that is none is
// stored, cut to maxRaw bytes, so that it can be reported.
func parseIP[T ~string | ~[]byte](text T) syncer.PodIP {
	if len(text) <= maxRaw {
		if addr, ok := syncer.ParseAddr(string(text)); ok {
			return syncer.PodIP{Addr: addr}
		}
	}
	return syncer.PodIP{Raw: strings.Clone(string(text[:min(len(text), maxRaw)]))}
}
