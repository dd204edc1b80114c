// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
)

// OperatorHeader must be sent with what an operator asks for. A page in a browser cannot add
// it to a request to another site without asking this server first, which never agrees.
const OperatorHeader = "Tributary-Release"

// operated answers what an operator on this machine asks for: do returns the answer, or says
// what is wrong with the parameters.
func operated(do func(url.Values) (answer any, wrong string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if refusal := strange(r); refusal != "" {
			http.Error(w, refusal, http.StatusForbidden)
			return
		}
		out, wrong := do(r.URL.Query())
		if wrong != "" {
			http.Error(w, wrong, http.StatusBadRequest)
			return
		}
		sendJSON(w, out)
	}
}

// sendJSON sends what is true of this moment alone.
func sendJSON(w http.ResponseWriter, out any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(out)
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
	if r.Header.Get(OperatorHeader) == "" || r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return "this must come from the command tributary"
	}
	return ""
}
