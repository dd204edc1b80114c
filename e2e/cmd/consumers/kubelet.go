// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/podnet"
)

const (
	// startTime is how long a pod takes from its creation to ready.
	startTime = 500 * time.Millisecond
	// probePeriod is how long a kubelet takes to find a container that has crashed.
	probePeriod = time.Second
	// deadHeader marks responses of dead pods, podHeader names the pod in all others.
	deadHeader, podHeader = "X-Dead", "X-Pod"
)

// kubelet runs a member's pods: each is an HTTP server at the pod's address. A pod that is deleted serves for its grace
// period, and is dead then.
type kubelet struct {
	site *fleet.Site
	link *podnet.Link

	mu     sync.Mutex
	met    map[types.UID]*container
	group  sync.WaitGroup
	failed error
}

// container is the program of a pod.
type container struct {
	pod     *corev1.Pod
	address string
	member  string
	ready   atomic.Bool  // reported
	died    atomic.Int64 // nanoseconds of the Unix time; 0: it lives
	asked   atomic.Int64 // of the last request after that
	started chan struct{}
	ends    sync.Once
}

func (c *container) ServeHTTP(out http.ResponseWriter, _ *http.Request) {
	out.Header().Set(podHeader, c.member+"/"+c.pod.Name)
	if c.died.Load() != 0 {
		c.asked.Store(time.Now().UnixNano())
		out.Header().Set(deadHeader, c.pod.Name)
		http.Error(out, "this pod is dead", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(out, c.pod.Name) // a client that went away is not reported
}

// startKubelet runs the pods of namespaces until ctx ends; wait for group then.
func startKubelet(ctx context.Context, site *fleet.Site, link *podnet.Link, namespaces ...string) (*kubelet, error) {
	k := &kubelet{site: site, link: link, met: map[types.UID]*container{}}
	for _, namespace := range namespaces {
		pods, err := site.Client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		k.group.Go(func() {
			defer pods.Stop()
			for event := range pods.ResultChan() {
				if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Deleted {
					k.see(ctx, pod)
				}
			}
		})
	}
	return k, nil
}

// see starts a new pod, and ends a deleted one.
func (k *kubelet) see(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.met[pod.UID]
	if c == nil {
		c = &container{pod: pod.DeepCopy(), address: k.site.NextIP().String(), member: k.site.Name(), started: make(chan struct{})}
		k.met[pod.UID] = c
		k.group.Go(func() { k.note(ctx, k.start(ctx, c)) })
	}
	if pod.DeletionTimestamp != nil {
		c.ends.Do(func() { k.group.Go(func() { k.note(ctx, k.end(ctx, c, pod)) }) })
	}
}

// note records the first error.
func (k *kubelet) note(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || apierrors.IsNotFound(err) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = errors.Join(k.failed, err)
}

func (k *kubelet) start(ctx context.Context, c *container) error {
	defer close(c.started)
	if err := k.link.Add(ctx, c.address); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", c.address, fleet.PodPort))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: c}
	k.group.Go(func() { _ = server.Serve(listener) })
	context.AfterFunc(ctx, func() { server.Close() })
	fleet.Wait(ctx, startTime)
	c.pod.Status.PodIP = c.address
	if err := k.site.ReportRunning(ctx, c.pod, true); err != nil {
		return err
	}
	c.ready.Store(true)
	return nil
}

func (k *kubelet) end(ctx context.Context, c *container, pod *corev1.Pod) error {
	<-c.started
	c.ready.Store(false)
	fleet.Wait(ctx, time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second)
	c.died.CompareAndSwap(0, time.Now().UnixNano())
	return k.site.Remove(ctx, pod.Namespace, pod.Name)
}

// crash kills a pod's container, which the kubelet notices by a probe, and restarts it.
func (k *kubelet) crash(ctx context.Context, c *container) error {
	c.ready.Store(false)
	c.died.Store(time.Now().UnixNano())
	fleet.Wait(ctx, probePeriod)
	if err := k.site.MarkNotReady(ctx, c.pod.Namespace, c.pod.Name); err != nil {
		return err
	}
	fleet.Wait(ctx, 3*time.Second)
	c.died.Store(0)
	c.asked.Store(0)
	if err := k.site.MarkReady(ctx, c.pod.Namespace, c.pod.Name); err != nil {
		return err
	}
	c.ready.Store(true)
	return nil
}

// of returns the containers of a namespace whose pods are ready, or with dead those that are dead.
func (k *kubelet) of(namespace string, dead bool) []*container {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []*container
	for _, c := range k.met {
		if c.pod.Namespace == namespace && (dead && c.died.Load() != 0 || !dead && c.ready.Load()) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *container) int { return slices.Compare([]string{a.pod.Name}, []string{b.pod.Name}) })
	return out
}
