// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/sinks"
	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var web = syncer.Key{Namespace: "shop", Name: "web"}

const agent = "tributary/test"

// ground is an ingress cluster, members that tests move, and a process between them.
type ground struct {
	t      *testing.T
	server *apitest.Server
	*process

	mu       sync.Mutex
	shares   map[syncer.Key]map[string]syncer.Share
	settings Settings
	listed   bool
}

func newGround(t *testing.T, server *apitest.Server) *ground {
	g := &ground{t: t, server: server, shares: map[syncer.Key]map[string]syncer.Share{}, listed: true}
	g.settings = Settings{
		Settings: plan.Settings{Instance: "default", WriteEndpoints: true, CreateNamespaces: true, CopyLabel: func(string) bool { return true }},
		MayWrite: func(namespace string) bool { return namespace != "own" },
	}
	g.server.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
	g.process = g.start()
	return g
}

// play runs a scene in virtual time.
func play(t *testing.T, scene func(g *ground)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGround(t, apitest.NewInMemory(t))
		g.pass(time.Second)
		scene(g)
		g.process.stop()
	})
}

// The methods of Source.

func (g *ground) Shares(key syncer.Key) []syncer.Share {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.shares[key]))
}

func (g *ground) Settings() *Settings {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.settings
	return &s
}

func (g *ground) Replicas() []syncer.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.shares))
}

func (g *ground) AllListed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.listed
}

// set makes a member contribute a Service with endpoints, those not ready in brackets; "-": none.
// The ports are 8080 unless another is given.
func (g *ground) set(key syncer.Key, member, text string, port ...int32) {
	g.mu.Lock()
	share := syncer.Share{Member: member, Listed: true}
	if text != "-" {
		share.Given = contribution(key, text, append(port, 8080)[0])
	}
	if g.shares[key] == nil {
		g.shares[key] = map[string]syncer.Share{}
	}
	g.shares[key][member] = share
	g.mu.Unlock()
	g.r.add(key, record.Cause{Cluster: member, Kind: "Pod", Namespace: key.Namespace, Name: key.Name + "-1", Event: "modified", Arrival: time.Now(), Live: true})
}

func contribution(key syncer.Key, text string, port int32) syncer.Contribution {
	c := syncer.Contribution{
		Service: &syncer.Service{Key: key, UID: "uid-" + key.Name, Created: 1, Labels: map[string]string{"app": key.Name}, Selector: map[string]string{"app": key.Name},
			ClusterIP: "10.96.0.1", IPFamilies: []syncer.Family{syncer.IPv4}, Ports: []syncer.ServicePort{{Name: "http", Protocol: syncer.TCP, Port: 80, Target: syncer.TargetPort{Number: port}}}},
		Families: []syncer.Family{syncer.IPv4},
	}
	for a := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		ready, grade := !strings.HasPrefix(a, "("), syncer.Ready
		if a = strings.Trim(a, "()"); !ready {
			grade = syncer.NotReady
		}
		c.Endpoints = append(c.Endpoints, syncer.Endpoint{
			Addr: netip.MustParseAddr("10.0.0." + a), Ports: []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: port}}, Grade: grade, Ready: ready, Serving: ready,
			NodeName: "n1", Target: syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: key.Namespace, Name: key.Name + "-" + a}, UID: "pod-" + a},
		})
	}
	slices.SortFunc(c.Endpoints, func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) })
	return c
}

// process is one Tributary before the ingress cluster.
type process struct {
	r      *Reconciler
	access *kube.Access
	seen   *seen
	set    *sinks.Set
	// lead has it lead until stop.
	lead, stop func()

	mu sync.Mutex
	// permit is done when this process may not write.
	permit context.Context
	revoke context.CancelFunc
	// lasts is how long a request may take by the permit, though it is renewed meanwhile; zero: ever.
	lasts time.Duration
}

// Hold is a Permit.
func (p *process) Hold(parent context.Context) (context.Context, func(), bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.permit.Err() != nil {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(parent)
	if p.lasts > 0 {
		ctx, cancel = context.WithTimeout(parent, p.lasts)
	}
	detach := context.AfterFunc(p.permit, cancel)
	return ctx, func() { detach(); cancel() }, true
}

// grant renews the Permit.
func (p *process) grant() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.permit, p.revoke = context.WithCancel(context.Background())
}

// start starts a process that leads.
func (g *ground) start() *process {
	p := g.standBy()
	p.lead()
	return p
}

// standBy starts a process that does not lead yet.
func (g *ground) standBy() *process {
	p := &process{seen: &seen{troubles: map[syncer.Key]metrics.Trouble{}}}
	p.grant()
	p.access = kube.NewAccess(func(ctx context.Context) (*kube.Session, error) {
		return kube.Open(ctx, g.server.Config(""), kube.Options{Version: "test"})
	})
	p.set = sinks.New(sinks.Options{Instance: "default", Hold: p.Hold, Observe: func(string, string) {}, Logger: slog.New(slog.DiscardHandler)})
	p.r = New(Options{Access: p.access, Write: p.access, Source: g, Permit: p, Sinks: p.set, Metrics: p.seen, Instance: "default",
		Logger: slog.New(slog.NewTextHandler(g.t.Output(), nil))})
	following, end := context.WithCancel(g.t.Context())
	leading, resign := context.WithCancel(g.t.Context())
	var group sync.WaitGroup
	group.Go(func() { p.r.Follow(following) })
	var leads sync.WaitGroup
	p.lead = func() { leads.Go(func() { p.r.Lead(leading) }) }
	p.stop = func() { resign(); leads.Wait(); end(); group.Wait(); p.access.Close() }
	return p
}

func (g *ground) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect fails unless, within a time, Endpoints and slices of a replica have these addresses,
// those not ready in brackets; "-": neither is there.
func (g *ground) expect(key syncer.Key, want string, within time.Duration) {
	g.t.Helper()
	for began := time.Now(); ; g.pass(5 * time.Millisecond) {
		slices, endpoints := g.published(key)
		if slices == want && endpoints == want {
			return
		}
		if time.Since(began) >= within {
			g.t.Fatalf("after %s: slices %q, Endpoints %q, want %q", within, slices, endpoints, want)
		}
	}
}

// published are the endpoints of a replica.
func (g *ground) published(key syncer.Key) (inSlices, inEndpoints string) {
	inSlices, inEndpoints = "-", "-"
	var all []string
	add := func(address string, ready bool) {
		if address = strings.TrimPrefix(address, "10.0.0."); !ready {
			address = "(" + address + ")"
		}
		all = append(all, address)
	}
	for _, s := range apitest.List[*discoveryv1.EndpointSlice](g.server, key.Namespace) {
		if s.Labels[discoveryv1.LabelServiceName] == key.Name {
			inSlices = ""
			for _, e := range s.Endpoints {
				add(e.Addresses[0], *e.Conditions.Ready)
			}
		}
	}
	if inSlices == "" {
		inSlices = sorted(all)
	}
	all = nil
	if ep, ok := apitest.Get[*corev1.Endpoints](g.server, key.Namespace, key.Name); ok {
		for _, s := range ep.Subsets {
			for _, a := range s.Addresses {
				add(a.IP, true)
			}
			for _, a := range s.NotReadyAddresses {
				add(a.IP, false)
			}
		}
		inEndpoints = sorted(all)
	}
	return inSlices, inEndpoints
}

func sorted(all []string) string {
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(strings.Trim(a, "()"), strings.Trim(b, "()")) })
	return strings.Join(all, ",")
}

// writes are those since the last call.
func (g *ground) writes() []string {
	var out []string
	for _, w := range g.server.Writes(agent) {
		out = append(out, w.String())
	}
	g.server.ForgetWrites()
	return out
}

// quiet fails if anything is written.
func (g *ground) quiet(d time.Duration) {
	g.t.Helper()
	g.writes()
	g.pass(d)
	if w := g.writes(); len(w) > 0 {
		g.t.Errorf("written for nothing: %q", w)
	}
}

// settled fails unless nothing waits to be written.
func (g *ground) settled() {
	g.t.Helper()
	g.pass(time.Second) // a Service is deleted after what the scene has checked
	g.r.Step(func(c *Core, _ time.Time) {
		if _, lag := c.Status(time.Now()); len(lag) > 0 || c.Waiting() > 0 || len(c.changes)+len(c.unfinished) > 0 || len(c.dispatch.Failed(web)) > 0 {
			g.t.Errorf("lag %v, %d to compare, %d open records, troubles %v", lag, c.Waiting(), len(c.changes)+len(c.unfinished), c.dispatch.Failed(web))
		}
	})
}

// add has a replica compared for a cause.
func (r *Reconciler) add(replica syncer.Key, cause record.Cause) {
	r.Step(func(c *Core, now time.Time) { c.Add(now, replica, syncer.Addition, false, cause) })
}

// compareAll has all replicas compared.
func (g *ground) compareAll() {
	g.r.Step(func(c *Core, now time.Time) { c.AddAll(now, record.EventConfigured) })
}

// oldest is when the oldest change that is not written arrived, by member.
func (g *ground) oldest() (oldest map[string]time.Time) {
	g.r.Step(func(c *Core, _ time.Time) { _, oldest = c.Status(time.Now()) })
	return oldest
}

// seen is what the reconciler reports.
type seen struct {
	mu       sync.Mutex
	changes  []record.Change
	troubles map[syncer.Key]metrics.Trouble
	results  []metrics.WriteResult
}

// Change leaves out what is not reported: that no difference followed from what was no event.
func (s *seen) Change(c record.Change) uint64 {
	if c.Result == record.Dropped && !c.Cause.Live {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, c)
	return 0
}

func (s *seen) Report(namespace, service string, t metrics.Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles[syncer.Key{Namespace: namespace, Name: service}] = t
}

func (s *seen) Write(_, _ string, result metrics.WriteResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, result)
}

func (s *seen) Workqueue() workqueue.MetricsProvider { return nil }

// told returns the records since the last call, as "result: +added -removed ^readied vunreadied".
func (s *seen) told() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.changes {
		text := string(c.Result)
		for i, list := range [][]string{c.Added, c.Removed, c.Readied, c.Unreadied} {
			for _, a := range list {
				text += fmt.Sprintf(" %c%s", "+-^v"[i], strings.TrimSuffix(strings.TrimPrefix(a, "10.0.0."), ":8080"))
			}
		}
		all = append(all, text)
	}
	s.changes = nil
	return all
}

// last is the last record.
func (s *seen) last() record.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes[len(s.changes)-1]
}

// reasons are those of the conflicts of a replica.
func (s *seen) reasons(key syncer.Key) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.troubles[key].Conflicts {
		all = append(all, c.Reason)
	}
	return all
}

var errFault = errors.New("as the test says")
