// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/syncer"
)

// Options configure a Decoder.
type Options struct {
	// Match says which rules of the configuration match a pod: bit i is rule i; nil: none
	// does. It is called for each pod that is read, by many goroutines at once.
	Match func(*corev1.Pod) uint64
	// Keep selects the annotations of Services that are stored beside our own; nil: no others.
	Keep func(annotation string) bool
}

// Decoder turns API objects into the values of package syncer. It retains nothing
// of the object but its strings, never panics whatever the object holds, and
// shares what repeats from one pod to the next, so that a list of 50,000
// pods does not hold 50,000 texts of labels before the store has seen it.
//
// The sharing is a cache of fixed size where the newer of two contents with the
// same slot wins: lists come sorted by namespace and name, so pods of one
// template follow each other. It helps only while a list is decoded; the store
// counts exactly what is shared.
//
// Safe for concurrent use.
type Decoder struct {
	options Options

	mu      sync.Mutex // of all below: pods are read one at a time
	seed    maphash.Seed
	strings [stringSlots]string
	ports   [portSlots][]syncer.ContainerPort
	scratch scratch
}

// Slots are powers of two. All full, a Decoder holds some 0.5 MB.
const (
	longestShared = 1024
	stringSlots   = 2048
	portSlots     = 256
)

// New returns a Decoder.
func New(options Options) *Decoder { return &Decoder{options: options, seed: maphash.MakeSeed()} }

// bytes returns an earlier copy of a short text that tends to repeat.
func (d *Decoder) bytes(s []byte) string {
	if len(s) == 0 || len(s) > longestShared {
		return string(s)
	}
	slot := &d.strings[maphash.Bytes(d.seed, s)%stringSlots]
	if *slot != string(s) {
		*slot = string(s)
	}
	return *slot
}

// pair is a label, and its text "key=value".
type pair struct{ key, value, text []byte }

// labels returns the set that was collected as syncer.LabelsOf does, an earlier copy of it if there
// is one. Of a key that repeats the last one counts, as in any map of protobuf.
func (d *Decoder) labels() syncer.Labels {
	s := &d.scratch
	for i := range s.pairs {
		p, begin := &s.pairs[i], len(s.text)
		s.text = append(append(append(s.text, p.key...), '='), p.value...)
		p.text = s.text[begin:]
	}
	key := func(p pair) []byte { return p.text[:len(p.key)+1] }
	slices.SortStableFunc(s.pairs, func(a, b pair) int { return bytes.Compare(key(a), key(b)) })
	begin := len(s.text)
	for i, p := range s.pairs {
		repeats := i+1 < len(s.pairs) && bytes.Equal(p.key, s.pairs[i+1].key)
		if repeats || bytes.ContainsAny(p.key, ",=") || bytes.ContainsAny(p.value, ",=") {
			continue
		}
		if len(s.text) > begin {
			s.text = append(s.text, ',')
		}
		s.text = append(s.text, p.text...)
	}
	return syncer.Labels(d.bytes(s.text[begin:]))
}

func (d *Decoder) sharedPorts(ports []syncer.ContainerPort) []syncer.ContainerPort {
	if len(ports) == 0 {
		return nil
	}
	var h maphash.Hash
	h.SetSeed(d.seed)
	for _, p := range ports {
		h.WriteString(p.Name)
		h.WriteByte(byte(p.Port))
	}
	slot := &d.ports[h.Sum64()%portSlots]
	if !slices.Equal(*slot, ports) {
		*slot = slices.Clone(ports)
	}
	return *slot
}

// annotations picks what the product uses; objects of other tools may carry
// hundreds of kilobytes that nobody here reads.
func (d *Decoder) annotations(m map[string]string) map[string]string {
	var used map[string]string
	for k, v := range m {
		if strings.HasPrefix(k, syncer.AnnotationPrefix) || d.options.Keep != nil && d.options.Keep(k) {
			if used == nil {
				used = map[string]string{}
			}
			used[k] = v
		}
	}
	return used
}

func keyOf(m *metav1.ObjectMeta) syncer.Key { return syncer.Key{Namespace: m.Namespace, Name: m.Name} }

// protocol has the API's default, which objects that passed no API server lack.
func protocol(p corev1.Protocol) string { return cmp.Or(string(p), syncer.TCP) }

func target(ref *corev1.ObjectReference) syncer.TargetRef {
	if ref == nil {
		return syncer.TargetRef{}
	}
	return syncer.TargetRef{Kind: ref.Kind, Key: syncer.Key{Namespace: ref.Namespace, Name: ref.Name}, UID: string(ref.UID)}
}

// unixSeconds is 0 for what needs more than 32 bits, or is no time at all.
func unixSeconds(second int64) int64 {
	if second > 0 && second <= math.MaxUint32 {
		return second
	}
	return 0
}

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
