// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Cause is one reason that an API server gave for refusing an object: the field,
// as in "subsets[0].addresses[3].ip", and why.
type Cause struct {
	Field   string
	Message string
}

// Blame tells from a server's causes which addresses of an action it refused.
func Blame(a *Action, causes []Cause) []Refusal {
	var found []Refusal
	for _, cause := range causes {
		r := Refusal{Address: a.addressAt(cause.Field), Message: shortened(cause.Field + ": " + cause.Message)}
		if r.Address.IsValid() && !slices.ContainsFunc(found, r.Is) {
			found = append(found, r)
		}
	}
	return found
}

// The fields by which API servers name an address of a slice, and of Endpoints.
var (
	sliceField  = regexp.MustCompile(`^endpoints\[(\d{1,9})\]`)
	subsetField = regexp.MustCompile(`^subsets\[(\d{1,9})\]\.(addresses|notReadyAddresses)\[(\d{1,9})\]`)
)

// addressAt is the address that a field is about; the zero Addr when it is about
// none.
func (a *Action) addressAt(field string) (addr netip.Addr) {
	if at := sliceField.FindStringSubmatch(field); at != nil && a.Slice != nil {
		if i, _ := strconv.Atoi(at[1]); i < len(a.Slice.Endpoints) {
			return a.Slice.Endpoints[i].Addr
		}
	}
	if at := subsetField.FindStringSubmatch(field); at != nil && a.Endpoints != nil {
		n, _ := strconv.Atoi(at[1])
		i, _ := strconv.Atoi(at[3])
		if n >= len(a.Endpoints.Subsets) {
			return addr
		}
		list := a.Endpoints.Subsets[n].Ready
		if at[2] == "notReadyAddresses" {
			list = a.Endpoints.Subsets[n].NotReady
		}
		if i < len(list) {
			return list[i].Addr
		}
	}
	return addr
}

// maxMessage bounds text that comes from a server and may repeat a member's.
const maxMessage = 300

func shortened(s string) string {
	if len(s) > maxMessage {
		return strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}
