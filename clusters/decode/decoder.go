// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Decoder turns API objects into the values of package syncer. It keeps nothing
// of the object but its strings, never panics whatever the object holds, and
// shares what repeats from one object to the next, so that a list of 50,000
// pods does not hold 50,000 label maps before the store has seen it.
//
// The sharing is a cache of fixed size where the newer of two contents with the
// same slot wins: lists come sorted by namespace and name, so pods of one
// template follow each other. It is a help for the way in only; the store keeps
// its own exact count of what is shared.
//
// Safe for concurrent use.
type Decoder struct {
	keep func(annotation string) bool
	// rules keeps what rules need of Pods and Services; nil: nothing.
	rules atomic.Pointer[rules.Keeper]

	mu      sync.Mutex
	seed    maphash.Seed
	strings [stringSlots]string
	labels  [labelSlots]map[string]string
	ports   [portSlots][]syncer.ContainerPort
}

// Slots are powers of two. All full, with label sets of 1 kB, a Decoder holds
// some 0.7 MB; with what rules need of as many pods, 2 MB more at most.
const (
	longestShared = 1024
	stringSlots   = 2048
	labelSlots    = 512
	portSlots     = 256
)

// annotationPrefix marks our own settings, which every Decoder keeps on a Service.
const annotationPrefix = "tributary.dev/"

// NewDecoder returns a Decoder. keep names the annotations of Services to carry
// on beside those under tributary.dev/ and the legacy tolerate-unready one; nil:
// no others.
func NewDecoder(keep func(annotation string) bool) *Decoder {
	return &Decoder{keep: keep, seed: maphash.MakeSeed()}
}

// KeepFor has what a set of rules needs kept of all objects that are decoded from now on,
// and what others do that are still in force; nil needs nothing. Whatever is kept from then on for the
// first of them is at least since.
func (d *Decoder) KeepFor(set *rules.Set, others ...*rules.Set) (since store.KeptSince) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.rules.Load()
	all := append([]*rules.Set{set}, others...)
	if k == nil && !slices.ContainsFunc(all, func(s *rules.Set) bool { return s != nil }) {
		return since
	}
	k = k.Next(all...)
	d.rules.Store(k)
	return k.Since(set)
}

// str returns an earlier copy of a short string that tends to repeat.
func (d *Decoder) str(s string) string {
	if s == "" || len(s) > longestShared {
		return s
	}
	slot := &d.strings[maphash.String(d.seed, s)%stringSlots]
	if *slot != s {
		*slot = s
	}
	return *slot
}

// sharedLabels returns a map with the content of m that may be shared with other
// objects. nil for a nil or empty map.
func (d *Decoder) sharedLabels(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	slot := &d.labels[store.HashLabels(d.seed, m)%labelSlots]
	if !maps.Equal(*slot, m) {
		*slot = d.copyMap(m)
	}
	return *slot
}

// copyMap copies a map with shared strings; the copy of an empty map is empty,
// not nil: for a selector that makes a difference.
func (d *Decoder) copyMap(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	c := make(map[string]string, len(m))
	for k, v := range m {
		c[d.str(k)] = d.str(v)
	}
	return c
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
		*slot = slices.Clip(ports)
	}
	return *slot
}

// annotations picks what the product uses; objects of other tools may carry
// hundreds of kilobytes that nobody here reads.
func (d *Decoder) annotations(m map[string]string) map[string]string {
	var kept map[string]string
	for k, v := range m {
		if strings.HasPrefix(k, annotationPrefix) || k == syncer.TolerateUnreadyAnnotation || d.keep != nil && d.keep(k) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[d.str(k)] = v
		}
	}
	return kept
}

func (d *Decoder) key(m *metav1.ObjectMeta) syncer.Key {
	return syncer.Key{Namespace: d.str(m.Namespace), Name: m.Name}
}

func (d *Decoder) protocol(p corev1.Protocol) string {
	if p == "" {
		return syncer.TCP // the API's default; objects that passed no API server lack it
	}
	return d.str(string(p))
}

func (d *Decoder) target(ref *corev1.ObjectReference) syncer.TargetRef {
	if ref == nil {
		return syncer.TargetRef{}
	}
	return syncer.TargetRef{
		Kind: d.str(ref.Kind),
		Key:  syncer.Key{Namespace: d.str(ref.Namespace), Name: ref.Name},
		UID:  string(ref.UID),
	}
}

func appProtocol(p *string) syncer.AppProtocol {
	if p == nil {
		return syncer.AppProtocol{}
	}
	return syncer.AppProtocol{Value: *p, Set: true}
}

// unixSeconds is 0 for no time.
func unixSeconds(t metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
