// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/syncer"
)

const (
	// ReleasePath is where a release is asked for: POST, with the parameter cluster
	// and perhaps service.
	ReleasePath = "/debug/release"
	// ReleaseHeader must be sent with it. A page in a browser cannot add it to a
	// request to another site without asking this server first, which never agrees.
	ReleaseHeader = "Tributary-Release"
)

// Released is the answer to a release.
type Released struct {
	Cluster string `json:"cluster"`
	Service string `json:"service,omitempty"`
	// What was let go: objects that lists lack, by kind, endpoints that stood from before
	// the start, and pods that were kept ready.
	Pods     int `json:"pods"`
	Services int `json:"services"`
	Manual   int `json:"manual"`
	Standing int `json:"standing"`
	NotReady int `json:"notReady"`
	// Ruled are endpoints that rules take away.
	Ruled int `json:"ruled"`
}

// Handler serves the pages and, beside them, the one request that changes
// something.
func Handler(pages http.Handler, release func(cluster string, replica *syncer.Key) (clusters.Released, bool)) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.HandleFunc("POST "+ReleasePath, func(w http.ResponseWriter, r *http.Request) {
		if refusal := strange(r); refusal != "" {
			http.Error(w, refusal, http.StatusForbidden)
			return
		}
		cluster := r.URL.Query().Get("cluster")
		answer := Released{Cluster: cluster, Service: r.URL.Query().Get("service")}
		var replica *syncer.Key
		if answer.Service != "" {
			key, ok := syncer.ParseKey(answer.Service)
			if !ok {
				http.Error(w, fmt.Sprintf("service: %.200q is not namespace/name", answer.Service), http.StatusBadRequest)
				return
			}
			replica = &key
		}
		done, ok := release(cluster, replica)
		if !ok {
			http.Error(w, fmt.Sprintf("cluster: %.200q is no member", cluster), http.StatusBadRequest)
			return
		}
		answer.Pods, answer.Services, answer.Manual = done.Pods, done.Services, done.Manual
		answer.Standing, answer.NotReady, answer.Ruled = done.Standing, done.NotReady, done.Ruled
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(answer)
	})
	return mux
}

// strange says why a request is not one of an operator on this machine. Browsers
// send an Origin with every POST, also when a name of theirs was made to lead
// here; the command sends none.
func strange(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "this must come from this machine"
	}
	if addr, err := netip.ParseAddr(host); err != nil || !addr.Unmap().IsLoopback() {
		return "this must come from this machine: run the command where tributary runs, such as with kubectl exec or port-forward"
	}
	if r.Header.Get(ReleaseHeader) == "" || r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return "this must come from the command tributary"
	}
	return ""
}
