// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/leader"
	"tributary.dev/tributary/syncer"
)

// LeasePrefix is that of the leader's Lease; the name of the installation follows.
const LeasePrefix = "tributary-leader."

// newElector takes part in the election of the configuration that the process started with.
func (a *App) newElector(loaded *config.Loaded, address string) *leader.Elector {
	c := loaded.Config
	return leader.New(leader.Options{
		Client: clientOf(a.ingress.elect), Namespace: c.Namespace, Name: LeasePrefix + c.Instance, Identity: holder(address), Labels: labelsOf(c),
		LeaseDuration: c.LeaderElection.LeaseDuration.Value(), Disabled: !c.LeaderElection.Enabled, Permit: a.permit, Logger: a.Logger,
	})
}

// labelsOf are those of what is ours beside replicas.
func labelsOf(c *config.Config) map[string]string {
	return map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: c.Instance}
}

// holder is the name by which this process holds the Lease. It outlasts a restart in place, so that a process waits for
// nothing that it held itself, and no two processes that run have it: in a pod its name, which the API server of the ingress
// cluster knows, too; elsewhere the name of the host and the address of the pages, which one process alone can listen at.
func holder(address string) string {
	if pod := os.Getenv("POD_NAME"); pod != "" {
		return pod
	}
	host, err := os.Hostname()
	if err != nil {
		host = "tributary"
	}
	return host + "_" + address
}

func (a *App) leaderStatus() metrics.LeaderStatus {
	elector := a.elector.Load()
	if elector == nil || !a.reconciler.Cache.HasSynced() {
		return metrics.LeaderStatus{}
	}
	e := elector.State()
	out := metrics.LeaderStatus{State: "standby", Since: utc(e.Since), Identity: e.Identity, Holder: e.Holder, Lease: e.Lease}
	switch {
	case e.Leading && !a.running().Config.LeaderElection.Enabled:
		out.State = "alone"
	case e.Leading:
		out.State = "leading"
	case out.Holder == out.Identity: // its own Lease, which it may not renew: nobody leads
		out.Holder = ""
	}
	if e.Err != nil {
		out.Error = e.Err.Error()
	}
	return out
}
