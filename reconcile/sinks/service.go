// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strconv"
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// The types of events, and the media type of a batch of them.
const (
	typeUpdated   = "dev.tributary.service.updated.v1"
	typeDeleted   = "dev.tributary.service.deleted.v1"
	typeInventory = "dev.tributary.inventory.v1"
	mediaType     = "application/cloudevents-batch+json"
)

// service is what receivers are sent of a replica. It is immutable.
type service struct {
	endpoints json.RawMessage
	ready     map[netip.AddrPort]bool // those that are; an endpoint without ports by port 0
}

// endpoint is one address of a Service with the ports that it serves there, as it is sent.
type endpoint struct {
	Address     string `json:"address"`
	Ports       []port `json:"ports"`
	Cluster     string `json:"cluster"`
	Zone        string `json:"zone,omitempty"`
	Ready       bool   `json:"ready"`
	Serving     bool   `json:"serving"`
	Terminating bool   `json:"terminating"`
}

// port is one port of an endpoint.
type port struct {
	Name        string `json:"name,omitempty"`
	Port        int32  `json:"port"`
	Protocol    string `json:"protocol"`
	AppProtocol string `json:"appProtocol,omitempty"`
}

// newService returns what is sent of a replica.
func newService(backends []plan.Backend) *service {
	s, endpoints := &service{ready: map[netip.AddrPort]bool{}}, make([]endpoint, len(backends))
	for i := range backends {
		b := &backends[i]
		e := endpoint{Address: b.Addr.String(), Ports: make([]port, len(b.Ports)), Cluster: b.Member, Zone: b.Zone, Ready: b.Ready, Serving: b.Serving, Terminating: b.Terminating}
		if b.Ready && len(b.Ports) == 0 {
			s.ready[netip.AddrPortFrom(b.Addr, 0)] = true
		}
		for j, p := range b.Ports {
			e.Ports[j] = port{p.Name, p.Number, p.Protocol, p.AppProtocol.Value}
			if b.Ready {
				s.ready[netip.AddrPortFrom(b.Addr, uint16(p.Number))] = true
			}
		}
		endpoints[i] = e
	}
	s.endpoints = marshal(endpoints)
	return s
}

func marshal(plain any) json.RawMessage {
	text, err := json.Marshal(plain)
	if err != nil {
		panic("JSON of plain values: " + err.Error())
	}
	return text
}

// equal reports whether two Services are the same to a receiver; nil is one that does not exist.
func (s *service) equal(o *service) bool {
	if s == nil || o == nil {
		return s == o
	}
	return bytes.Equal(s.endpoints, o.endpoints)
}

// removes reports whether an endpoint stops serving from one state of a Service to another; nil is
// one that does not exist.
func removes(from, to *service) bool {
	if from == nil || to == nil {
		return to == nil
	}
	for at := range from.ready {
		if !to.ready[at] {
			return true
		}
	}
	return false
}

// event is one of CloudEvents 1.0 in its JSON format.
type event struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject,omitempty"`
	Time        string          `json:"time"`
	ContentType string          `json:"datacontenttype"`
	Data        json.RawMessage `json:"data"`
}

// document is what a Service is now.
type document struct {
	Generation int64           `json:"generation"`
	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	Deleted    bool            `json:"deleted"`
	Endpoints  json.RawMessage `json:"endpoints"`
}

// inventory names all Services that there are, as NAMESPACE/NAME, sorted.
type inventory struct {
	Generation int64    `json:"generation"`
	Services   []string `json:"services"`
}

// event makes an event of the sink. generation is in data, too.
func (s *sink) event(kind, subject string, generation int64, at time.Time, data any) json.RawMessage {
	return marshal(event{
		SpecVersion: "1.0", ID: s.spec.Name + "/" + strconv.FormatInt(generation, 10), Source: "/tributary/" + s.opts.Instance, Type: kind, Subject: subject,
		Time: at.UTC().Format("2006-01-02T15:04:05.000Z"), ContentType: "application/json", Data: marshal(data),
	})
}

// document makes the event that tells of a Service; nil: it is not there.
func (s *sink) document(key syncer.Key, now *service, generation int64, at time.Time) json.RawMessage {
	kind, endpoints := typeDeleted, json.RawMessage("[]")
	if now != nil {
		kind, endpoints = typeUpdated, now.endpoints
	}
	return s.event(kind, key.String(), generation, at, document{generation, key.Namespace, key.Name, now == nil, endpoints})
}
