// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/latency"
)

// The contest's Services live apart from the rollout's.
const contestNamespace = "incident"

// backlog is how many Services are relabelled to keep the member's controller manager busy, which has to write all their
// Endpoints again.
const backlog = 1000

// contestLine is one pod that became not ready, and how long each path took.
type contestLine struct {
	round   int
	address string
	ours    wait
	native  wait
}

// wait is a duration that may still be running.
type wait struct {
	since time.Time
	took  time.Duration
	done  bool
}

func (w wait) text(now time.Time) string {
	if w.done {
		if w.took < time.Second {
			return millis(max(w.took, time.Microsecond))
		}
		return fmt.Sprintf("%.1f s", w.took.Seconds())
	}
	return fmt.Sprintf("still there after %.1f s", now.Sub(w.since).Seconds())
}

// runContest fills a member with Services, waits for its controller manager to
// catch up, and then repeatedly relabels them all and makes one pod not ready.
func runContest(ctx context.Context, member, ingress *fleet.Site, b *board) error {
	b.setAct("%s gets %d more Services and a controller manager of its own ...", member.Name(), backlog)
	pod, err := prepareContest(ctx, member)
	if err != nil {
		return err
	}
	native, err := startCaughtUp(ctx, member)
	if err != nil {
		return err
	}
	defer native.Kill()
	for round := 1; ; round++ {
		if err := playRound(ctx, member, ingress, pod, round, b); err != nil {
			return err
		}
	}
}

// prepareContest creates the backlog's Services and the one pod that will become
// not ready, which is behind the last of them.
func prepareContest(ctx context.Context, member *fleet.Site) (*corev1.Pod, error) {
	if err := member.CreateNamespaces(ctx, contestNamespace); err != nil {
		return nil, err
	}
	if err := errors.Join(member.CreateStorm(ctx, contestNamespace, backlog), member.Create(ctx, fleet.NewService(contestNamespace, "victim"))); err != nil {
		return nil, err
	}
	pod := fleet.NewPod(contestNamespace, "victim-0", "victim")
	return pod, member.RunPods(ctx, pod)
}

// startCaughtUp makes an unthrottled controller manager write all Endpoints first,
// and then starts one with stock flags, which finds nothing to do.
func startCaughtUp(ctx context.Context, member *fleet.Site) (*cluster.Process, error) {
	controllers := []string{"endpoints-controller", "endpointslice-controller"}
	fast, err := member.StartControllerManager(ctx, cluster.ControllerManagerOptions{Controllers: controllers, Flags: []string{"--kube-api-qps=1000", "--kube-api-burst=1000"}})
	if err != nil {
		return nil, err
	}
	err = fleet.Eventually(ctx, 5*time.Minute, func(ctx context.Context) error {
		list, err := member.Client.CoreV1().Endpoints(contestNamespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err == nil && len(list.Items) < backlog+1 {
			err = fmt.Errorf("%d of %d Endpoints written", len(list.Items), backlog+1)
		}
		return err
	})
	fast.Kill()
	if err != nil {
		return nil, fmt.Errorf("fill %s by its controller manager: %w", member.Name(), err)
	}
	return member.StartControllerManager(ctx, cluster.ControllerManagerOptions{Controllers: controllers})
}

// playRound waits until both paths show the pod as ready, creates the backlog,
// makes the pod not ready, and measures until each path shows it.
func playRound(ctx context.Context, member, ingress *fleet.Site, pod *corev1.Pod, round int, b *board) error {
	for _, site := range []*fleet.Site{ingress, member} {
		if _, err := seen(ctx, site.Client, true, nil); err != nil {
			return err
		}
	}
	if err := fleet.RelabelStorm(ctx, member.Client, contestNamespace, backlog, strconv.Itoa(round), ""); err != nil {
		return err
	}
	b.setAct("%d Services of %s were relabelled; its controller manager (stock flags, 20 QPS) works them off, and now a pod becomes not ready", backlog, member.Name())

	group, watching := errgroup.WithContext(ctx)
	line := contestLine{round: round, address: pod.Status.PodIP}
	var open sync.WaitGroup
	open.Add(2)
	began := make(chan time.Time)
	measure := func(client kubernetes.Interface, file func(wait)) {
		group.Go(func() error {
			at, err := seen(watching, client, false, open.Done)
			if err == nil {
				file(wait{took: at.Sub(<-began), done: true})
			}
			return err
		})
	}
	measure(ingress.Client, func(w wait) { b.amendContest(round, func(l *contestLine) { l.ours = w }) })
	measure(member.Client, func(w wait) { b.amendContest(round, func(l *contestLine) { l.native = w }) })
	open.Wait()
	if err := member.MarkNotReady(ctx, contestNamespace, pod.Name); err != nil {
		return err
	}
	start := time.Now()
	line.ours.since, line.native.since = start, start
	b.addContest(line)
	for range 2 {
		select {
		case began <- start:
		case <-watching.Done():
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return member.MarkReady(ctx, contestNamespace, pod.Name)
}

// seen watches the victim's Endpoints until they have, or no longer have, a
// ready address, and returns when it saw that. opened, if not nil, is called
// once, when the watch is open or has failed to open.
func seen(ctx context.Context, c kubernetes.Interface, ready bool, opened func()) (time.Time, error) {
	for {
		stream, err := c.CoreV1().Endpoints(contestNamespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=victim"})
		if opened != nil {
			opened()
			opened = nil
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("watch Endpoints %s/victim: %w", contestNamespace, err)
		}
		for event := range stream.ResultChan() {
			at := time.Now()
			if endpoints, ok := event.Object.(*corev1.Endpoints); ok && latency.HasReady(endpoints) == ready {
				stream.Stop()
				return at, nil
			}
		}
		if ctx.Err() != nil {
			return time.Time{}, ctx.Err()
		}
	}
}
