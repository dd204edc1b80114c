// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// manual are the endpoints of one Service that people or their tools write
// themselves. They are kept for as long as the Service needs them: one that comes back
// is read anew, for nobody looked at its objects meanwhile.
type manual struct {
	since     uint64 // Store.manualEdits when the Service came to need them
	endpoints row[Endpoints]
	exists    bool                  // the Endpoints object does
	slices    map[string]row[Slice] // replaced, never changed: computations read it

	endpointsKnown, slicesKnown bool
	endpointsTable, slicesTable table
}

// row is an object as it is held.
type row[T any] struct {
	Versioned[T]
	list uint16 // that showed it last
	held bool   // lists lack it, and it is kept nevertheless
}

// known reports whether all that was written is here.
func (m *manual) known() bool { return m != nil && m.endpointsKnown && m.slicesKnown }

// ManualObject names what gives hand-written endpoints to a Service: a slice by
// its name, or the Endpoints, which have the Service's.
type ManualObject struct {
	Service syncer.Key
	Slice   string // "" for the Endpoints
}

func compareManual(a, b ManualObject) int {
	return cmp.Or(a.Service.Compare(b.Service), cmp.Compare(a.Slice, b.Slice))
}

// needsManual reports whether the contribution of a Service comes, or is about to
// come, from hand-written endpoints: it is placed and has no selector, or goes on as if.
func (svc *service) needsManual() bool {
	return svc.placed && (svc.current.Selector == nil || svc.effective.Selector == nil)
}

// noteManual keeps the set of such Services. It is called whenever one may have
// changed.
func (s *Store) noteManual(svc *service) {
	key := svc.current.Key
	m := s.manual[key]
	if svc.needsManual() == (m != nil) {
		return
	}
	s.manualEdits++
	if m == nil {
		s.manual[key] = &manual{since: s.manualEdits}
		return
	}
	delete(s.manual, key)
	for name := range m.slices {
		delete(s.owners, syncer.Key{Namespace: key.Namespace, Name: name})
	}
}

// ManualSources returns the placed Services without selector, each with a number that is
// another one when the Service has not been one of them throughout.
func (s *Store) ManualSources() map[syncer.Key]uint64 {
	sources := make(map[syncer.Key]uint64, len(s.manual))
	for key, m := range s.manual {
		sources[key] = m.since
	}
	return sources
}

// IsManual reports whether a Service is one of them.
func (s *Store) IsManual(service syncer.Key) bool {
	return s.manual[service] != nil
}

// ManualEdits counts the changes of the set of ManualSources.
func (s *Store) ManualEdits() uint64 { return s.manualEdits }

// SetEndpoints makes v the held version, whatever its revision.
func (s *Store) SetEndpoints(v Versioned[Endpoints]) []Dirty {
	return s.changeManual(v.Object.Key, func(m *manual) {
		m.endpoints, m.exists = row[Endpoints]{Versioned: v, list: m.endpointsTable.list}, true
	})
}

// SetSlice is SetEndpoints for a slice. One whose label names another Service than before
// leaves the one it was in.
func (s *Store) SetSlice(v Versioned[Slice]) []Dirty {
	var left []Dirty
	service := v.Object.ServiceKey()
	if former, owned := s.owners[v.Object.Key]; owned && former != service {
		left = s.removeManual(ManualObject{former, v.Object.Name}, v.RV)
	}
	if s.IsManual(service) {
		s.owners[v.Object.Key] = service
	}
	return append(left, s.changeManual(service, func(m *manual) {
		m.putSlice(v.Object.Name, row[Slice]{Versioned: v, list: m.slicesTable.list})
	})...)
}

// DeleteManual takes in that an object was deleted at a revision. A slice leaves the
// Service that it is in.
func (s *Store) DeleteManual(o ManualObject, rv uint64) []Dirty {
	return s.removeManual(s.whereHeld(o), rv)
}

// whereHeld is an object as one of the Service that it is held for.
func (s *Store) whereHeld(o ManualObject) ManualObject {
	if owner, owned := s.owners[syncer.Key{Namespace: o.Service.Namespace, Name: o.Slice}]; o.Slice != "" && owned {
		o.Service = owner
	}
	return o
}

// ServiceKey is the Service that a slice's label names.
func (s *Slice) ServiceKey() syncer.Key {
	return syncer.Key{Namespace: s.Namespace, Name: s.Service}
}

// putSlice keeps derived slices as well, without content: their revision counts.
func (m *manual) putSlice(name string, r row[Slice]) {
	m.slices = maps.Clone(m.slices)
	if m.slices == nil {
		m.slices = map[string]row[Slice]{}
	}
	m.slices[name] = r
}

func (m *manual) dropSlice(name string) {
	m.slices = maps.Clone(m.slices)
	delete(m.slices, name)
}

// BeginManual begins a list of Endpoints, or of slices, that speaks of some Services, but for those
// in leftOut, as BeginPods does.
func (s *Store) BeginManual(slices bool, services []syncer.Key, rv uint64, older bool, leftOut ...string) {
	for _, key := range services {
		switch m := s.manual[key]; {
		case m == nil:
		case slices:
			m.slicesTable.begin(rv, older, leftOut...)
		default:
			m.endpointsTable.begin(rv, older, leftOut...)
		}
	}
}

// ManualRevision is PodRevision for an object. A slice is found by its name, whichever
// Service it belonged to.
func (s *Store) ManualRevision(o ManualObject) (rv uint64, ok bool) {
	m, _ := s.manualRow(o)
	switch {
	case m == nil:
		return 0, false
	case o.Slice == "":
		return m.endpoints.RV, m.exists
	}
	r, ok := m.slices[o.Slice]
	return r.RV, ok
}

// ManualUID is the UID of an object that is held.
func (s *Store) ManualUID(o ManualObject) string {
	m, _ := s.manualRow(o)
	switch {
	case m == nil:
		return ""
	case o.Slice == "":
		return m.endpoints.Object.UID
	}
	return m.slices[o.Slice].Object.UID
}

// ManualSlice is the object that a slice is, as far as it is held.
func (s *Store) ManualSlice(slice syncer.Key) ManualObject {
	return ManualObject{s.owners[slice], slice.Name}
}

// ManualRevisions are those of all objects that are held for a Service.
func (s *Store) ManualRevisions(service syncer.Key) map[ManualObject]uint64 {
	all := map[ManualObject]uint64{}
	if m := s.manual[service]; m != nil {
		if m.exists {
			all[ManualObject{Service: service}] = m.endpoints.RV
		}
		for name, r := range m.slices {
			all[ManualObject{service, name}] = r.RV
		}
	}
	return all
}

// ManualOutdated is PodOutdated for an object at a revision.
func (s *Store) ManualOutdated(o ManualObject, rv uint64) bool {
	m, table := s.manualRow(o)
	held, ok := s.ManualRevision(o)
	return m != nil && table.stale(o.Service.Namespace, rv, ok, held)
}

// ListsManual is ListsPod for what is written by hand.
func (s *Store) ListsManual(o ManualObject, rv uint64) bool {
	m, table := s.manualRow(o)
	return m != nil && table.lists(o.Service.Namespace, rv)
}

// manualRow finds where an object is held, and what is known of its kind there.
func (s *Store) manualRow(o ManualObject) (*manual, *table) {
	m := s.manual[s.whereHeld(o).Service]
	switch {
	case m == nil:
		return nil, nil
	case o.Slice == "":
		return m, &m.endpointsTable
	}
	return m, &m.slicesTable
}

// MarkManual is MarkPod for an object.
func (s *Store) MarkManual(o ManualObject, rv uint64, older bool) {
	m, table := s.manualRow(o)
	if m == nil {
		return
	}
	if o.Slice == "" {
		table.mark(&m.endpoints.list, &m.endpoints.RV, rv, older)
	} else if r, ok := m.slices[o.Slice]; ok {
		table.mark(&r.list, &r.RV, rv, older)
		m.putSlice(o.Slice, r)
	}
}

// LackingManual returns the objects of some Services that the list at revision rv
// lacks, sorted.
func (s *Store) LackingManual(slicesOnly bool, services []syncer.Key, rv uint64, older bool) (lacking []ManualObject) {
	for _, key := range services {
		m := s.manual[key]
		switch {
		case m == nil:
		case slicesOnly:
			for name, r := range m.slices {
				if m.slicesTable.lacks(r.list, r.RV, rv, older) {
					if older {
						r.RV = 0
						m.putSlice(name, r)
					}
					lacking = append(lacking, ManualObject{key, name})
				}
			}
		case m.exists && m.endpointsTable.lacks(m.endpoints.list, m.endpoints.RV, rv, older):
			if older {
				m.endpoints.RV = 0
			}
			lacking = append(lacking, ManualObject{Service: key})
		}
	}
	slices.SortFunc(lacking, compareManual)
	return lacking
}

// KnowManual notes that the Endpoints, or the slices, of a Service have been read, if
// the list was begun after it came to need them. It
// reports whether all of it is known by that, and was not before.
func (s *Store) KnowManual(slices bool, service syncer.Key) (dirty []Dirty, first bool) {
	before := s.manual[service].known()
	dirty = s.changeManual(service, func(m *manual) {
		m.slicesKnown = m.slicesKnown || slices && m.slicesTable.list > 0
		m.endpointsKnown = m.endpointsKnown || !slices && m.endpointsTable.list > 0
	})
	return dirty, !before && s.manual[service].known()
}

// RemoveManual is RemovePod for an object.
func (s *Store) RemoveManual(o ManualObject) []Dirty { return s.removeManual(o, 0) }

// removeManual takes out an object, of which a stream tells that it is gone at a revision; 0:
// none does.
func (s *Store) removeManual(o ManualObject, rv uint64) []Dirty {
	return s.changeManual(o.Service, func(m *manual) {
		if o.Slice == "" {
			m.endpointsTable.remove(o.Service.Namespace, rv)
			m.endpoints, m.exists = row[Endpoints]{}, false
			return
		}
		m.slicesTable.remove(o.Service.Namespace, rv)
		m.dropSlice(o.Slice)
		delete(s.owners, syncer.Key{Namespace: o.Service.Namespace, Name: o.Slice})
	})
}

// HoldManual is HoldPod for an object.
func (s *Store) HoldManual(o ManualObject) {
	m := s.manual[o.Service]
	if m == nil {
		return
	}
	if o.Slice == "" {
		m.endpoints.held = true
	} else if r, ok := m.slices[o.Slice]; ok {
		r.held = true
		m.putSlice(o.Slice, r)
	}
}

// ManualAddresses are the ready ones of the hand-written endpoints of a Service.
func (s *Store) ManualAddresses(service syncer.Key) map[netip.Addr]bool {
	addrs := map[netip.Addr]bool{}
	if m := s.manual[service]; m != nil {
		for point := range m.serving() {
			addrs[point.addr] = true
		}
	}
	return addrs
}

// ServesManual reports whether an address is a ready one of the hand-written endpoints
// of a Service.
func (s *Store) ServesManual(service syncer.Key) func(syncer.Endpoint) bool {
	points := map[point]bool{}
	if m := s.manual[service]; m != nil {
		points = m.serving()
	}
	return func(e syncer.Endpoint) bool { return points[point{addr: e.Addr}] }
}

// changeManual applies a change and tells the Service. What is written for one that does not
// need it is nothing.
func (s *Store) changeManual(key syncer.Key, change func(*manual)) []Dirty {
	m := s.manual[key]
	if m == nil {
		return nil
	}
	before := *m
	change(m)
	svc := s.service(key)
	var d dirtyList
	switch {
	case !m.known():
	case svc.computed():
		// The Service had lost its selector and waited for this.
		s.changeService(svc, svc.current, svc.placement(), &d)
		d.add(svc, syncer.Removal)
	case !before.known():
		d.add(svc, syncer.Addition)
	default:
		d.add(svc, manualEffect(&before, m))
	}
	return d.sorted()
}

// effective returns what the contribution of a new version of a Service is computed
// from. A Service that loses its selector keeps the endpoints that its selector
// gives until what stands in its place is known; there is no gap. So does one that lists show
// made again without: what its pods say goes on to count. So does one that gets another
// selector, or its first one, as long as it is to go on as before.
func (s *Store) effective(svc *service, v *syncer.Service) *syncer.Service {
	former := svc.effective.Selector
	waits := v.Selector == nil && !s.manual[v.Key].known() || v.Selector != nil && svc.keepsSelector
	if !waits || sameSelector(former, v.Selector) || v.ExternalName {
		return v
	}
	if v == svc.current {
		return svc.effective
	}
	kept := *v
	kept.Selector = former
	return &kept
}
