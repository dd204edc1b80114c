// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/latency"
)

// bench is one run on one fleet.
type bench struct {
	settings
	fleet *fleet.Fleet
	// stubs are the servers in place of members, with -served.
	stubs []*served
}

// measure deletes the replicas, and then measures of an arm a fill, starts with nothing to write beside bare reads, and
// events that change nothing.
func (b *bench) measure(ctx context.Context, a *arm) (reads []time.Duration, err error) {
	if err := b.clear(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	shards, err := b.installations(ctx, a)
	if err != nil {
		return nil, err
	}
	defer shards.kill()
	slicesWanted := int64(b.services * min(spread, b.members))
	filling, stop := context.WithTimeout(ctx, fillLimit)
	defer stop()
	for e, s := int64(0), int64(0); e < int64(b.services) || s < slicesWanted; {
		fleet.Wait(filling, countPause)
		if e, s, err = b.count(filling); err != nil {
			return nil, fmt.Errorf("%d of %d Endpoints and %d of %d slices are there: %w", e, b.services, s, slicesWanted, err)
		}
	}
	a.fill = time.Since(began)
	fleet.Wait(ctx, b.settle)
	a.filled, a.peak = shards.resident("VmRSS:"), shards.resident("VmHWM:")
	for range b.rounds {
		if err := shards.each(func(t *fleet.Tributary) error { return t.Stop(ctx) }); err != nil {
			return nil, err
		}
		read, child, err := b.bareArm(ctx, readOnce)
		if err != nil {
			return nil, err
		}
		child.End()
		reads = append(reads, time.Duration(read.Seconds*float64(time.Second)))
		before, err := b.newest(ctx)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		err = shards.each(func(t *fleet.Tributary) error {
			if err := t.Start(ctx); err != nil {
				return err
			}
			return ready(ctx, t)
		})
		if err != nil {
			return nil, err
		}
		a.starts = append(a.starts, time.Since(began))
		fleet.Wait(ctx, 10*time.Second)
		after, err := b.newest(ctx)
		if err != nil {
			return nil, err
		}
		a.written = a.written || after != before
	}
	fleet.Wait(ctx, b.settle)
	a.started = shards.resident("VmRSS:")
	if a.event, a.bareEvent, err = b.irrelevant(ctx, shards); err != nil {
		return nil, err
	}
	return reads, shards.each(func(t *fleet.Tributary) error { return t.Stop(ctx) })
}

// Both are polled just often enough: the API server counts all that it stores, and tributary walks over all Services for its
// answer. The bare arms are not asked.
const countPause, readyPause = 500 * time.Millisecond, 250 * time.Millisecond

// fillLimit is how long a fill may take.
const fillLimit = 10 * time.Minute

func ready(ctx context.Context, t *fleet.Tributary) error {
	tick := time.NewTicker(readyPause)
	defer tick.Stop()
	for {
		if _, err := t.Get(ctx, "/readyz"); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-t.Done():
			return errors.New("tributary has ended: " + t.Tail(20))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// irrelevant changes fields of pods that no endpoint shows, and returns what each event cost in microseconds of CPU, and
// what it cost a bare watch, which first reads all pods once.
func (b *bench) irrelevant(ctx context.Context, shards installations) (ours, bare float64, err error) {
	if b.events == 0 {
		return 0, 0, nil
	}
	_, child, err := b.bareArm(ctx, watchOnly)
	if err != nil {
		return 0, 0, err
	}
	defer child.End()
	const window = 10 * time.Second
	idle := shards.cpu()
	fleet.Wait(ctx, window)
	idle = shards.cpu() - idle
	busy, began, bareCPU := shards.cpu(), time.Now(), cpu(child.PID())
	group, patching := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range b.events {
		group.Go(func() error {
			p := b.pod(i%b.services, 0)
			member := b.fleet.Members[(i%b.services)%b.members]
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, i)
			_, err := member.Client.CoreV1().Pods(p.Namespace).Patch(patching, p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	fleet.Wait(ctx, time.Second)
	bareCPU = cpu(child.PID()) - bareCPU
	lasted := time.Since(began)
	busy = shards.cpu() - busy - time.Duration(float64(idle)*float64(lasted)/float64(window))
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.events) }
	return each(busy), each(bareCPU), nil
}

// informers reads everything into client-go's informers, and returns heap and resident bytes when it is done.
func (b *bench) informers(ctx context.Context) (f figures, err error) {
	f, child, err := b.bareArm(ctx, readAndKeep)
	if err == nil {
		child.End()
	}
	return f, err
}

// bareFill is a bare loop of the same writes: a tenth of the replicas, in a namespace of its own, as large as tributary's.
// It returns replicas per second.
func (b *bench) bareFill(ctx context.Context) (float64, error) {
	const namespace, uid = "bare", "00000000-0000-4000-8000-000000000000"
	if err := b.fleet.Ingress.CreateNamespaces(ctx, namespace); err != nil {
		return 0, err
	}
	client, err := latency.RawClient(b.fleet.Ingress.Kubeconfig)
	if err != nil {
		return 0, err
	}
	n := max(b.services/10, 200)
	each := b.each()
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error {
			meta := metav1.ObjectMeta{
				Namespace: namespace, Name: serviceName(i),
				Labels: map[string]string{
					"app.kubernetes.io/managed-by": "bare-loop", "tributary.dev/instance": "default", "app.kubernetes.io/name": serviceName(i),
					"team": namespaceOf(i), "service.kubernetes.io/headless": "", discoveryv1.LabelSkipMirror: "true",
				},
				Annotations: map[string]string{"tributary.dev/replica": namespace + "/" + serviceName(i), corev1.EndpointsLastChangeTriggerTime: "2026-01-01T00:00:00Z"},
			}
			service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
			made, err := client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			endpoints := &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{Ports: []corev1.EndpointPort{{Name: "http", Port: 8080}}}}}
			for m := range min(spread, b.members) {
				slice := &discoveryv1.EndpointSlice{ObjectMeta: *meta.DeepCopy(), AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}}}
				slice.Name = fmt.Sprintf("%s-%s-%d", meta.Name, memberName(m), m)
				slice.Labels["multicluster.kubernetes.io/source-cluster"] = memberName(m)
				slice.Labels[discoveryv1.LabelServiceName], slice.Labels[discoveryv1.LabelManagedBy] = meta.Name, "bare-loop.example"
				slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: meta.Name, UID: made.UID, Controller: new(true)}}
				for k := range each {
					pod, ip := b.pod(i, k), fmt.Sprintf("10.%d.%d.%d", 200+m, i%250, k+1)
					ref := &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: uid}
					slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
						Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
						NodeName: &pod.Spec.NodeName, TargetRef: ref,
					})
					endpoints.Subsets[0].Addresses = append(endpoints.Subsets[0].Addresses, corev1.EndpointAddress{IP: ip, NodeName: &pod.Spec.NodeName, TargetRef: ref})
				}
				if _, err := client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			_, err = client.CoreV1().Endpoints(namespace).Create(ctx, endpoints, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	rate := float64(n) / time.Since(began).Seconds()
	return rate, b.clear(context.WithoutCancel(ctx), namespace)
}

// clear deletes all replicas.
func (b *bench) clear(ctx context.Context, in ...string) error {
	if in == nil {
		for i := range namespaces {
			in = append(in, namespaceOf(i))
		}
	}
	core, discovery := b.fleet.Ingress.Client.CoreV1().RESTClient(), b.fleet.Ingress.Client.DiscoveryV1().RESTClient()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, namespace := range in {
		for resource, of := range map[string]rest.Interface{"services": core, "endpoints": core, "endpointslices": discovery} {
			group.Go(func() error {
				return of.Delete().Namespace(namespace).Resource(resource).Do(ctx).Error()
			})
		}
	}
	return group.Wait()
}

// count counts Endpoints and slices, except those of the API server itself.
func (b *bench) count(ctx context.Context) (endpoints, slices int64, err error) {
	one := metav1.ListOptions{Limit: 1}
	e, err := b.fleet.Ingress.Client.CoreV1().Endpoints("").List(ctx, one)
	if err != nil {
		return 0, 0, err
	}
	s, err := b.fleet.Ingress.Client.DiscoveryV1().EndpointSlices("").List(ctx, one)
	if err != nil {
		return 0, 0, err
	}
	return ptr.Deref(e.RemainingItemCount, 0), ptr.Deref(s.RemainingItemCount, 0), nil
}

// newest returns the highest resourceVersion of any replica.
func (b *bench) newest(ctx context.Context) (newest uint64, err error) {
	client, err := metadata.NewForConfig(b.fleet.Ingress.AdminConfig())
	if err != nil {
		return 0, err
	}
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=tributary", ResourceVersion: "0"}
	for _, kind := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("endpoints"), discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
	} {
		list, err := client.Resource(kind).List(ctx, ours)
		if err != nil {
			return 0, err
		}
		for i := range list.Items {
			version, err := strconv.ParseUint(list.Items[i].ResourceVersion, 10, 64)
			if err != nil {
				return 0, err
			}
			newest = max(newest, version)
		}
	}
	return newest, nil
}

func (b *bench) report(w io.Writer, arms []*arm, bareRate float64, read time.Duration, informers figures) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "bare loop: %.0f replicas/s; bare read: %.2f s; informers: %.2f s, heap %.0f MiB\n\n", bareRate, read.Seconds(), informers.Seconds, float64(informers.Heap)/(1<<20))
	fmt.Fprintln(table, "PROGRAM\tFILL s\tREPLICAS/S\t/ BARE LOOP\tSTART s\t/ BARE READ\tWROTE AT START\tRSS AFTER FILL MiB\tPEAK\tRSS AFTER START MiB\t/ INFORMERS' HEAP\tµs/EVENT\tBARE WATCH")
	for _, a := range arms {
		rate := float64(b.services) / a.fill.Seconds()
		fmt.Fprintf(table, "%s\t%.1f\t%.0f\t%.2f\t%.2f\t%.2f\t%v\t%.0f\t%.0f\t%.0f\t%.3f\t%.1f\t%.1f\n", a.name, a.fill.Seconds(), rate, rate/bareRate,
			median(a.starts).Seconds(), float64(median(a.starts))/float64(read), a.written, a.filled, a.peak, a.started, a.started*(1<<20)/float64(informers.Heap), a.event, a.bareEvent)
	}
	table.Flush()
}

func median(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }
