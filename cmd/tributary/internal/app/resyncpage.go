// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"net/url"
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
	return operated(func(query url.Values) (any, string) {
		answer := Resynced{Sink: query.Get("sink")}
		var ok bool
		if answer.Services, ok = resync(answer.Sink); !ok {
			if answer.Sink == "" {
				return nil, "this process tells no sink; \"tributary status\" shows which there are, and which process leads"
			}
			return nil, fmt.Sprintf("this process does not tell sink %.200q; ask the one that leads", answer.Sink)
		}
		return answer, ""
	})
}
