// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/reconcile/sinks/ledger"
	"tributary.dev/tributary/syncer"
)

// head is what there is to know beside the Services.
type head struct {
	// Receiver is a hash of where the sink's requests go.
	Receiver string `json:"receiver"`
	// Ceiling is a generation that is not less than any that was given.
	Ceiling int64 `json:"ceiling"`
	// Parts is the number of the other objects, a power of two.
	Parts int `json:"parts"`
	// Doubt names the Services of which something else may have been told; Everything stands
	// for all of them, where their names take too much room.
	Doubt      []string `json:"doubt,omitempty"`
	Everything bool     `json:"everything,omitempty"`
	// Refused names those of Doubt that the receiver found fault with, each by itself.
	Refused []string `json:"refused,omitempty"`
	// Written is when, in microseconds.
	Written int64 `json:"written,omitempty"`
}

// keysOf are the Services of a list of names.
func keysOf(names []string) map[syncer.Key]bool {
	keys := map[syncer.Key]bool{}
	for _, name := range names {
		if key, ok := syncer.ParseKey(name); ok {
			keys[key] = true
		}
	}
	return keys
}

// namesOf are the names of Services, sorted.
func namesOf(keys map[syncer.Key]bool) (names []string) {
	for key := range keys {
		names = append(names, key.String())
	}
	slices.Sort(names)
	return names
}

// says reports whether a head says the same, whenever it was written.
func (h *head) says(o *head) bool {
	return h.Receiver == o.Receiver && h.Ceiling == o.Ceiling && h.Parts == o.Parts && h.Everything == o.Everything &&
		slices.Equal(h.Doubt, o.Doubt) && slices.Equal(h.Refused, o.Refused)
}

func (h *head) writtenAt() time.Time {
	if h.Written == 0 {
		return time.Time{}
	}
	return time.UnixMicro(h.Written)
}

// record is a Service as it is written down.
type record struct {
	Key        string `json:"k"`
	Generation int64  `json:"g"`
	// Endpoints is nil where they would not fit: such a Service is in doubt.
	Endpoints []endpoint `json:"e"`
}

type endpoint struct {
	Address string `json:"a"`
	Cluster string `json:"c,omitempty"`
	Zone    string `json:"z,omitempty"`
	Ports   []port `json:"p,omitempty"`
	// Conditions is 1 for ready, 2 for serving, 4 for terminating, in sum.
	Conditions int `json:"s,omitempty"`
}

type port struct {
	Name     string  `json:"n,omitempty"`
	Protocol string  `json:"p,omitempty"`
	Number   int32   `json:"o"`
	App      *string `json:"a,omitempty"`
}

func encodeService(s *ledger.Service) []endpoint {
	out := make([]endpoint, len(s.Endpoints))
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		out[i] = endpoint{Address: e.Addr.String(), Cluster: e.Cluster, Zone: e.Zone}
		for bit, set := range []bool{e.Ready, e.Serving, e.Terminating} {
			if set {
				out[i].Conditions |= 1 << bit
			}
		}
		for _, p := range e.Ports {
			one := port{Name: p.Name, Protocol: p.Protocol, Number: p.Number}
			if p.AppProtocol.Set {
				one.App = &p.AppProtocol.Value
			}
			out[i].Ports = append(out[i].Ports, one)
		}
	}
	return out
}

func decodeService(from []endpoint) (*ledger.Service, error) {
	endpoints := make([]ledger.Endpoint, len(from))
	for i, e := range from {
		addr, err := netip.ParseAddr(e.Address)
		if err != nil {
			return nil, fmt.Errorf("address of an endpoint: %w", err)
		}
		endpoints[i] = ledger.Endpoint{Addr: addr, Cluster: e.Cluster, Zone: e.Zone,
			Ready: e.Conditions&1 != 0, Serving: e.Conditions&2 != 0, Terminating: e.Conditions&4 != 0}
		for _, p := range e.Ports {
			one := syncer.Port{Name: p.Name, Protocol: p.Protocol, Number: p.Number}
			if p.App != nil {
				one.AppProtocol = syncer.AppProtocol{Value: *p.App, Set: true}
			}
			endpoints[i].Ports = append(endpoints[i].Ports, one)
		}
	}
	return ledger.NewService(endpoints), nil
}

// endpointsPerPart is about how many endpoints one object holds: a tenth of what an object
// may weigh, so that a change writes little.
const endpointsPerPart = 4000

// partsFor is into how many objects records go, a power of two.
func partsFor(records []ledger.Record) int {
	weight := 0
	for _, r := range records {
		weight++
		if r.Service != nil {
			weight += len(r.Service.Endpoints)
		}
	}
	parts := 1
	for weight > parts*endpointsPerPart {
		parts *= 2
	}
	return parts
}

// partOf is in which of the parts a Service is.
func partOf(key syncer.Key, parts int) int {
	h := fnv.New32a()
	_, _ = io.WriteString(h, key.String())
	return int(h.Sum32() & uint32(parts-1))
}

// maxPart bounds the compressed bytes of one object, of which an API server takes a MiB;
// maxAnnotation those of a head in a Lease, of whose annotations it takes 256 KiB.
const (
	maxPart       = 900 << 10
	maxAnnotation = 160 << 10
)

// encodeParts writes records as the content of each object. The Services that had to go
// without their endpoints, because a part would be too large, are returned, too.
func encodeParts(records []ledger.Record, parts int) (contents [][]byte, bare []syncer.Key) {
	split := make([][]record, parts)
	for _, r := range records {
		if r.Service == nil {
			continue
		}
		at := partOf(r.Key, parts)
		split[at] = append(split[at], record{Key: r.Key.String(), Generation: r.Generation, Endpoints: encodeService(r.Service)})
	}
	for _, of := range split {
		content := pack(of)
		for len(content) > maxPart {
			largest := 0
			for i := range of {
				if len(of[i].Endpoints) > len(of[largest].Endpoints) {
					largest = i
				}
			}
			if of[largest].Endpoints == nil {
				break // of names alone; the server may refuse it
			}
			of[largest].Endpoints = nil
			if key, ok := syncer.ParseKey(of[largest].Key); ok {
				bare = append(bare, key)
			}
			content = pack(of)
		}
		contents = append(contents, content)
	}
	return contents, bare
}

// decodePart reads the content of an object.
func decodePart(content []byte) ([]ledger.Record, error) {
	var from []record
	if err := unpack(content, &from); err != nil {
		return nil, err
	}
	records := make([]ledger.Record, 0, len(from))
	for _, r := range from {
		key, ok := syncer.ParseKey(r.Key)
		if !ok {
			return nil, fmt.Errorf("%.100q is not the name of a Service", r.Key)
		}
		service, err := decodeService(r.Endpoints)
		if err != nil {
			return nil, err
		}
		records = append(records, ledger.Record{Key: key, Generation: r.Generation, Service: service, Doubt: r.Endpoints == nil})
	}
	return records, nil
}

func pack(value any) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_ = json.NewEncoder(w).Encode(value) // plain values, into memory
	_ = w.Close()
	return out.Bytes()
}

// maxUnpacked bounds what an object may unfold to.
const maxUnpacked = 256 << 20

func unpack(content []byte, into any) error {
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return err
	}
	return json.NewDecoder(io.LimitReader(r, maxUnpacked)).Decode(into)
}
