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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

var resource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// server is as much of an API server as an election needs.
type server struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
}

// client is how one process reaches it.
type client struct {
	kubernetes.Interface
	coordinationclient.CoordinationV1Interface
	coordinationclient.LeaseInterface
	server *server

	mu sync.Mutex
	// cut lets requests hang, as when the network is away; late lets them arrive so much
	// later than they were sent, and slow lets answers take as long.
	cut        bool
	late, slow time.Duration
}

func (c *client) CoordinationV1() coordinationclient.CoordinationV1Interface { return c }
func (c *client) Leases(string) coordinationclient.LeaseInterface            { return c }

// do carries a request out as the network lets it.
func (c *client) do(ctx context.Context, serve func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	c.mu.Lock()
	cut, late, slow := c.cut, c.late, c.slow
	c.mu.Unlock()
	if cut {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(late + time.Millisecond)
	c.server.mu.Lock()
	lease, err := serve()
	c.server.mu.Unlock()
	time.Sleep(slow + time.Millisecond)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return lease, err
}

func (c *client) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *client) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, func() (*coordinationv1.Lease, error) {
		if c.server.lease == nil {
			return nil, apierrors.NewNotFound(resource, name)
		}
		return c.server.lease.DeepCopy(), nil
	})
}

func (c *client) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, func() (*coordinationv1.Lease, error) {
		if c.server.lease != nil {
			return nil, apierrors.NewAlreadyExists(resource, lease.Name)
		}
		return c.server.lockedStore(lease), nil
	})
}

func (c *client) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, func() (*coordinationv1.Lease, error) {
		switch stored := c.server.lease; {
		case stored == nil:
			return nil, apierrors.NewNotFound(resource, lease.Name)
		case stored.ResourceVersion != lease.ResourceVersion:
			return nil, apierrors.NewConflict(resource, lease.Name, nil)
		}
		return c.server.lockedStore(lease), nil
	})
}

func (s *server) lockedStore(lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	s.lease = lease.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	return s.lease.DeepCopy()
}

// edit changes the Lease as a person would; remove deletes it.
func (s *server) edit(change func(*coordinationv1.LeaseSpec)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease := s.lease.DeepCopy()
	change(&lease.Spec)
	s.lockedStore(lease)
}

func (s *server) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = nil
}

// process is one of the candidates.
type process struct {
	*client
	permit  *Permit
	elector *Elector
	stop    context.CancelFunc
	ended   chan struct{}

	mu sync.Mutex
	// led is how often it was elected, wind how long its writers take to end.
	led  int
	wind time.Duration
}

const lease = 15 * time.Second

func (s *server) start(t *testing.T, identity string) *process {
	p := &process{client: &client{Interface: fake.NewClientset(), server: s}, permit: &Permit{}, ended: make(chan struct{})}
	p.elector = New(Options{
		Client:    func(context.Context) (kubernetes.Interface, error) { return p.client, nil },
		Namespace: "own", Name: "tributary", Identity: identity, LeaseDuration: lease, Permit: p.permit,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)).With("process", identity),
	})
	p.run(t)
	return p
}

func (p *process) run(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	go func() {
		defer close(p.ended)
		p.elector.Run(ctx, func(ctx context.Context) {
			p.mu.Lock()
			p.led++
			p.mu.Unlock()
			if !p.mayWrite() {
				t.Errorf("%s leads without the permit", p.elector.lock.opts.Identity)
			}
			<-ctx.Done()
			time.Sleep(p.wind)
		})
	}()
	synctest.Wait()
}

// mayWrite reports whether a request could be sent now.
func (p *process) mayWrite() bool {
	_, release, ok := p.permit.Hold(context.Background())
	if ok {
		release()
	}
	return ok
}

// elections is how often it was elected.
func (p *process) elections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.led
}

func (p *process) end() {
	p.stop()
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

// neverBoth lets time pass and fails if two processes may write in one moment.
func neverBoth(t *testing.T, d time.Duration, a, b *process) {
	t.Helper()
	for began := time.Now(); time.Since(began) < d; pass(10 * time.Millisecond) {
		if a.mayWrite() && b.mayWrite() {
			t.Fatalf("both may write after %s", time.Since(began))
		}
	}
}
