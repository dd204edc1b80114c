// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"sync"

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

// loops are the watches of a member.
type loops struct {
	services *kube.Loop[store.Versioned[syncer.Service]]
	pods     *kube.Loop[store.Versioned[syncer.Pod]]
	nodes    *nodes
	manual   *manualWatches
}

// livePods leaves out pods that have finished: they are never endpoints. One that
// finishes leaves the selector, which arrives as a deletion. Servers as old as
// 1.17 know these selectors.
const livePods = "status.phase!=Succeeded,status.phase!=Failed"

func newLoops(m *Member, s *session) *loops {
	ls := &loops{nodes: newNodes(m, s), manual: newManualWatches(m, s)}
	ls.services = kube.New(kube.Config[store.Versioned[syncer.Service]]{
		Kind: kube.Services.Resource, Convert: convertWith(m.decoder.Service), Key: serviceKey, Version: versionOf[syncer.Service],
		Handler: handler[syncer.Service]{m: m, kind: evidence.Services}, MaxObjects: m.maxObjects,
		Observer: m, Logger: m.log,
	}, s.ListWatcher(kube.Services))
	ls.pods = kube.New(kube.Config[store.Versioned[syncer.Pod]]{
		Kind: kube.Pods.Resource, Convert: convertWith(m.decoder.Pod), Key: podKey, Version: versionOf[syncer.Pod],
		Options: metav1.ListOptions{FieldSelector: livePods},
		Handler: handler[syncer.Pod]{m: m, kind: evidence.Pods}, MaxObjects: m.maxObjects,
		Observer: m, Logger: m.log,
	}, s.ListWatcher(kube.Pods))
	return ls
}

func serviceKey(v *store.Versioned[syncer.Service]) syncer.Key { return v.Object.Key }
func podKey(v *store.Versioned[syncer.Pod]) syncer.Key         { return v.Object.Key }

// run runs all watches until ctx ends.
func (ls *loops) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { ls.services.Run(ctx) })
	running.Go(func() { ls.pods.Run(ctx) })
	running.Go(func() { ls.nodes.run(ctx) })
	running.Go(func() { ls.manual.run(ctx) })
	running.Wait()
}

// each calls what every loop has.
func (ls *loops) each(call func(looper)) {
	call(ls.services)
	call(ls.pods)
	ls.nodes.each(call)
	ls.manual.each(call)
}

// exchange goes over to another session. relist says that what it shows may be more
// or less than before, so that resuming is not enough.
func (ls *loops) exchange(s *session, relist bool) {
	ls.services.SetListWatcher(s.ListWatcher(kube.Services))
	ls.pods.SetListWatcher(s.ListWatcher(kube.Pods))
	ls.nodes.exchange(s)
	ls.manual.exchange(s)
	if relist {
		ls.each(looper.Rewind)
	}
}
