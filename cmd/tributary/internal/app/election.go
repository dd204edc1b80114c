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
	"tributary.dev/tributary/reconcile/leader"
	"tributary.dev/tributary/syncer"
)

// LeasePrefix is that of the leader's Lease; the name of the installation follows.
const LeasePrefix = "tributary-leader."

// tokenFile holds the token of a pod's service account.
const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// electionKey is what an election depends on: sessions of equal ones ask for the same
// Lease by the same name.
type electionKey struct {
	config.LeaderElection
	lease    string
	instance string
	identity string
}

// key is the session that a configuration leads to. The caller holds mu.
func (r *App) key(loaded *config.Loaded) sessionKey {
	c := &loaded.Config
	e := electionKey{LeaderElection: c.LeaderElection, instance: c.Instance, identity: holder(loaded, r.address)}
	e.Namespace = ElectionNamespace(c)
	e.lease = LeasePrefix + c.Instance
	return sessionKey{access: loaded.Ingress.Hash, election: e}
}

// ElectionNamespace is where the leader's Lease is by a configuration.
func ElectionNamespace(c *config.Config) string {
	return cmp.Or(c.LeaderElection.Namespace, c.OwnNamespace())
}

// options are those of an elector.
func (k electionKey) options() leader.Options {
	return leader.Options{
		Namespace: k.Namespace, Name: k.lease, Identity: k.identity, Disabled: !k.Enabled,
		Labels: map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: k.instance},
		Times:  leader.Times{LeaseDuration: k.LeaseDuration.Value(), RenewDeadline: k.RenewDeadline.Value(), RetryPeriod: k.RetryPeriod.Value()},
	}
}

// holder is the name by which this process holds a Lease. It outlasts a restart in
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
