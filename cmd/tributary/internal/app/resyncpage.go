// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// ResyncPath is where it is asked for that sinks are told everything anew: POST, with the
// header of a release, and the parameter sink; without it all sinks are meant.
const ResyncPath = "/debug/resync"

// Resynced is the answer: of how many Services is told.
type Resynced struct {
	Sink     string `json:"sink,omitempty"`
	Services int    `json:"services"`
}

// ResyncHandler answers at ResyncPath.
func ResyncHandler(resync func(sink string) (services int, ok bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if refusal := strange(r); refusal != "" {
			http.Error(w, refusal, http.StatusForbidden)
			return
		}
		answer := Resynced{Sink: r.URL.Query().Get("sink")}
		var ok bool
		if answer.Services, ok = resync(answer.Sink); !ok {
			http.Error(w, fmt.Sprintf("sink: %.200q is none that this process tells; ask the one that leads", answer.Sink), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(answer)
	}
}
