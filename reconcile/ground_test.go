// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"context"
	"iter"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// product is the user agent under test.
const product = "tributary/test"

// ground is a reconciler beside an API server in memory and members made of
// values.
type ground struct {
	t       *testing.T
	server  *apitest.Server
	source  *members
	rec     *Reconciler
	seen    *recorder
	options Options
	cancel  context.CancelFunc
	done    chan struct{}
}

func newGround(t *testing.T, clusters ...string) *ground {
	t.Helper()
	return newGroundOn(t, apitest.New(t), clusters...)
}

func newGroundOn(t *testing.T, server *apitest.Server, clusters ...string) *ground {
	t.Helper()
	g := &ground{t: t, server: server, source: newMembers(clusters...), seen: &recorder{changed: make(chan struct{})}}
	g.options = Options{
		Session: server.Session(t), Writer: server.Client(t, product), Source: g.source, Recorder: g.seen,
		Queue: lanes.Options{Backoff: lanes.Backoff{Base: time.Millisecond, Max: 20 * time.Millisecond}},
	}
	return g
}

// start runs the reconciler and returns once it has seen the ingress cluster.
func (g *ground) start() {
	g.t.Helper()
	g.rec = New(g.options)
	g.launch()
	g.settle()
}

// launch runs the reconciler that was made, and tells it of the members once it has seen
// the ingress cluster.
func (g *ground) launch() {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	g.cancel, g.done = cancel, make(chan struct{})
	done := g.done
	go func() { defer close(done); g.rec.Run(ctx) }()
	g.t.Cleanup(g.stop)
	if err := g.rec.WaitForSync(ctx); err != nil {
		g.t.Fatal(err)
	}
	for !g.rec.leadership.leads() { // what is looked at before is not on record
		runtime.Gosched()
	}
	for _, m := range g.source.Members() {
		if m.Synced {
			g.rec.Seen(m.Name)
		}
	}
}

// stop ends the reconciler and waits for it.
func (g *ground) stop() {
	g.cancel()
	<-g.done
}

// wait returns when the condition holds; it is looked at after every change of
// the server and every step of the reconciler.
func (g *ground) wait(what string, condition func() bool) {
	g.t.Helper()
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	for {
		stepped, changed := g.seen.next(), g.server.Changed()
		if condition() {
			return
		}
		select {
		case <-stepped:
		case <-changed:
		case <-timeout.C:
			g.t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// settle returns when no key waits or is worked on.
func (g *ground) settle() {
	g.t.Helper()
	g.wait("all keys are done", func() bool { return len(g.rec.Queue().OldestArrivals()) == 0 })
}

// set gives a member's share of a replica and tells the reconciler.
func (g *ground) set(cluster string, svc *syncer.Service, pods ...*syncer.Pod) {
	g.source.set(cluster, svc, pods...)
	g.rec.Dirty(svc.Key, lanes.Addition, liveCause(cluster, svc.Key))
}

// unset takes it away.
func (g *ground) unset(cluster string, key syncer.Key) {
	g.source.unset(cluster, key)
	g.rec.Dirty(key, lanes.Removal, liveCause(cluster, key))
}

func liveCause(cluster string, key syncer.Key) record.Cause {
	return record.Cause{Cluster: cluster, Kind: "Pod", Namespace: key.Namespace, Name: key.Name, Event: "modified", Arrival: time.Now(), Live: true}
}

// writes returns what was written since the last call, in order.
func (g *ground) writes() []string {
	var out []string
	for _, w := range g.server.Writes(product) {
		out = append(out, w.String())
	}
	g.server.ForgetWrites()
	return out
}

// addresses returns the addresses that the standing Endpoints and slices carry.
func (g *ground) addresses(key syncer.Key) (endpoints, sliced []string) {
	if ep, ok := apitest.Get[*corev1.Endpoints](g.server, key.Namespace, key.Name); ok {
		for _, s := range ep.Subsets {
			for _, a := range s.Addresses {
				endpoints = append(endpoints, a.IP)
			}
		}
	}
	for _, es := range apitest.List[*discoveryv1.EndpointSlice](g.server, key.Namespace) {
		if es.Labels[plan.LabelServiceName] != key.Name {
			continue
		}
		for _, e := range es.Endpoints {
			if *e.Conditions.Ready {
				sliced = append(sliced, e.Addresses...)
			}
		}
	}
	slices.Sort(endpoints)
	slices.Sort(sliced)
	return endpoints, sliced
}

// expect fails unless exactly the addresses stand, in both kinds.
func (g *ground) expect(key syncer.Key, want ...string) {
	g.t.Helper()
	endpoints, sliced := g.addresses(key)
	if !slices.Equal(endpoints, want) || !slices.Equal(sliced, want) {
		g.t.Errorf("%s has Endpoints %v and slices %v, want %v", key, endpoints, sliced, want)
	}
}

// expectWrites fails unless exactly these writes were made since the last look.
func (g *ground) expectWrites(want ...string) {
	g.t.Helper()
	if got := g.writes(); !slices.Equal(got, want) {
		g.t.Errorf("writes:\n%q\nwant:\n%q", got, want)
	}
}

var web = syncer.Key{Namespace: "shop", Name: "web"}

// service is a Service with one port of the given number, as old as created.
func service(key syncer.Key, created int64, port int32) *syncer.Service {
	return &syncer.Service{
		Key: key, UID: "src", Created: created, Selector: map[string]string{"app": key.Name}, ClusterIP: "172.16.0.9",
		IPFamilies: []syncer.Family{syncer.IPv4},
		Ports:      []syncer.ServicePort{{Name: "http", Protocol: syncer.TCP, Port: 80, Target: syncer.TargetPort{Number: port}}},
	}
}

func pod(key syncer.Key, ip string, ready bool) *syncer.Pod {
	return &syncer.Pod{
		Key: syncer.Key{Namespace: key.Namespace, Name: key.Name + "-" + ip}, UID: "pod-" + ip,
		Labels: map[string]string{"app": key.Name}, IPs: []syncer.PodIP{{Addr: netip.MustParseAddr(ip), Raw: ip}},
		NodeName: "node", Ready: ready, ReadySince: 1700000000,
	}
}

// members is a Source of values.
type members struct {
	mu     sync.Mutex
	states []MemberState
	given  map[syncer.Key]map[string]plan.Contribution
	unseen map[syncer.Key][]string
	// gone are addresses of members, the same in all replicas.
	gone map[string][]netip.Addr
	// settings are set directly before they are used.
	settings Settings
	// commits counts calls of Commit.
	commits int
}

func newMembers(clusters ...string) *members {
	m := &members{given: map[syncer.Key]map[string]plan.Contribution{}, unseen: map[syncer.Key][]string{},
		settings: Settings{Settings: plan.Settings{WriteEndpoints: true, WriteSlices: true, CreateNamespaces: true}}}
	for _, name := range clusters {
		m.states = append(m.states, MemberState{Name: name, Synced: true, Live: true})
	}
	return m
}

func (m *members) set(cluster string, svc *syncer.Service, pods ...*syncer.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given[svc.Key] == nil {
		m.given[svc.Key] = map[string]plan.Contribution{}
	}
	m.given[svc.Key][cluster] = plan.Contribution{
		Cluster: cluster, Source: svc.Key, Contribution: syncer.Compute(svc, slices.Values(pods), syncer.Options{}),
	}
}

func (m *members) unset(cluster string, key syncer.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.given[key], cluster)
}

func (m *members) setSynced(cluster string, synced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.states {
		if m.states[i].Name == cluster {
			m.states[i].Synced = synced
		}
	}
}

func (m *members) Gather(key syncer.Key) Snapshot {
	g := m.Peek(key)
	g.Commit = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.commits++
	}
	return g
}

func (m *members) Peek(key syncer.Key) Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	settings := m.settings
	g := Snapshot{Settings: &settings, Members: slices.Clone(m.states), Unseen: m.unseen[key], Gone: maps.Clone(m.gone)}
	for _, cluster := range slices.Sorted(maps.Keys(m.given[key])) {
		g.Contributions = append(g.Contributions, m.given[key][cluster])
	}
	return g
}

func (m *members) Settings() *Settings {
	m.mu.Lock()
	defer m.mu.Unlock()
	settings := m.settings
	return &settings
}

// setSettings applies an edited configuration.
func (m *members) setSettings(s Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings = s
}

func (m *members) Replicas() iter.Seq[syncer.Key] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []syncer.Key
	for key, given := range m.given {
		if len(given) > 0 {
			keys = append(keys, key)
		}
	}
	return slices.Values(keys)
}

func (m *members) Members() []MemberState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.states)
}

// recorder keeps what it is told.
type recorder struct {
	unrecorded
	mu       sync.Mutex
	changed  chan struct{}
	records  []record.Change
	refs     []record.Ref
	echoes   []record.Ref
	troubles map[syncer.Key]metrics.Trouble
}

func (r *recorder) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *recorder) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Change(rec record.Change) (seq uint64) {
	r.do(func() { r.records = append(r.records, rec); seq = uint64(len(r.records)) })
	return seq
}

func (r *recorder) Expect(_ uint64, _ *record.Change, refs []record.Ref) {
	r.do(func() { r.refs = append(r.refs, refs...) })
}

func (r *recorder) Echo(ref record.Ref, _ time.Time) {
	r.do(func() { r.echoes = append(r.echoes, ref) })
}

func (r *recorder) Report(namespace, service string, t metrics.Trouble) {
	r.do(func() {
		if r.troubles == nil {
			r.troubles = map[syncer.Key]metrics.Trouble{}
		}
		r.troubles[syncer.Key{Namespace: namespace, Name: service}] = t
	})
}

func (r *recorder) WorkDone(string, time.Duration) { r.do(func() {}) }

func (r *recorder) trouble(key syncer.Key) metrics.Trouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.troubles[key]
}

func (r *recorder) all() []record.Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records)
}

func number3(i int) string { return strconv.Itoa(1000 + i)[1:] }
