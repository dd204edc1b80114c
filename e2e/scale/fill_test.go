// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/e2e/fleet"
)

// fillRounds is how often the arms of a fill take turns.
func fillRounds() int {
	if full() {
		return 6
	}
	return 2
}

// TestColdFill compares a cold fill, alone and while removals overtake it, with a bare
// loop of 16 workers that creates the same objects as the same user. The three take
// turns, each with a namespace of its own, and all are watched in the same way.
func TestColdFill(t *testing.T) {
	w := newWorld(t)
	w.prepareProbe()
	rounds := fillRounds()
	n := *services / 2 / rounds
	arms := []fillArm{{name: "bare loop", do: w.bareFill}, {name: "cold fill", do: w.coldFill}, {name: "cold fill beside removals", do: w.besideFill}}
	w.setup = setup{clusters: []entry{of(w.quiet), of(w.bulk)}}
	w.reveal("warm", n)
	w.start(w.setup)
	w.eventually(time.Minute, "the first replicas exist", func(ctx context.Context) (bool, error) {
		list, err := w.fleet.Ingress.Client.CoreV1().Endpoints("warm").List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == n, err
	})
	for round := range rounds {
		for i := range arms {
			arm := &arms[(i+round)%len(arms)] // the order rotates
			namespace := fmt.Sprintf("%s-%d", strings.Fields(arm.name)[len(strings.Fields(arm.name))-1], round)
			arm.rates = append(arm.rates, arm.do(namespace, n))
		}
	}
	bare := arms[0].median()
	for i := range arms {
		w.figure("%s: %.0f replicas a second [%s]; ratio %.2f", arms[i].name, arms[i].median(), arms[i].all(), arms[i].median()/bare)
	}
}

// fillArm is one way to create replicas, in a namespace of its own; do returns replicas
// per second.
type fillArm struct {
	name  string
	do    func(namespace string, n int) float64
	rates []float64
}

func (a *fillArm) median() float64 { return slices.Sorted(slices.Values(a.rates))[len(a.rates)/2] }

func (a *fillArm) all() string {
	var all []string
	for _, rate := range a.rates {
		all = append(all, fmt.Sprintf("%.0f", rate))
	}
	return strings.Join(all, " ")
}

// reveal creates a namespace of Services in the bulk member and adds it to the setup.
func (w *world) reveal(namespace string, n int) {
	w.Helper()
	ctx := w.Context()
	w.must(w.bulk.CreateNamespaces(ctx, namespace))
	var services []metav1.Object
	var pods []*corev1.Pod
	for i := range n {
		services = append(services, fleet.NewService(namespace, bulkName(i)))
		pods = append(pods, fleet.NewPod(namespace, bulkName(i), bulkName(i)))
	}
	w.must(w.bulk.Create(ctx, services...))
	w.must(w.bulk.RunPods(ctx, pods...))
	at := slices.IndexFunc(w.setup.clusters, func(e entry) bool { return e.Name == bulk })
	known := w.setup.clusters[at].Namespaces
	if known == nil {
		known = &selection{}
	}
	w.setup.clusters = slices.Clone(w.setup.clusters)
	w.setup.clusters[at].Namespaces = &selection{append(slices.Clone(known.Include), namespace)}
}

// bareFill writes what a cold fill of n replicas has to write, and nothing else; tributary
// does not run meanwhile.
func (w *world) bareFill(namespace string, n int) float64 {
	w.Helper()
	ctx := w.Context()
	client, err := kubernetes.NewForConfig(w.fleet.Ingress.Config(w.fleet.Ingress.Product))
	w.must(err)
	w.must(w.proc.Stop(ctx))
	w.must(w.fleet.Ingress.CreateNamespaces(ctx, namespace))
	all := w.copies("warm", namespace)
	measured := w.measure(namespace, n)
	w.each(n, func(ctx context.Context, i int) error {
		service, err := client.CoreV1().Services(namespace).Create(ctx, all[i].service, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		all[i].slice.OwnerReferences[0].UID = service.UID
		if _, err := client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, all[i].slice, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err = client.CoreV1().Endpoints(namespace).Create(ctx, all[i].endpoints, metav1.CreateOptions{})
		return err
	})
	rate := measured("bare loop")
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	return rate
}

// replica is what is written of a Service with one pod.
type replica struct {
	service   *corev1.Service
	slice     *discoveryv1.EndpointSlice
	endpoints *corev1.Endpoints
}

// copies returns the replicas of a namespace as somebody else would create them in another
// one: with marks of the same length that are not ours.
func (w *world) copies(from, to string) []replica {
	w.Helper()
	ctx, ingress := w.Context(), w.fleet.Ingress.Client
	services, err := ingress.CoreV1().Services(from).List(ctx, metav1.ListOptions{})
	w.must(err)
	slices, err := ingress.DiscoveryV1().EndpointSlices(from).List(ctx, metav1.ListOptions{})
	w.must(err)
	endpoints, err := ingress.CoreV1().Endpoints(from).List(ctx, metav1.ListOptions{})
	w.must(err)
	all := make([]replica, len(services.Items))
	meta := func(m *metav1.ObjectMeta) {
		*m = metav1.ObjectMeta{Namespace: to, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations, OwnerReferences: m.OwnerReferences}
		for key, value := range m.Labels {
			m.Labels[key] = strings.NewReplacer("tributary", "bare-loop").Replace(value)
		}
	}
	for i := range all { // lists are in the order of names, which begin with the Service's
		all[i] = replica{&services.Items[i], &slices.Items[i], &endpoints.Items[i]}
		meta(&all[i].service.ObjectMeta)
		meta(&all[i].slice.ObjectMeta)
		meta(&all[i].endpoints.ObjectMeta)
		all[i].service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, Ports: all[i].service.Spec.Ports}
		all[i].service.Status = corev1.ServiceStatus{}
	}
	return all
}

// coldFill adds a namespace of n Services to tributary's configuration.
func (w *world) coldFill(namespace string, n int) float64 {
	w.Helper()
	w.reveal(namespace, n)
	measured := w.measure(namespace, n)
	w.must(w.write(w.setup))
	return measured("cold fill")
}

// besideFill is coldFill while removals overtake it.
func (w *world) besideFill(namespace string, n int) float64 {
	w.Helper()
	w.reveal(namespace, n)
	s := w.session()
	defer s.Close()
	measured := w.measure(namespace, n)
	w.must(w.write(w.setup))
	var rate float64
	done := make(chan struct{})
	go func() {
		defer close(done)
		rate = measured("cold fill beside removals")
	}()
	w.flip(s, 20, done)
	return rate
}

// measure watches a namespace that is about to be filled. The returned function waits until n
// Endpoints exist, and returns how many per second were created since the first Service.
func (w *world) measure(namespace string, n int) (rate func(what string) float64) {
	w.Helper()
	client, options := w.fleet.Ingress.Client.CoreV1(), metav1.ListOptions{ResourceVersion: "0"}
	services, err := client.Services(namespace).Watch(w.Context(), options)
	w.must(err)
	endpoints, err := client.Endpoints(namespace).Watch(w.Context(), options)
	w.must(err)
	type seen struct {
		at   time.Time
		used usage
	}
	ends := make(chan [2]seen, 1)
	go func() {
		defer endpoints.Stop()
		<-services.ResultChan()
		services.Stop()
		first := seen{time.Now(), w.usage()}
		for range n {
			if _, ok := <-endpoints.ResultChan(); !ok {
				return
			}
		}
		ends <- [2]seen{first, {time.Now(), w.usage()}}
	}()
	return func(what string) float64 {
		w.Helper()
		select {
		case at := <-ends:
			w.Logf("%s: processor ms a replica: %s", what, at[1].used.since(at[0].used, n))
			return float64(n) / at[1].at.Sub(at[0].at).Seconds()
		case <-time.After(3 * time.Minute):
			w.Errorf("%s: not all of %s is made", what, namespace)
			return 0
		}
	}
}

// usage is the processor time that each process has used.
type usage map[string]time.Duration

func (w *world) usage() usage {
	ingress := w.fleet.Ingress
	u := usage{
		"observer": processorTime(os.Getpid()), "ingress API server": processorTime(ingress.APIServer().PID()),
		"ingress etcd": processorTime(ingress.Etcd().PID()), "tributary": processorTime(w.proc.PID()),
	}
	for _, m := range w.fleet.Members {
		u["members"] += processorTime(m.APIServer().PID()) + processorTime(m.Etcd().PID())
	}
	return u
}

// processorTime returns the processor time of a process, in steps of 10 ms; 0 if unknown, as
// for one that has ended.
func processorTime(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ") // the name may contain anything
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// since formats what was used for each of n.
func (u usage) since(before usage, n int) string {
	var all []string
	for name := range u {
		all = append(all, fmt.Sprintf("%s %.2f", name, 1000*(u[name]-before[name]).Seconds()/float64(n)))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
