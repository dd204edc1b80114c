// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"
	"unique"

	"tributary.dev/tributary/internal/uid"
	"tributary.dev/tributary/syncer"
)

// record is a pod as it is stored: what other pods have as well is shared with them, and what
// a usual pod has is stored as numbers. It has 96 bytes, and its name.
type record struct {
	name     string
	uid      uid.Packed
	addr     [16]byte
	group    *group
	node     unique.Handle[string] // its name; "" is none
	template *template
	odd      *odd // nil for a usual pod
	revision uint64
	since    uint32 // ReadySince
	flags    flags
}

// odd is what an unusual pod has in addition: a UID that is no UUID, other than one address, or a
// hostname that is not its name.
type odd struct {
	uid      string
	ips      []syncer.PodIP
	hostname string
}

type flags uint16

const (
	ready flags = 1 << iota
	wasReady
	terminating
	terminal
	nodeSilent
	hostNetwork
	hasAddress    // addr is one
	hostnameNamed // the hostname is the name
)

func (f flags) has(flag flags) bool { return f&flag != 0 }

// flagIf is the flag if it is so.
func flagIf(so bool, flag flags) flags {
	if so {
		return flag
	}
	return 0
}

// fill copies a pod, but for its name and group.
func (rec *record) fill(p *syncer.Pod) {
	rec.node, rec.since = unique.Make(p.NodeName), uint32(p.ReadySince)
	rec.flags = flagIf(p.Ready, ready) | flagIf(p.WasReady, wasReady) | flagIf(p.Terminating, terminating) |
		flagIf(p.Terminal, terminal) | flagIf(p.NodeSilent, nodeSilent) | flagIf(p.HostNetwork, hostNetwork)
	var o odd
	var plain bool
	if rec.uid, plain = uid.Pack(p.UID); !plain {
		o.uid = p.UID
	}
	rec.addr = [16]byte{}
	switch {
	case len(p.IPs) == 1 && p.IPs[0].Raw == "" && isPlain(p.IPs[0].Addr):
		rec.addr, rec.flags = p.IPs[0].Addr.As16(), rec.flags|hasAddress
	case len(p.IPs) > 0:
		o.ips = slices.Clone(p.IPs)
	}
	switch p.Hostname {
	case "":
	case rec.name:
		rec.flags |= hostnameNamed
	default:
		o.hostname = p.Hostname
	}
	rec.odd = nil
	if o.uid != "" || o.ips != nil || o.hostname != "" {
		rec.odd = &o
	}
}

// isPlain reports whether an address is the same when it is read back from its 16 bytes.
func isPlain(addr netip.Addr) bool { return addr.IsValid() && addr.Zone() == "" && !addr.Is4In6() }

// view is the pod that a record holds, but for its UID: see appendUID. ip is room for its
// address.
func (rec *record) view(ip *[1]syncer.PodIP) syncer.Pod {
	f := rec.flags
	p := syncer.Pod{
		Key:    syncer.Key{Namespace: rec.group.ns.name, Name: rec.name},
		Labels: rec.group.labels, ReadySince: int64(rec.since), Matches: rec.template.matches,
		Ports: rec.template.ports, Subdomain: rec.template.subdomain, NodeName: rec.node.Value(),
		Ready: f.has(ready), WasReady: f.has(wasReady), Terminating: f.has(terminating),
		Terminal: f.has(terminal), NodeSilent: f.has(nodeSilent), HostNetwork: f.has(hostNetwork),
	}
	if f.has(hostnameNamed) {
		p.Hostname = rec.name
	}
	if f.has(hasAddress) {
		ip[0] = syncer.PodIP{Addr: netip.AddrFrom16(rec.addr).Unmap()}
		p.IPs = ip[:]
	}
	if o := rec.odd; o != nil {
		p.Hostname += o.hostname
		if o.ips != nil {
			p.IPs = o.ips
		}
	}
	return p
}

// pod is the pod that a record holds, as a value of its own.
func (rec *record) pod() *syncer.Pod {
	p := rec.view(new([1]syncer.PodIP))
	p.UID = string(rec.appendUID(nil))
	return &p
}

// hasUID reports whether the pod has a UID.
func (rec *record) hasUID(text string) bool {
	if packed, plain := uid.Pack(text); plain {
		return packed == rec.uid && rec.oddUID() == ""
	}
	return text == rec.oddUID()
}

// appendUID appends the UID as text.
func (rec *record) appendUID(b []byte) []byte {
	if rec.uid == (uid.Packed{}) {
		return append(b, rec.oddUID()...)
	}
	return rec.uid.Append(b)
}

func (rec *record) oddUID() string {
	if rec.odd != nil {
		return rec.odd.uid
	}
	return ""
}
