// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/pager"

	"tributary.dev/tributary/e2e/latency"
)

// The bare arms are processes of their own: one reads all that tributary reads and drops it, one stores it in client-go's
// informers, and one reads the events of pods from the connection without decoding them.
const (
	readOnce    = "read"
	readAndKeep = "informers"
	watchOnly   = "watch"
)

// figures are what a bare arm reports when it has read everything.
type figures struct {
	Seconds float64
	Heap    uint64 // in use after a collection, bytes
}

// bare is the main function of a bare arm. It ends when its standard input does.
func bare(arm, ingress string, members []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	var group errgroup.Group
	for i, path := range append([]string{ingress}, members...) {
		client, err := latency.RawClient(path)
		if err != nil {
			return err
		}
		if arm == watchOnly {
			if i == 0 {
				continue
			}
			watch := metav1.ListOptions{Watch: true, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(3600))}
			pods, err := client.CoreV1().RESTClient().Get().Resource("pods").VersionedParams(&watch, scheme.ParameterCodec).
				SetHeader("Accept", "application/vnd.kubernetes.protobuf;stream=watch").Stream(ctx)
			if err != nil {
				return err
			}
			go io.Copy(io.Discard, pods)
			continue
		}
		if arm == readAndKeep {
			factory := informers.NewSharedInformerFactory(client, 0)
			factory.Core().V1().Services().Informer()
			if i == 0 {
				factory.Core().V1().Endpoints().Informer()
				factory.Discovery().V1().EndpointSlices().Informer()
			} else {
				factory.Core().V1().Pods().Informer()
			}
			factory.Start(ctx.Done())
			group.Go(func() error { factory.WaitForCacheSync(ctx.Done()); return nil })
			continue
		}
		lists := []pager.ListPageFunc{pages(client.CoreV1().Services("").List)}
		if i == 0 {
			lists = append(lists, pages(client.CoreV1().Endpoints("").List), pages(client.DiscoveryV1().EndpointSlices("").List))
		} else {
			lists = append(lists, pages(client.CoreV1().Pods("").List))
		}
		for _, list := range lists {
			group.Go(func() error {
				return pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(kruntime.Object) error { return nil })
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	f := figures{Seconds: time.Since(began).Seconds()}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	f.Heap = memory.HeapAlloc
	if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// pages adapts the list function of any kind.
func pages[L kruntime.Object](list func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) { return list(ctx, o) }
}

// bareArm runs a bare arm until it has read everything. Its End ends it.
func (b *bench) bareArm(ctx context.Context, arm string) (f figures, child *latency.Child, err error) {
	args := []string{arm, b.fleet.Ingress.Kubeconfig}
	for _, m := range b.fleet.Members {
		args = append(args, m.Kubeconfig)
	}
	for _, s := range b.stubs {
		args = append(args, s.kubeconfig)
	}
	if child, err = latency.StartChild(ctx, args...); err != nil {
		return f, nil, err
	}
	if err := json.NewDecoder(child.Output).Decode(&f); err != nil {
		child.End()
		return f, nil, fmt.Errorf("%s ended before it had read everything: %w", arm, err)
	}
	return f, child, nil
}
