// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package corpus_test

import (
	"bytes"
	"context"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/internal/golden"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/corpus"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// TestCorpus runs each story's members through store, merge and writer, and
// compares all that is written with the story's end.
func TestCorpus(t *testing.T) {
	stories, err := corpus.Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(stories) < 10 {
		t.Fatalf("%d stories", len(stories))
	}
	for _, story := range stories {
		t.Run(story.Name, func(t *testing.T) {
			got := replicate(t, story.Members)
			file := filepath.Join(story.Dir, corpus.Golden)
			golden.File(t, file, got)
		})
	}
}

// replicate returns what stands in an ingress cluster once everything is written.
func replicate(t *testing.T, members []corpus.Member) []byte {
	server := apitest.New(t)
	source := newSource(members)
	r := reconcile.New(reconcile.Options{
		Session: server.Session(t), Writer: server.Client(t, "tributary"), Source: source,
		Queue: lanes.Options{Backoff: lanes.Backoff{Base: time.Millisecond, Max: 10 * time.Millisecond}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	defer running.Wait()
	defer cancel()
	if err := r.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	r.Resync("", "resync")
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for len(r.Queue().OldestArrivals()) > 0 {
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatal("the queue never emptied")
		}
	}
	return render(t, server)
}

// render prints what stands, in the order of writing, without what a server
// makes up.
func render(t *testing.T, server *apitest.Server) []byte {
	var out bytes.Buffer
	out.WriteString("# What Tributary writes for this story. Rewritten by go test ./reconcile/corpus -update.\n")
	show := func(kind, apiVersion string, m *metav1.ObjectMeta, object any) {
		m.UID, m.ResourceVersion, m.Generation, m.CreationTimestamp = "", "", 0, metav1.Time{}
		delete(m.Annotations, plan.AnnotationProcess)
		for i := range m.OwnerReferences {
			m.OwnerReferences[i].UID = "uid-of-the-replica"
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\napiVersion: " + apiVersion + "\nkind: " + kind + "\n")
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "apiVersion:") && !strings.HasPrefix(line, "kind:") && line != "status:\n" && line != "  loadBalancer: {}\n" {
				out.WriteString(line)
			}
		}
	}
	for _, s := range apitest.List[*corev1.Service](server, "") {
		s = s.DeepCopy()
		show("Service", "v1", &s.ObjectMeta, s)
		for _, slice := range apitest.List[*discoveryv1.EndpointSlice](server, s.Namespace) {
			if slice = slice.DeepCopy(); slice.Labels[discoveryv1.LabelServiceName] == s.Name {
				show("EndpointSlice", "discovery.k8s.io/v1", &slice.ObjectMeta, slice)
			}
		}
		if e, ok := apitest.Get[*corev1.Endpoints](server, s.Namespace, s.Name); ok {
			e = e.DeepCopy()
			show("Endpoints", "v1", &e.ObjectMeta, e)
		}
	}
	return out.Bytes()
}

// source is the members' stores as the reconciler sees them.
type source struct {
	names  []string
	stores []*store.Store
}

func newSource(members []corpus.Member) *source {
	s := &source{}
	for _, m := range members {
		s.names = append(s.names, m.Name)
		s.stores = append(s.stores, fill(m))
	}
	return s
}

// fill puts a member's objects into a store.
func fill(m corpus.Member) *store.Store {
	s := store.New(store.Options{Placement: func(svc *syncer.Service) (syncer.Key, bool) { return svc.Key, true }})
	d := decode.NewDecoder(nil)
	for _, n := range m.Nodes {
		s.SetNode(d.Node(n).Object)
	}
	for _, p := range m.Pods {
		s.SetPod(d.Pod(p))
	}
	for _, svc := range m.Services {
		s.SetService(d.Service(svc))
	}
	for _, svc := range m.Services {
		key := syncer.Key{Namespace: svc.Namespace, Name: svc.Name}
		if !s.IsManual(key) {
			continue
		}
		for _, ofSlices := range []bool{false, true} {
			s.BeginManual(ofSlices, []syncer.Key{key}, 0, false)
			s.KnowManual(ofSlices, key)
		}
	}
	for _, e := range m.Endpoints {
		s.SetEndpoints(d.Endpoints(e))
	}
	for _, slice := range m.Slices {
		s.SetSlice(d.Slice(slice))
	}
	return s
}

func (s *source) Gather(replica syncer.Key) reconcile.Snapshot {
	g := reconcile.Snapshot{Settings: s.Settings(), Members: s.Members()}
	var commits []func()
	for i, name := range s.names {
		contributions, commit := store.Gather(s.stores[i].Inputs(replica))
		commits = append(commits, commit)
		for _, c := range contributions {
			g.Contributions = append(g.Contributions, plan.Contribution{Cluster: name, Source: c.Source, Contribution: c.Contribution})
		}
	}
	g.Commit = func() {
		for _, commit := range commits {
			commit()
		}
	}
	return g
}

func (s *source) Peek(replica syncer.Key) reconcile.Snapshot {
	g := s.Gather(replica)
	g.Commit = nil
	return g
}

func (s *source) Settings() *reconcile.Settings {
	return &reconcile.Settings{Settings: plan.Settings{WriteEndpoints: true, WriteSlices: true, CreateNamespaces: true}}
}

func (s *source) Replicas() iter.Seq[syncer.Key] {
	return func(yield func(syncer.Key) bool) {
		for _, st := range s.stores {
			if !slices.ContainsFunc(st.Replicas(), func(key syncer.Key) bool { return !yield(key) }) {
				continue
			}
			return
		}
	}
}

func (s *source) Members() []reconcile.MemberState {
	var states []reconcile.MemberState
	for _, name := range s.names {
		states = append(states, reconcile.MemberState{Name: name, Synced: true, Live: true})
	}
	return states
}
