// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"slices"

	"tributary.dev/tributary/syncer"
)

// templates holds one copy of each template in use by the text that identifies it. One without
// users is dropped.
type templates map[string]*template

// template is what pods of one template have in common, nearly always.
type template struct {
	text      string
	users     int
	matches   uint64
	ports     []syncer.ContainerPort
	subdomain string
}

// acquire returns the template of a pod.
func (t templates) acquire(p *syncer.Pod) *template {
	var room [256]byte
	text := appendTemplate(room[:0], p)
	of := t[string(text)]
	if of == nil {
		of = &template{text: string(text), matches: p.Matches, ports: slices.Clone(p.Ports), subdomain: p.Subdomain}
		t[of.text] = of
	}
	of.users++
	return of
}

// release ends one use of what acquire returned.
func (t templates) release(of *template) {
	if of.users--; of.users == 0 {
		delete(t, of.text)
	}
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

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
