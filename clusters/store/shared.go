// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"

	"tributary.dev/tributary/syncer"
)

// shared holds one copy of each value in use by the text that identifies it, and counts its
// users: a value without any is dropped.
type shared[T any] map[string]*entry[T]

type entry[T any] struct {
	text  string
	value T
	users int
}

// acquire returns the entry of a text, which make fills if there is none.
func (t shared[T]) acquire(text []byte, make func() T) *entry[T] {
	e := t[string(text)]
	if e == nil {
		e = &entry[T]{text: string(text), value: make()}
		t[e.text] = e
	}
	e.users++
	return e
}

// release ends one use of what acquire returned.
func (t shared[T]) release(e *entry[T]) {
	if e.users--; e.users == 0 {
		delete(t, e.text)
	}
}

// template is what pods of one template have in common, nearly always.
type template struct {
	matches   uint64
	ports     []syncer.ContainerPort
	subdomain string
}

// appendTemplate renders what identifies a template, so that different ones never look the same.
func appendTemplate(b []byte, p *syncer.Pod) []byte {
	b = appendText(binary.AppendUvarint(b, p.Matches), p.Subdomain)
	for i := range p.Ports {
		port := &p.Ports[i]
		b = appendText(appendText(b, port.Name), port.Protocol)
		b = binary.BigEndian.AppendUint32(b, uint32(port.Port))
	}
	return b
}

// spec is what Services of one shape have in common.
type spec struct {
	families []syncer.Family
	ports    []syncer.ServicePort
	// publish is publishNotReadyAddresses.
	publish, external, selects bool
}

// appendSpec renders what identifies a spec.
func appendSpec(b []byte, v *syncer.Service) []byte {
	for i, set := range []bool{v.PublishNotReadyAddresses, v.ExternalName, v.Selector != nil} {
		if set {
			b = append(b, byte(i))
		}
	}
	b = binary.AppendUvarint(append(b, ';'), uint64(len(v.IPFamilies)))
	for _, family := range v.IPFamilies {
		b = appendText(b, string(family))
	}
	for i := range v.Ports {
		port := &v.Ports[i]
		b = appendText(appendText(appendText(b, port.Name), port.Protocol), port.Target.Name)
		b = binary.AppendVarint(binary.AppendVarint(b, int64(port.Port)), int64(port.Target.Number))
		if port.AppProtocol.Set {
			b = appendText(append(b, 1), port.AppProtocol.Value)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
