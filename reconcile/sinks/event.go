// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"encoding/json"
	"fmt"
	"time"

	"tributary.dev/tributary/reconcile/sinks/ledger"
)

// The types of events, and the media type of a batch of them.
const (
	typeUpdated = "dev.tributary.service.updated.v1"
	typeDeleted = "dev.tributary.service.deleted.v1"
	mediaType   = "application/cloudevents-batch+json"
)

// event is one of CloudEvents 1.0 in its JSON format.
type event struct {
	SpecVersion string  `json:"specversion"`
	ID          string  `json:"id"`
	Source      string  `json:"source"`
	Type        string  `json:"type"`
	Subject     string  `json:"subject"`
	Time        string  `json:"time"`
	ContentType string  `json:"datacontenttype"`
	Data        payload `json:"data"`
}

// payload is what a Service is now, and what changed.
type payload struct {
	Generation int64        `json:"generation"`
	Namespace  string       `json:"namespace"`
	Name       string       `json:"name"`
	Deleted    bool         `json:"deleted"`
	Endpoints  []endpoint   `json:"endpoints"`
	Changes    ledger.Delta `json:"changes"`
}

type endpoint struct {
	Address     string `json:"address"`
	Ports       []port `json:"ports"`
	Cluster     string `json:"cluster"`
	Zone        string `json:"zone,omitempty"`
	Ready       bool   `json:"ready"`
	Serving     bool   `json:"serving"`
	Terminating bool   `json:"terminating"`
}

type port struct {
	Name        string  `json:"name,omitempty"`
	Port        int32   `json:"port"`
	Protocol    string  `json:"protocol"`
	AppProtocol *string `json:"appProtocol,omitempty"`
}

// encode writes a batch. source names the installation.
func encode(source, sink string, batch []ledger.Change, at time.Time) []byte {
	events := make([]event, len(batch))
	for i := range batch {
		c := &batch[i]
		events[i] = event{
			SpecVersion: "1.0", ID: fmt.Sprintf("%s/%d", sink, c.Generation), Source: source, Type: typeUpdated,
			Subject: c.Key.String(), Time: at.UTC().Format("2006-01-02T15:04:05.000Z"), ContentType: "application/json",
			Data: payload{
				Generation: c.Generation, Namespace: c.Key.Namespace, Name: c.Key.Name, Deleted: c.Service == nil, Endpoints: endpointsOf(c.Service), Changes: c.Delta,
			},
		}
		if c.Service == nil {
			events[i].Type = typeDeleted
		}
	}
	body, err := json.Marshal(events)
	if err != nil {
		panic(fmt.Sprintf("events of plain values: %v", err))
	}
	return body
}

func endpointsOf(s *ledger.Service) []endpoint {
	if s == nil {
		return []endpoint{}
	}
	out := make([]endpoint, len(s.Endpoints))
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		ports := make([]port, len(e.Ports))
		for j, p := range e.Ports {
			ports[j] = port{Name: p.Name, Port: p.Number, Protocol: p.Protocol}
			if p.AppProtocol.Set {
				ports[j].AppProtocol = &e.Ports[j].AppProtocol.Value
			}
		}
		out[i] = endpoint{Address: e.Addr.String(), Ports: ports, Cluster: e.Cluster, Zone: e.Zone,
			Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating}
	}
	return out
}
