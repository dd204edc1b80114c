// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// looper is what all loops have in common, whatever they follow.
type looper interface {
	Run(ctx context.Context)
	SetListWatcher(kube.ListWatcher)
	Relist()
	Rewind()
	WentBack()
	RetryNow()
}

// loops are the watches that every member has.
type loops struct {
	services *kube.Loop[store.Versioned[syncer.Service]]
	pods     *kube.Loop[store.Versioned[syncer.Pod]]
	nodes    *kube.Loop[store.Versioned[store.Node]]
	zones    *nodes
}

// livePods leaves out pods that have finished: they are never endpoints. One that
// finishes leaves the selector, which arrives as a deletion. Servers as old as
// 1.17 know these selectors.
const livePods = "status.phase!=Succeeded,status.phase!=Failed"

func newLoops(in *intake, s *session) *loops {
	zones := &nodes{intake: in}
	return &loops{
		services: watch(in, s.ListWatcher(kube.Services), kube.Config[store.Versioned[syncer.Service]]{
			Kind: kube.Services.Resource, Convert: convertWith(in.decoder.Service), Key: serviceKey, Version: versionOf[syncer.Service],
			Handler: handler[syncer.Service]{intake: in, kind: evidence.Services},
		}),
		pods: watch(in, s.ListWatcher(kube.Pods), kube.Config[store.Versioned[syncer.Pod]]{
			Kind: kube.Pods.Resource, Convert: convertWith(in.decoder.Pod), Key: podKey, Version: versionOf[syncer.Pod],
			Options: metav1.ListOptions{FieldSelector: livePods},
			Handler: handler[syncer.Pod]{intake: in, kind: evidence.Pods},
		}),
		nodes: zones.watch(s), zones: zones,
	}
}

func serviceKey(v *store.Versioned[syncer.Service]) syncer.Key { return v.Object.Key }
func podKey(v *store.Versioned[syncer.Pod]) syncer.Key         { return v.Object.Key }

// run runs all watches until ctx ends.
func (ls *loops) run(ctx context.Context) {
	defer time.AfterFunc(evidence.NodesPatience, ls.zones.overdue).Stop()
	var running sync.WaitGroup
	ls.each(func(l looper) { running.Go(func() { l.Run(ctx) }) })
	running.Wait()
}

// each calls what every loop has.
func (ls *loops) each(call func(looper)) {
	call(ls.services)
	call(ls.pods)
	call(ls.nodes)
}

// exchange goes over to another session.
func (ls *loops) exchange(s *session) {
	ls.services.SetListWatcher(s.ListWatcher(kube.Services))
	ls.pods.SetListWatcher(s.ListWatcher(kube.Pods))
	ls.nodes.SetListWatcher(s.ListWatcher(kube.Nodes))
}
