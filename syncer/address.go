// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"bytes"
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
)

// ParseAddr reads an IP address as leniently as Kubernetes does in the fields
// of old objects: leading zeros are dropped and do not mean octal, an IPv4-mapped
// IPv6 address is the IPv4 address. Zones are refused. The result prints in
// canonical form. Rule source: k8s.io/utils/net ParseIPSloppy.
func ParseAddr(text string) (addr netip.Addr, ok bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		addr, err = netip.ParseAddr(leadingZeros.ReplaceAllString(text, "$1$2"))
	}
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// leadingZeros are those of each number of an address.
var leadingZeros = regexp.MustCompile(`(^|[.:])0+([[:xdigit:]])`)

// refuse says why an address cannot be published: an API server would answer
// 422 to the whole object (validation.ValidateEndpointIP), or the configuration
// does not allow it. It returns "" for an address that is fine.
func refuse(addr netip.Addr, allowed []netip.Prefix) RejectReason {
	switch {
	case !addr.IsValid() || addr.Zone() != "":
		return RejectMalformed
	case addr.IsUnspecified():
		return RejectUnspecified
	case addr.IsLoopback():
		return RejectLoopback
	case addr.IsLinkLocalUnicast():
		return RejectLinkLocal
	case addr.IsLinkLocalMulticast():
		return RejectMulticast
	case len(allowed) > 0 && !slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(addr) }):
		return RejectNotAllowed
	}
	return ""
}

// familyOf returns the family of a valid, unmapped address.
func familyOf(addr netip.Addr) Family {
	if addr.Is4() {
		return IPv4
	}
	return IPv6
}

// CompareAddr orders addresses by the bytes of their text, as upstream orders
// the addresses of Endpoints: 10.0.0.10 comes before 10.0.0.9.
func CompareAddr(a, b netip.Addr) int { return compareRanked(rankAddr(a), a, rankAddr(b), b) }

// addrRank represents the text of an IPv4 address in comparisons, so that
// sorting thousands of them renders none. It is 0 for other addresses.
type addrRank uint64

// rankAddr works because "." and the end of a string sort before every digit:
// comparing dotted texts is comparing the four octets' texts one by one.
func rankAddr(addr netip.Addr) addrRank {
	if !addr.Is4() {
		return 0
	}
	o := addr.As4()
	return 1<<32 | addrRank(octetRank[o[0]])<<24 | addrRank(octetRank[o[1]])<<16 |
		addrRank(octetRank[o[2]])<<8 | addrRank(octetRank[o[3]])
}

// compareRanked is CompareAddr for callers that keep the ranks.
func compareRanked(rankA addrRank, a netip.Addr, rankB addrRank, b netip.Addr) int {
	if rankA != 0 && rankB != 0 {
		return cmp.Compare(rankA, rankB)
	}
	var x, y [64]byte
	return bytes.Compare(a.AppendTo(x[:0]), b.AppendTo(y[:0]))
}

// octetRank is the place of each octet among the texts "0" … "255".
var octetRank = func() (rank [256]uint8) {
	texts := make([]string, 256)
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	slices.Sort(texts)
	for place, text := range texts {
		octet, _ := strconv.Atoi(text)
		rank[octet] = uint8(place)
	}
	return rank
}()
