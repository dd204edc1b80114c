// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

var resource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// server is as much of an API server as an election needs.
type server struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	writes  int
	watches map[chan watch.Event]bool
	// unwatched refuses watches.
	unwatched bool
}

func newServer() *server { return &server{watches: map[chan watch.Event]bool{}} }

// client is how one process reaches it.
type client struct {
	kubernetes.Interface
	coordinationclient.CoordinationV1Interface
	coordinationclient.LeaseInterface
	server *server

	mu sync.Mutex
	// cut lets requests hang, as when the network is away; denied refuses them, readOnly
	// those that write.
	cut, denied, readOnly bool
}

func (s *server) client() *client {
	c := &client{server: s}
	c.Interface = fake.NewClientset()
	return c
}

func (c *client) CoordinationV1() coordinationclient.CoordinationV1Interface { return c }
func (c *client) Leases(string) coordinationclient.LeaseInterface            { return c }
func (c *client) RESTClient() rest.Interface                                 { return nil }

// reach takes the time of a round trip, and fails where the network is away.
func (c *client) reach(ctx context.Context, writes bool) error {
	c.mu.Lock()
	cut, denied := c.cut, c.denied || writes && c.readOnly
	c.mu.Unlock()
	if denied {
		return apierrors.NewForbidden(resource, "", nil)
	}
	if cut {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(2 * time.Millisecond)
	return ctx.Err()
}

func (c *client) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *client) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := c.reach(ctx, false); err != nil {
		return nil, err
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.lease == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return c.server.lease.DeepCopy(), nil
}

func (c *client) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if err := c.reach(ctx, true); err != nil {
		return nil, err
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.lease != nil {
		return nil, apierrors.NewAlreadyExists(resource, lease.Name)
	}
	if len(o.DryRun) > 0 {
		return lease, nil
	}
	return c.server.lockedStore(lease), nil
}

func (c *client) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := c.reach(ctx, true); err != nil {
		return nil, err
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.lease == nil {
		return nil, apierrors.NewNotFound(resource, lease.Name)
	}
	if c.server.lease.ResourceVersion != lease.ResourceVersion {
		return nil, apierrors.NewConflict(resource, lease.Name, nil)
	}
	if len(o.DryRun) > 0 {
		return lease, nil
	}
	return c.server.lockedStore(lease), nil
}

func (s *server) lockedStore(lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	s.writes++
	s.lease = lease.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	if s.lease.UID == "" {
		s.lease.UID = types.UID("lease-" + s.lease.ResourceVersion)
	}
	for events := range s.watches {
		events <- watch.Event{Type: watch.Modified, Object: s.lease.DeepCopy()}
	}
	return s.lease.DeepCopy()
}

// edit changes the Lease as a person would.
func (s *server) edit(change func(*coordinationv1.LeaseSpec)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease := s.lease.DeepCopy()
	change(&lease.Spec)
	s.lockedStore(lease)
}

// remove deletes the Lease as somebody by hand would.
func (s *server) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := s.lease
	s.lease = nil
	for events := range s.watches {
		events <- watch.Event{Type: watch.Deleted, Object: gone.DeepCopy()}
	}
}

func (s *server) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return "nobody yet"
	}
	return *s.lease.Spec.HolderIdentity
}

func (c *client) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	if err := c.reach(ctx, false); err != nil {
		return nil, err
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.unwatched {
		return nil, apierrors.NewForbidden(resource, "", nil)
	}
	events := make(chan watch.Event, 1000)
	c.server.watches[events] = true
	stream := watch.NewProxyWatcher(events)
	context.AfterFunc(ctx, func() {
		c.server.mu.Lock()
		delete(c.server.watches, events)
		c.server.mu.Unlock()
	})
	return stream, nil
}

// process is one of the candidates.
type process struct {
	*client
	permit  *Permit
	elector *Elector
	stop    context.CancelCauseFunc
	ended   chan struct{}

	mu sync.Mutex
	// led are the times at which it was elected and at which it was told to end.
	led, left []time.Time
	// wind is how long its writers take to end.
	wind time.Duration
}

// tens are the default durations.
var tens = Times{LeaseDuration: 10 * time.Second, RenewDeadline: 8 * time.Second, RetryPeriod: 2 * time.Second}

func (s *server) start(t *testing.T, identity string, change func(*Options, *client)) *process {
	p := &process{client: s.client(), permit: &Permit{}, ended: make(chan struct{})}
	o := Options{
		Client: p.client, Namespace: "own", Name: "tributary", Identity: identity, Times: tens, Permit: p.permit,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)).With("process", identity),
	}
	if change != nil {
		change(&o, p.client)
	}
	p.elector = New(o)
	ctx, stop := context.WithCancelCause(t.Context())
	p.stop = stop
	go func() {
		defer close(p.ended)
		p.elector.Run(ctx, func(ctx context.Context) {
			p.mark(&p.led)
			if !p.permit.MayWrite() {
				t.Errorf("%s leads without the permit", identity)
			}
			<-ctx.Done()
			p.mark(&p.left)
			time.Sleep(p.wind)
		})
	}()
	synctest.Wait()
	return p
}

func (p *process) mark(times *[]time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*times = append(*times, time.Now())
}

// elections is how often it was elected.
func (p *process) elections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.led)
}

func (p *process) end() {
	p.stop(nil)
	<-p.ended
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// within waits until something holds, and fails if that takes longer than it may.
func within(t *testing.T, limit time.Duration, what string, holds func() bool) (took time.Duration) {
	t.Helper()
	began := time.Now()
	for ; !holds(); pass(time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
	return time.Since(began)
}
