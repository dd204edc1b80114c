// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"tributary.dev/tributary/next/syncer"
)

// The types of events, and the media type of a batch of them.
const (
	typeUpdated   = "dev.tributary.service.updated.v1"
	typeDeleted   = "dev.tributary.service.deleted.v1"
	typeInventory = "dev.tributary.inventory.v1"
	mediaType     = "application/cloudevents-batch+json"
)

// event is one of CloudEvents 1.0 in its JSON format.
type event struct {
	SpecVersion string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Subject     string `json:"subject,omitempty"`
	Time        string `json:"time"`
	ContentType string `json:"datacontenttype"`
	Data        any    `json:"data"`
}

// document is what a Service is now, and what changed.
type document struct {
	Generation int64      `json:"generation"`
	Namespace  string     `json:"namespace"`
	Name       string     `json:"name"`
	Deleted    bool       `json:"deleted"`
	Endpoints  []endpoint `json:"endpoints"`
	Changes    delta      `json:"changes"`
}

// inventory names all Services that there are, as NAMESPACE/NAME, sorted.
type inventory struct {
	Generation int64    `json:"generation"`
	Services   []string `json:"services"`
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
	Name        string `json:"name,omitempty"`
	Port        int32  `json:"port"`
	Protocol    string `json:"protocol"`
	AppProtocol string `json:"appProtocol,omitempty"`
}

// newEvent makes an event; generation is in data, too.
func newEvent(source, sink, kind, subject string, generation int64, at time.Time, data any) []byte {
	text, err := json.Marshal(event{
		SpecVersion: "1.0", ID: sink + "/" + strconv.FormatInt(generation, 10), Source: source, Type: kind, Subject: subject,
		Time: at.UTC().Format("2006-01-02T15:04:05.000Z"), ContentType: "application/json", Data: data,
	})
	if err != nil {
		panic(fmt.Sprintf("an event of plain values: %v", err))
	}
	return text
}

// newDocument is what a receiver is told of a Service; nil: it is not there any more.
func newDocument(key syncer.Key, from, to *Service, generation int64) (kind string, d document) {
	kind, d = typeUpdated, document{
		Generation: generation, Namespace: key.Namespace, Name: key.Name, Deleted: to == nil, Endpoints: []endpoint{}, Changes: deltaOf(from, to),
	}
	if to == nil {
		return typeDeleted, d
	}
	for i := range to.Endpoints {
		e := &to.Endpoints[i]
		ports := make([]port, len(e.Ports))
		for j, p := range e.Ports {
			ports[j] = port{Name: p.Name, Port: p.Number, Protocol: p.Protocol, AppProtocol: p.AppProtocol.Value}
		}
		d.Endpoints = append(d.Endpoints, endpoint{Address: e.Addr.String(), Ports: ports, Cluster: e.Cluster, Zone: e.Zone,
			Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating})
	}
	return kind, d
}
