// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

var relabelledServices = flag.Int("lanes.services", 1000, "Services that are relabelled while tributary is away")

// TestDeadAddressesGoFirst keeps tributary away while all pods of some Services are
// replaced and many other Services are relabelled. After its start the dead addresses go
// before the other work.
func TestDeadAddressesGoFirst(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.configure(a)
	w.must(a.CreateNamespaces(ctx, "shop", "many"))
	const pods = 4
	var old, next, many []*corev1.Pod
	var services []metav1.Object
	replaced := *relabelledServices/100 + 1
	for i := range replaced {
		name := fmt.Sprint("web-", i)
		services = append(services, fleet.NewService("shop", name))
		for j := range pods {
			old = append(old, fleet.NewPod("shop", fmt.Sprint(name, "-old-", j), name))
			next = append(next, fleet.NewPod("shop", fmt.Sprint(name, "-new-", j), name))
		}
	}
	for i := range *relabelledServices {
		name := fmt.Sprint("svc-", i)
		services = append(services, fleet.NewService("many", name))
		many = append(many, fleet.NewPod("many", name, name))
	}
	w.must(a.RunPods(ctx, old...))
	w.must(a.Create(ctx, services...))
	w.must(a.RunPods(ctx, many...))
	w.start()
	w.relabelled("")
	fleettest.Eventually(t, time.Minute, func(ctx context.Context) error {
		list, err := w.fleet.Ingress.Client.CoreV1().Endpoints("shop").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != replaced {
			err = fmt.Errorf("%d of %d replicas exist", len(list.Items), replaced)
		}
		return err
	})
	w.must(w.proc.Stop(ctx))

	for _, pod := range old {
		w.must(a.Remove(ctx, "shop", pod.Name))
	}
	w.must(a.RunPods(ctx, next...))
	w.relabelMany(a, "new")
	dead := map[string]bool{}
	for _, pod := range old {
		dead[pod.Status.PodIP] = true
	}
	passed := w.watchDead(dead, replaced, "new")
	w.must(w.proc.Start(ctx))
	started := time.Now()
	others, took, err := passed()
	w.must(err)
	t.Logf("%d dead addresses of %d Services were gone %v after the first write and %v after the start, when %d of %d relabelled replicas were written",
		len(dead), replaced, took, time.Since(started), others, *relabelledServices)
	if others > *relabelledServices/20 {
		t.Errorf("dead addresses were gone behind %d relabelled replicas", others)
	}
	w.relabelled("new")
	w.must(w.proc.Stop(ctx))
}

// relabelMany labels the Services of many.
func (w *world) relabelMany(site *fleet.Site, value string) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"tier":%q}}}`, value)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range *relabelledServices {
		group.Go(func() error {
			_, err := site.Client.CoreV1().Services("many").Patch(w.Context(), fmt.Sprint("svc-", i), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
	w.must(group.Wait())
}

// relabelled waits until all replicas of many have the label.
func (w *world) relabelled(value string) {
	w.Helper()
	fleettest.Eventually(w.T, 3*time.Minute, func(ctx context.Context) error {
		list, err := w.fleet.Ingress.Client.CoreV1().Endpoints("many").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		n := 0
		for i := range list.Items {
			if list.Items[i].Labels["tier"] == value && len(list.Items[i].Subsets) > 0 {
				n++
			}
		}
		if n != *relabelledServices {
			return fmt.Errorf("%d of %d replicas have the label tier=%q", n, *relabelledServices, value)
		}
		return nil
	})
}

// watchDead returns a function that waits until the Endpoints of shop, of so many Services,
// have had none of the dead addresses, and tells how many replicas had the label by then and how long it
// took from the first write.
func (w *world) watchDead(dead map[string]bool, services int, label string) (passed func() (others int, took time.Duration, err error)) {
	w.Helper()
	client := w.fleet.Ingress.Client.CoreV1().Endpoints("")
	list, err := client.List(w.Context(), metav1.ListOptions{Limit: 1})
	w.must(err)
	stream, err := client.Watch(w.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	w.must(err)
	return func() (others int, took time.Duration, err error) {
		defer stream.Stop()
		var first time.Time
		clean := map[string]bool{}
		limit := time.After(time.Minute)
		for {
			select {
			case event, ok := <-stream.ResultChan():
				e, is := event.Object.(*corev1.Endpoints)
				if !ok {
					return others, 0, errors.New("the watch has ended")
				}
				if !is || event.Type == watch.Bookmark || e.Namespace != "shop" && e.Namespace != "many" {
					continue
				}
				if first.IsZero() {
					first = time.Now()
				}
				if e.Namespace == "many" && e.Labels["tier"] == label {
					others++
				}
				if e.Namespace == "shop" && !hasAny(e, dead) {
					if clean[e.Name] = true; len(clean) == services {
						return others, time.Since(first), nil
					}
				}
			case <-limit:
				return others, 0, errors.New("dead addresses are still published after a minute")
			}
		}
	}
}

func hasAny(e *corev1.Endpoints, addresses map[string]bool) bool {
	for _, subset := range e.Subsets {
		for _, list := range [][]corev1.EndpointAddress{subset.Addresses, subset.NotReadyAddresses} {
			for _, address := range list {
				if addresses[address.IP] {
					return true
				}
			}
		}
	}
	return false
}
