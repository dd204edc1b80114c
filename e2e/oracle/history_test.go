// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/endpoint"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

var historyCount = flag.Int("oracle.histories", 2000, "number of random histories")

// TestHistoriesEqualUpstream edits a Service and its pods step by step. After
// each step upstream's syncService and our store, merge and diff must agree on
// whether Endpoints are written at all (kubernetes#94112, #50936, #108077), on the
// current Endpoints after that, and on the trigger time written; and the current
// slices must have the endpoints that upstream's would have.
func TestHistoriesEqualUpstream(t *testing.T) {
	seed := dice.Seed(t)
	writes, steps := 0, 0
	for i := range uint64(*historyCount) {
		n, w, problem := runHistory(t, seed, i)
		steps += n
		writes += w
		if problem != "" {
			t.Fatalf("seed %d, history %d, step %d: %s", seed, i, n, problem)
		}
	}
	t.Logf("%d steps, %d writes", steps, writes)
	if writes == 0 || writes == steps {
		t.Error("the histories test nothing: there must be steps with and without a write")
	}
}

func runHistory(t *testing.T, seed, number uint64) (steps, writes int, problem string) {
	g := newGenerator(seed, number)
	c := NewCase(seed, number)
	c.Pods = c.Pods[:min(len(c.Pods), 8)]
	c.Service.Labels = nil // reserved ones make upstream write at every sync (D3)
	c.Service.Spec.Type = corev1.ServiceTypeClusterIP
	if c.Service.Spec.Selector == nil {
		c.Service.Spec.Selector = map[string]string{"app": "web"}
	}
	upstream, ours, sliced := newUpstreamWorld(t, c), newOurWorld(), NewSliceOracle()
	defer stop(t.Context(), upstream.controller)
	for steps = range 10 {
		mine := ours.step(c)
		seen := c.withoutRefusals().withSilentServing(ours.computed())
		upstream.set(seen)
		theirs, err := upstream.sync(t.Context(), c)
		if err != nil {
			return steps, writes, err.Error()
		}
		if theirs {
			writes++
		}
		slices, err := sliced.Slices(seen.withOneAddress())
		if err != nil {
			return steps, writes, err.Error()
		}
		if problem := compareWorlds(c, upstream, ours, theirs, mine, slices); problem != "" {
			return steps, writes, problem
		}
		g.edit(c, 1000*(steps+1))
	}
	return steps + 1, writes, ""
}

func compareWorlds(c *Case, upstream *upstreamWorld, ours *ourWorld, theirs, mine bool, sliced []*discoveryv1.EndpointSlice) string {
	want := forgiveSubsets(upstream.current.DeepCopy().Subsets)
	got := endpointSubsets(ours.current.Endpoints.Subsets)
	switch {
	case theirs != mine:
		return fmt.Sprintf("written by upstream: %v, by us: %v\n%s", theirs, mine, sideBySide(showSubsets(got), showSubsets(want)))
	case !apiequality.Semantic.DeepEqual(got, want):
		return sideBySide(showSubsets(got), showSubsets(want))
	case ours.trigger != upstream.current.Annotations[corev1.EndpointsLastChangeTriggerTime]:
		return fmt.Sprintf("trigger time: ours %q, upstream %q", ours.trigger, upstream.current.Annotations[corev1.EndpointsLastChangeTriggerTime])
	}
	if got, want := endpointLines(ours.slices()), endpointLines(forgiveSlices(c.Service, sliced)); !slices.Equal(got, want) {
		return "slices: " + sideBySide(got, want)
	}
	return ""
}

// endpointLines is flatten without the lines about slices: how many there are
// depends on the history.
func endpointLines(list []*discoveryv1.EndpointSlice) []string {
	return slices.DeleteFunc(flatten(list), func(line string) bool { return strings.HasPrefix(line, "slice ") })
}

// upstreamWorld is upstream's controller over stores that are filled directly, so
// that each sync happens when the test calls it, and sees all edits.
type upstreamWorld struct {
	controller               *endpoint.Controller
	pods, services, existing cache.Store
	current                  *corev1.Endpoints
	revision                 int
	wrote                    bool
}

func newUpstreamWorld(t *testing.T, c *Case) *upstreamWorld {
	client := fake.NewSimpleClientset()
	core := informers.NewSharedInformerFactory(client, 0).Core().V1()
	w := &upstreamWorld{pods: core.Pods().Informer().GetStore(), services: core.Services().Informer().GetStore(),
		existing: core.Endpoints().Informer().GetStore()}
	client.PrependReactor("*", "endpoints", func(a clienttesting.Action) (bool, runtime.Object, error) {
		w.wrote = true
		w.revision++
		written := a.(clienttesting.CreateAction).GetObject().(*corev1.Endpoints).DeepCopy()
		written.Namespace, written.ResourceVersion = c.Name(), strconv.Itoa(w.revision)
		w.current = written
		return true, written, w.existing.Update(written)
	})
	w.controller = endpoint.NewEndpointController(t.Context(), core.Pods(), core.Services(), core.Endpoints(), client, 0)
	return w
}

// set shows a case to upstream.
func (w *upstreamWorld) set(c *Case) {
	c = c.edit(func(*Case) {})
	pods := make([]any, len(c.Pods))
	for i, p := range c.Pods {
		pods[i] = p
	}
	_ = w.pods.Replace(pods, "")
	_ = w.services.Replace([]any{c.Service}, "")
}

func (w *upstreamWorld) sync(ctx context.Context, c *Case) (wrote bool, err error) {
	w.wrote = false
	err = syncService(w.controller, ctx, c.Name()+"/"+c.Service.Name)
	return w.wrote, err
}

// ourWorld is our store and plan, with an ingress cluster in memory.
type ourWorld struct {
	store   *store.Store
	decoder *decode.Decoder
	known   map[string]bool
	current plan.Current
	// trigger is the annotation of the current Endpoints.
	trigger string
}

func newOurWorld() *ourWorld {
	return &ourWorld{decoder: decode.New(decode.Options{}), known: map[string]bool{}, store: store.New(store.Options{})}
}

var historySettings = plan.Settings{Instance: "default", WriteEndpoints: true, CopyLabel: func(string) bool { return true }}

// take updates the store with the case.
func (w *ourWorld) take(c *Case) {
	w.store.SetService(w.decoder.Service(c.Service))
	present := map[string]bool{}
	for _, p := range c.Pods {
		w.store.SetPod(w.decoder.Pod(onItsNode(p)))
		present[p.Name] = true
	}
	for name := range w.known {
		if !present[name] {
			w.store.RemovePod(syncer.Key{Namespace: c.Name(), Name: name})
		}
	}
	w.known = present
	w.current.Key, w.current.Namespace = syncer.Key{Namespace: c.Name(), Name: c.Service.Name}, plan.NamespaceActive
}

// step updates the store with the case, and writes until there is nothing to write.
func (w *ourWorld) step(c *Case) (wroteEndpoints bool) {
	w.take(c)
	share := syncer.Share{Member: "member", Listed: true, Given: w.contribution()}
	for {
		actions, _ := plan.Actions(w.current, plan.Merge(w.current.Key, w.current, []syncer.Share{share}, historySettings))
		if len(actions) == 0 {
			break
		}
		for i := range actions {
			w.apply(&actions[i])
		}
		wroteEndpoints = wroteEndpoints || slices.ContainsFunc(actions, func(a plan.Action) bool { return a.Kind == plan.KindEndpoints })
	}
	w.trigger = w.current.Endpoints.Annotations[syncer.AnnotationTriggerTime]
	return wroteEndpoints
}

// apply performs an action.
func (w *ourWorld) apply(a *plan.Action) {
	now := &w.current
	m := plan.Meta{UID: "uid", Owned: true, Labels: syncer.LabelsOf(a.Labels), Annotations: a.Annotations, Rest: a.Rest}
	at := slices.IndexFunc(now.Slices, func(s plan.Slice) bool { return s.Name == a.Name })
	switch {
	case a.Kind == plan.KindService && a.Verb != plan.Delete:
		now.Service = &plan.Service{Meta: m, ClusterIP: syncer.ClusterIPNone, Ports: a.Service.Ports}
	case a.Kind == plan.KindEndpoints && a.Verb != plan.Delete:
		now.Endpoints = &plan.Endpoints{Meta: m, Subsets: a.Endpoints.Subsets}
	case a.Kind == plan.KindEndpointSlice && a.Verb == plan.Delete:
		now.Slices = slices.Delete(slices.Clone(now.Slices), at, at+1)
	case a.Kind == plan.KindEndpointSlice && at < 0:
		now.Slices = append(slices.Clone(now.Slices), plan.Slice{Meta: m, Owner: a.Owner, Slice: *a.Slice})
		slices.SortFunc(now.Slices, func(a, b plan.Slice) int { return strings.Compare(a.Name, b.Name) })
	case a.Kind == plan.KindEndpointSlice:
		now.Slices = slices.Clone(now.Slices)
		now.Slices[at] = plan.Slice{Meta: m, Owner: a.Owner, Slice: *a.Slice}
	default:
		panic("no history leads to " + a.Verb.String() + " of " + a.Object().String())
	}
}

func (w *ourWorld) contribution() syncer.Contribution {
	c, _ := w.store.Contribution(w.current.Key, time.Time{})
	return c
}

// computed is what the rules compute from the store.
func (w *ourWorld) computed() *Ours { return &Ours{Contribution: w.contribution()} }

func (w *ourWorld) slices() []*discoveryv1.EndpointSlice {
	var list []*discoveryv1.EndpointSlice
	for i := range w.current.Slices {
		list = append(list, endpointSlice(&w.current.Slices[i].Slice))
	}
	return list
}

// edit makes a few changes, many of them to fields without effect. New names and
// revisions begin at from.
func (g *generator) edit(c *Case, from int) {
	c.Service = c.Service.DeepCopy()
	c.Pods = slices.Clone(c.Pods)
	for range g.IntN(4) {
		from++
		if len(c.Pods) == 0 || g.chance(15) {
			c.Pods = append(c.Pods, g.pod(c.Name(), from, false, g.podSpec()))
			continue
		}
		i := g.IntN(len(c.Pods))
		if g.chance(10) {
			c.Pods = slices.Delete(c.Pods, i, i+1)
			continue
		}
		c.Pods[i] = c.Pods[i].DeepCopy()
		g.editPod(c, c.Pods[i], from)
		c.Pods[i].ResourceVersion = strconv.Itoa(from)
	}
	if g.chance(30) {
		g.editService(c.Service)
	}
}

func (g *generator) editPod(c *Case, p *corev1.Pod, number int) {
	switch g.IntN(9) {
	case 0, 1:
		p.Status.Conditions = g.conditions()
	case 2:
		p.DeletionTimestamp = new(g.second())
	case 3:
		p.Status.Phase = g.phase()
	case 4:
		p.Labels = map[string]string{"app": pick(g, "web", "other"), "tier": pick(g, "front", "back")}
	case 5:
		p.Status.PodIPs = []corev1.PodIP{{IP: g.ip(g.IntN(250), false)}}
		p.Status.PodIP = p.Status.PodIPs[0].IP
	case 6:
		setReadyTime(p, g.second())
	case 7:
		p.Annotations = map[string]string{"note": fmt.Sprint(g.IntN(100))}
	case 8:
		recreated := g.pod(c.Name(), number, false, g.podSpec())
		recreated.Name = p.Name
		*p = *recreated
	}
}

func (g *generator) editService(s *corev1.Service) {
	switch g.IntN(5) {
	case 0:
		s.Spec.Ports = g.servicePorts()
	case 1:
		s.Spec.PublishNotReadyAddresses = !s.Spec.PublishNotReadyAddresses
	case 2:
		s.Labels = map[string]string{"team": pick(g, "a", "b")}
	case 3:
		s.Annotations = map[string]string{"note": fmt.Sprint(g.IntN(100))}
	case 4:
		s.Spec.Selector = map[string]string{"app": pick(g, "web", "other")}
	}
}
