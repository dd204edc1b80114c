// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"net/url"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/syncer"
)

// ReleasePath is where a release is asked for: POST, with the parameter cluster and perhaps
// service.
const ReleasePath = "/debug/release"

// Released is the answer to a release.
type Released struct {
	Cluster string `json:"cluster"`
	Service string `json:"service,omitempty"`
	// What was let go.
	clusters.Released
}

// ReleaseHandler answers at ReleasePath.
func ReleaseHandler(release func(cluster string, replica *syncer.Key) (clusters.Released, bool)) http.HandlerFunc {
	return operated(func(query url.Values) (any, string) {
		answer := Released{Cluster: query.Get("cluster"), Service: query.Get("service")}
		var replica *syncer.Key
		if answer.Service != "" {
			key, ok := syncer.ParseKey(answer.Service)
			if !ok {
				return nil, fmt.Sprintf("service: %.200q is not namespace/name", answer.Service)
			}
			replica = &key
		}
		var ok bool
		if answer.Released, ok = release(answer.Cluster, replica); !ok {
			return nil, fmt.Sprintf("nothing is held of cluster %.200q, for it is not followed", answer.Cluster)
		}
		return answer, ""
	})
}
