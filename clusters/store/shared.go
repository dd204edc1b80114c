// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"slices"

	"tributary.dev/tributary/syncer"
)

// sharedStrings holds one copy of each text in use, such as a label's key or value, and counts
// its users. The empty one is not counted.
type sharedStrings map[string]*sharedString

type sharedString struct {
	text  string
	users int
}

func (t sharedStrings) acquire(text string) string {
	if text == "" {
		return ""
	}
	e := t[text]
	if e == nil {
		e = &sharedString{text: text}
		t[text] = e
	}
	e.users++
	return e.text
}

func (t sharedStrings) release(text string) {
	if e := t[text]; e != nil {
		if e.users--; e.users == 0 {
			delete(t, text)
		}
	}
}

// sharedPorts holds one copy of each list of named container ports in use: pods
// of one template have the same.
type sharedPorts map[string]*sharedPortList

type sharedPortList struct {
	ports []syncer.ContainerPort
	users int
}

func (t sharedPorts) acquire(ports []syncer.ContainerPort) []syncer.ContainerPort {
	if len(ports) == 0 {
		return nil
	}
	var buf [256]byte
	key := portsKey(buf[:0], ports)
	e := t[string(key)]
	if e == nil {
		e = &sharedPortList{ports: slices.Clone(ports)}
		t[string(key)] = e
	}
	e.users++
	return e.ports
}

func (t sharedPorts) release(ports []syncer.ContainerPort) {
	if len(ports) == 0 {
		return
	}
	var buf [256]byte
	key := portsKey(buf[:0], ports)
	e := t[string(key)]
	if e.users--; e.users == 0 {
		delete(t, string(key))
	}
}

// portsKey renders a list so that different lists never look the same.
func portsKey(b []byte, ports []syncer.ContainerPort) []byte {
	for i := range ports {
		b = binary.AppendUvarint(b, uint64(len(ports[i].Name)))
		b = append(b, ports[i].Name...)
		b = binary.AppendUvarint(b, uint64(len(ports[i].Protocol)))
		b = append(b, ports[i].Protocol...)
		b = binary.BigEndian.AppendUint32(b, uint32(ports[i].Port))
	}
	return b
}
