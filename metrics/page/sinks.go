// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"time"

	"tributary.dev/tributary/metrics"
)

// sinkView is a row about a receiver outside of Kubernetes.
type sinkView struct {
	Name, Class, State, Services, Pending, Refused, Lag, LagClass, Requests, Failures, Acknowledged string
	// Notes are what is wrong.
	Notes []string
}

// sinkLagWarn is the lag from which a sink is marked: windows take their time.
const sinkLagWarn = time.Minute

func newSinkViews(s *metrics.Status) []sinkView {
	var out []sinkView
	for i := range s.Sinks {
		k := &s.Sinks[i]
		v := sinkView{
			Name: visible(k.Name), Class: "ok", State: dash(k.State), Services: count(k.Services), Pending: count(k.Pending), Refused: count(k.Refused),
			Lag: lagText(k.LagSeconds), Requests: count(int(k.Requests)), Failures: count(int(k.Failures)), Acknowledged: ago(k.LastAcknowledged, s.Time),
		}
		switch k.State {
		case "failing":
			v.Class = "bad"
		case "standby":
			v.Class = ""
		}
		if seconds(k.LagSeconds) >= sinkLagWarn {
			v.LagClass = "bad"
		}
		if k.LastError != "" {
			v.Notes = append(v.Notes, "Last error: "+message(k.LastError))
		}
		if k.Unkept != "" {
			v.Notes = append(v.Notes, "What is acknowledged is not kept: "+message(k.Unkept))
		}
		out = append(out, v)
	}
	return out
}
