// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints and the plain fake clientset are what is tested with

package oracle

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/endpoint"
)

// patience is how long a batch may take: seconds on a free machine, but tests
// share theirs.
const patience = 4 * time.Minute

// UpstreamEndpoints runs upstream's endpoints controller over cases that no
// Endpoints exist for, and returns what it creates, by namespace. Services that
// it must leave alone are checked to be left alone.
func UpstreamEndpoints(ctx context.Context, cases []*Case) (map[string]*corev1.Endpoints, error) {
	ctx, cancel := context.WithCancel(ctx)
	objects := make([]runtime.Object, 0, 4*len(cases))
	expected := 0
	for _, c := range cases {
		objects = append(objects, c.Service)
		for _, p := range c.Pods {
			objects = append(objects, p)
		}
		if hasController(c.Service) {
			expected++
		}
	}
	client := fake.NewSimpleClientset(objects...)
	got := newCollector(expected)
	client.PrependReactor("create", "endpoints", got.react)
	client.PrependReactor("create", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, a.(clienttesting.CreateAction).GetObject(), nil
	})

	factory := informers.NewSharedInformerFactory(client, 0)
	controller := endpoint.NewEndpointController(ctx, factory.Core().V1().Pods(), factory.Core().V1().Services(),
		factory.Core().V1().Endpoints(), client, 0)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { controller.Run(ctx, 4) })
	err := got.wait(patience)
	cancel()
	running.Wait()
	factory.Shutdown()
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		if _, created := got.byNamespace[c.Name()]; created != hasController(c.Service) {
			return nil, fmt.Errorf("%s: upstream created Endpoints: %v, want %v", c.Name(), created, !created)
		}
	}
	return got.byNamespace, nil
}

// hasController reports whether upstream computes the Service's endpoints.
func hasController(s *corev1.Service) bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.Selector != nil
}

// collector keeps the first Endpoints created in each namespace. It answers
// every create itself: the fake clientset sets no resourceVersion, so the
// controller would believe for ever that nothing exists, and its watch panics
// when more than 100 events wait.
type collector struct {
	mu          sync.Mutex
	byNamespace map[string]*corev1.Endpoints
	missing     int
	done        chan struct{}
}

func newCollector(expected int) *collector {
	c := &collector{byNamespace: map[string]*corev1.Endpoints{}, missing: expected, done: make(chan struct{})}
	if expected == 0 {
		close(c.done)
	}
	return c
}

func (c *collector) react(action clienttesting.Action) (bool, runtime.Object, error) {
	object := action.(clienttesting.CreateAction).GetObject()
	created := object.(*corev1.Endpoints).DeepCopy()
	created.Namespace = action.GetNamespace()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, again := c.byNamespace[created.Namespace]; !again {
		c.byNamespace[created.Namespace] = created
		if c.missing--; c.missing == 0 {
			close(c.done)
		}
	}
	return true, object, nil
}

func (c *collector) wait(atMost time.Duration) error {
	timeout := time.NewTimer(atMost)
	defer timeout.Stop()
	select {
	case <-c.done:
		return nil
	case <-timeout.C:
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("upstream's endpoints controller left %d Services without Endpoints after %v", c.missing, atMost)
	}
}
