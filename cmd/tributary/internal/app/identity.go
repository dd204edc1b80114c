// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"

	"tributary.dev/tributary/clusters/config"
)

// LeasePrefix is that of the leader's Lease; the name of the installation follows.
const LeasePrefix = "tributary-leader."

// tokenFile holds the token of a pod's service account.
const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// holder is the name by which this process holds the Lease. It outlasts a restart in
// place, so that a process waits for nothing that it held itself, and no two processes
// that run have it: where the token for the ingress cluster is bound to a pod it is the
// pod's name, which the API server sees, too; elsewhere it is the name of the host and
// the address of the pages, which one process alone can listen at.
func holder(loaded *config.Loaded, address string) string {
	token := ""
	if access := loaded.Ingress.REST; access != nil {
		token = access.BearerToken
	}
	inside := loaded.Config.Ingress.Kubeconfig == ""
	if inside {
		text, _ := os.ReadFile(tokenFile) // absent: this is no pod
		token = string(text)
	}
	if pod := podOf(token); pod != "" {
		return pod
	}
	host, err := os.Hostname()
	if err != nil {
		host = "tributary"
	}
	if inside {
		return cmp.Or(os.Getenv("POD_NAME"), host)
	}
	return host + "_" + address
}

// podOf is the name of the pod that a token is bound to, "" if it is not.
func podOf(token string) string {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return ""
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var bound struct {
		Kubernetes struct {
			Pod struct {
				Name string `json:"name"`
			} `json:"pod"`
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(claims, &bound) != nil {
		return ""
	}
	return bound.Kubernetes.Pod.Name
}
