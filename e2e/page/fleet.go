// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// Fleet is a made-up fleet with an example of everything that the page shows. Its methods are safe for concurrent use.
type Fleet struct {
	Metrics *metrics.Metrics
	random  *rand.Rand

	mu     sync.Mutex
	status metrics.Status
	serial int
}

// NewFleet returns a fleet with five members, one of which is in trouble, and the last few hundred changes.
func NewFleet() *Fleet {
	f := &Fleet{random: rand.New(rand.NewPCG(5, 1)), status: exampleStatus(time.Now().UTC())}
	f.Metrics = metrics.New(metrics.Options{Status: f.currentStatus})
	f.trouble()
	now := time.Now()
	for i := range 420 {
		f.change(now.Add(time.Duration(i-420) * 900 * time.Millisecond))
	}
	return f
}

func (f *Fleet) currentStatus() metrics.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Clusters = slices.Clone(s.Clusters)
	return s
}

// Edit changes the status.
func (f *Fleet) Edit(edit func(*metrics.Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(&f.status)
}

func exampleStatus(now time.Time) metrics.Status {
	member := func(name, state, version string, services, pods, ready, notReady int) metrics.ClusterStatus {
		c := metrics.ClusterStatus{Name: name, State: state, Up: true, Synced: true, Version: version, Services: services, Pods: pods}
		c.Endpoints.Ready, c.Endpoints.NotReady = ready, notReady
		c.LastContact = now
		return c
	}
	s := metrics.Status{
		Version: "v0.1.0", Started: now.Add(-51 * time.Hour), Ready: true,
		Config:  metrics.ConfigStatus{File: "/etc/tributary/config.yaml", LoadedAt: now.Add(-3 * time.Hour)},
		Ingress: metrics.IngressStatus{State: "live", Up: true, Synced: true, Version: "v1.36.3", Replicas: 1284, LastContact: now},
		Clusters: []metrics.ClusterStatus{
			member("idc-a", "live", "v1.36.3", 812, 14206, 12950, 41),
			member("idc-b", "live", "v1.31.9", 640, 9023, 8740, 0),
			member("gke-europe-west4", "live", "v1.35.2-gke.1300", 96, 1210, 1180, 3),
			member("edge-lisbon-07", "unreachable", "v1.22.17", 12, 48, 44, 0),
			member("idc-new", "listing", "v1.36.3", 0, 0, 0, 0),
		},
		Lanes: []metrics.LaneStatus{{Name: "removal"}, {Name: "addition", Waiting: 2, OldestSeconds: 0.004}, {Name: "bulk", Waiting: 37, OldestSeconds: 1.2}},
	}
	s.Clusters[1].Missing = 21
	s.Clusters[1].Conditions = []metrics.Condition{{Reason: "Missing", Message: "21 objects that a list did not have are being asked for"}}
	s.Clusters[0].Native = &metrics.NativeStatus{BehindSeconds: 412}
	edge, fresh := &s.Clusters[3], &s.Clusters[4]
	edge.Conditions = []metrics.Condition{{Reason: "Unreachable", Message: "it does not answer; its endpoints stay as they were"}}
	edge.Up, edge.LagSeconds = false, 312.4
	edge.LastContact, edge.LastErrorAt = now.Add(-6*time.Minute), now.Add(-2*time.Second)
	edge.LastError = `watch pods: dial tcp 203.0.113.7:6443: connect: connection refused; its endpoints stay as they were last seen`
	fresh.Synced = false
	s.Clusters[0].LagSeconds = 0.0021
	return s
}

func (f *Fleet) trouble() {
	f.Metrics.Report("shop", "web", metrics.Trouble{Conflicts: []metrics.Conflict{{
		Cluster: "idc-b", Reason: "port", Message: `port "http": idc-a says 8080/TCP, idc-b says 9090/TCP; the older Service, that of idc-a, wins; give both the same ports`,
	}}})
	f.Metrics.Report("payments", "ledger", metrics.Trouble{
		Conflicts: []metrics.Conflict{{Reason: "foreign_object", Message: "Service payments/ledger in the ingress cluster is not ours; delete or rename it, or exclude the namespace"}},
		Rejected:  []metrics.Rejection{{Cluster: "gke-europe-west4", Address: "169.254.169.254", Reason: "link_local"}},
	})
}

// Change reports a change that happens now.
func (f *Fleet) Change() { f.change(time.Now()) }

// change reports a made-up change at a time.
func (f *Fleet) change(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.random
	cluster := []string{"idc-a", "idc-a", "idc-a", "idc-b", "idc-b", "gke-europe-west4"}[r.IntN(6)]
	n := r.IntN(5)
	namespace, service, _ := strings.Cut([]string{"shop/web", "shop/checkout", "payments/ledger", "search/index-query", "media/thumbnails"}[n], "/")
	f.serial++
	ip := fmt.Sprintf("10.%d.%d.%d", 2+n, r.IntN(40), 1+r.IntN(250))
	cause := record.Cause{
		Cluster: cluster, Kind: "Pod", Namespace: namespace, Name: fmt.Sprintf("%s-6d5f9c7b8-%05x", service, f.serial), Event: "modified",
		UID: fmt.Sprintf("%08x", f.serial), State: "ready", IP: ip, Arrival: at, Live: true,
	}
	lane, removal := "addition", r.IntN(2) == 0
	if removal {
		lane, cause.State = "removal", "terminating"
	}
	total := f.latency(cluster)
	rec := record.Begin(namespace, service, cause, 1+max(0, f.random.IntN(8)-5), at.Add(total/8))
	rec.Lane = lane
	rec.Computed(at.Add(total / 4))
	rec.Stages.WriteEndpoints, rec.Stages.WriteSlices = total*3/5, total*3/4
	switch {
	case removal:
		rec.Removed = []string{ip + ":8080"}
	case r.IntN(4) == 0:
		for i := range 1 + r.IntN(9) {
			rec.Added = append(rec.Added, fmt.Sprintf("[2001:db8:%x::%x]:8080", n, i+1))
		}
	default:
		rec.Readied = []string{ip + ":8080"}
	}
	result, err := f.outcome(namespace + "/" + service)
	if result == record.Dropped {
		rec.Removed, rec.Readied, rec.Added = nil, nil, nil
	}
	rec.End(at.Add(total), result, err)
	f.Metrics.Change(rec)
}

// latency draws mostly values near 2 ms, and a few far higher.
func (f *Fleet) latency(cluster string) time.Duration {
	spread := 0.45
	if cluster == "idc-b" {
		spread = 0.9
	}
	total := time.Duration(1.9e6 * math.Exp(spread*f.random.NormFloat64()))
	if f.random.IntN(70) == 0 {
		total *= 60
	}
	return total
}

func (f *Fleet) outcome(service string) (record.Result, error) {
	switch f.random.IntN(24) {
	case 0:
		return record.Failed, errors.New("update Endpoints " + service + ": the server is currently unable to handle the request; trying again in 1 s")
	case 1:
		return record.Dropped, nil
	case 2:
		return record.Blocked, errors.New("the name is taken by a Service that is not Tributary's")
	}
	return record.Written, nil
}
