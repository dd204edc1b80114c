// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 core/v1 Endpoints are what members hold

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a set that follows fake clusters, and an ingress cluster to which shares are
// written at once.
type scene struct {
	t         *testing.T
	set       *Set
	api       *fakeAPI
	mu        sync.Mutex
	dirty     []string
	published map[syncer.Key][]syncer.Endpoint
	learned   map[string]string
	record    string // what Identity says
	lags      []time.Duration
}

var web = syncer.Key{Namespace: "shop", Name: "web"}

// play runs a test in virtual time, with one member "a" that is not applied yet.
func play(t *testing.T, test func(s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, api: newFakeAPI("uid-a"), published: map[syncer.Key][]syncer.Endpoint{}, learned: map[string]string{}}
		s.set = NewSet(Options{Dirty: s.markDirty, Listed: func() {}, Published: s.readPublished,
			Identity:  func(string) string { return s.record },
			Learned:   func(name, uid string) { s.mu.Lock(); s.learned[name] = uid; s.mu.Unlock() },
			Wrap:      func(string) func(http.RoundTripper) http.RoundTripper { return nil },
			Logger:    slog.New(slog.DiscardHandler),
			NativeLag: func(_ string, lag time.Duration) { s.mu.Lock(); s.lags = append(s.lags, lag); s.mu.Unlock() },
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.set.Run(ctx) })
		defer func() {
			cancel()
			running.Wait()
			s.api.close()
		}()
		test(s)
	})
}

func (s *scene) markDirty(name string, changes []member.Change, bulk bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		s.dirty = append(s.dirty, fmt.Sprintf("%s %s %s %s", name, c.Replica, c.Effect, c.Cause.Event))
		for _, share := range s.set.Give(c.Replica) {
			if share.Member == name {
				s.published[c.Replica] = written(share, s.published[c.Replica])
			}
		}
	}
}

// written is what is published after a share was written over what was published before.
func written(share syncer.Share, before []syncer.Endpoint) (all []syncer.Endpoint) {
	if share.Listed {
		all = slices.Clone(share.Given.Endpoints)
	}
	for _, e := range before {
		if slices.ContainsFunc(all, func(g syncer.Endpoint) bool { return g.Target == e.Target && g.Addr == e.Addr }) {
			continue
		}
		if share.Keep == nil {
			if !share.Listed {
				all = append(all, e)
			}
		} else if as, ok := share.Keep(e); ok {
			all = append(all, as)
		}
	}
	for i := range all {
		if share.Reserve != "" {
			all[i].Grade = min(all[i].Grade, syncer.Reserve)
		}
	}
	return all
}

func (s *scene) readPublished(context.Context, string) member.Published {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := member.Published{}
	for key, endpoints := range s.published {
		all[key] = slices.Clone(endpoints)
	}
	return all
}

// settings are those of member a.
func (s *scene) settings(change ...func(*Settings)) []Settings {
	c := config.Cluster{Name: "a"}
	c.Namespaces = config.Namespaces{Include: []string{"*"}, Exclude: []string{"kube-*"}}
	all := []Settings{{Cluster: c, Rules: new(rules.Program).For(c.Name), Access: config.Access{Accepted: kubeconfig.Accepted{REST: s.api.config("one"), Hash: "one"}}}}
	for _, change := range change {
		change(&all[0])
	}
	return all
}

// pass lets time pass.
func (s *scene) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// want compares what is published in shop/web.
func (s *scene) want(endpoints string) {
	s.t.Helper()
	s.pass(50 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	var is []string
	for _, e := range s.published[web] {
		text := e.Addr.String()
		if e.Grade != syncer.Ready {
			text += " " + e.Grade.String()
		}
		is = append(is, text)
	}
	slices.Sort(is)
	if got := strings.Join(is, ", "); got != endpoints {
		s.t.Errorf("shop/web is %q, want %q", got, endpoints)
	}
}

func (s *scene) wantState(state string, conditions ...string) {
	s.t.Helper()
	status := s.set.Status()[0]
	var is []string
	for _, c := range status.Conditions {
		is = append(is, c.Reason)
	}
	if status.State != state || !slices.Equal(is, conditions) {
		s.t.Errorf("is %q with %q, want %q with %q (%s)", status.State, is, state, conditions, status.LastError)
	}
}

func pod(name, ip string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		Spec: corev1.PodSpec{NodeName: "node-1"},
	}
	for _, change := range change {
		change(p)
	}
	return p
}

func service(change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.0.1", Selector: map[string]string{"app": "web"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}}}
	for _, change := range change {
		change(svc)
	}
	return svc
}

func TestFollows(t *testing.T) {
	play(t, func(s *scene) {
		s.api.put(service(), pod("web-1", "10.0.0.1"))
		s.set.Apply(s.settings())
		s.want("10.0.0.1")
		s.wantState(StateLive)
		s.api.put(pod("web-2", "10.0.0.2"))
		s.want("10.0.0.1, 10.0.0.2")
		s.api.remove("pods", "shop/web-1")
		s.want("10.0.0.2")
		s.api.put(pod("web-2", "10.0.0.2", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))
		s.want("")
		s.pass(time.Hour)
		if s.learned["a"] != "uid-a" || !s.set.AllListed() || len(s.set.Replicas()) != 1 || s.api.count("list pods") > 2 { // one may be the daily list
			t.Errorf("learned %q, listed %v, replicas %v, lists %d", s.learned, s.set.AllListed(), s.set.Replicas(), s.api.count("list pods"))
		}
		status := s.set.Status()[0]
		if !status.Up || !status.Synced || status.Version != "v1.36.3" || status.Services != 1 || time.Since(status.LastContact) > time.Minute {
			t.Errorf("status %+v", status)
		}
		s.set.Apply(nil)
		if len(s.set.Give(web)) != 0 || !s.set.AllListed() {
			t.Error("a member that was removed contributes something")
		}
	})
}

// A list from a stale watch cache lacks live pods.
func TestAsksForWhatListsLack(t *testing.T) {
	play(t, func(s *scene) {
		s.api.put(service(), pod("web-1", "10.0.0.1"), pod("web-2", "10.0.0.2"))
		s.set.Apply(s.settings())
		s.want("10.0.0.1, 10.0.0.2")
		s.api.with(func() { s.api.hidden = func(object string) bool { return object == "pods shop/web-1" } })
		s.api.compact()
		s.pass(2 * time.Second)
		s.want("10.0.0.1, 10.0.0.2")
		if s.api.count("get pods") != 1 {
			t.Errorf("%d pods were asked for", s.api.count("get pods"))
		}
	})
}

// A published pod died before the process began; at first the server does not answer.
func TestStartAsksForWhatIsPublished(t *testing.T) {
	play(t, func(s *scene) {
		s.api.put(service(), pod("web-1", "10.0.0.1"))
		s.set.Apply(s.settings())
		s.want("10.0.0.1")
		dead := s.published[web][0]
		dead.Addr, dead.Target.Name, dead.Target.UID = dead.Addr.Next(), "web-2", "web-2-a"
		s.published[web] = append(s.published[web], dead)
		s.api.with(func() {
			s.api.refuse = func(r *http.Request) int {
				if strings.Contains(r.URL.Path, "/pods/") {
					return http.StatusInternalServerError
				}
				return 0
			}
		})
		s.set.Apply(nil)
		s.set.Apply(s.settings())
		s.want("10.0.0.1, 10.0.0.2")
		s.wantState(StateLive, "Missing")
		s.api.with(func() { s.api.refuse = nil })
		s.pass(2 * time.Second)
		s.want("10.0.0.1")
		s.wantState(StateLive)
	})
}

func TestNewCredentialResumes(t *testing.T) {
	play(t, func(s *scene) {
		s.api.put(service(), pod("web-1", "10.0.0.1"))
		s.set.Apply(s.settings())
		s.want("10.0.0.1")
		s.set.Apply(s.settings(func(o *Settings) { o.Access.REST, o.Access.Hash = s.api.config("two"), "two" }))
		s.pass(time.Second)
		s.api.put(pod("web-2", "10.0.0.2"))
		s.want("10.0.0.1, 10.0.0.2")
		if s.api.token != "Bearer two" || s.api.count("list pods") != 1 {
			t.Errorf("token %q, %d lists", s.api.token, s.api.count("list pods"))
		}
	})
	play(t, func(s *scene) { // it comes while the first connection is being made
		s.api.listener.Freeze()
		s.set.Apply(s.settings())
		s.pass(time.Second)
		s.set.Apply(s.settings(func(o *Settings) { o.Access.REST, o.Access.Hash = s.api.config("two"), "two" }))
		s.pass(time.Second)
		s.api.listener.Thaw()
		s.pass(time.Minute)
		s.api.with(func() {
			if s.api.token != "Bearer two" {
				t.Errorf("token %q", s.api.token)
			}
		})
	})
}

func TestSettingsBeginAnewOnlyWhatChanged(t *testing.T) {
	play(t, func(s *scene) {
		s.api.put(service(), pod("web-1", "10.0.0.1"), pod("web-2", "10.0.0.2", func(p *corev1.Pod) { p.Spec.NodeName = "bad" }))
		s.set.Apply(s.settings())
		s.want("10.0.0.1, 10.0.0.2")
		s.set.Apply(s.settings(func(o *Settings) { o.Cluster.Drain = true }))
		s.want("10.0.0.1 reserve, 10.0.0.2 reserve")
		s.wantState(StateLive, "Drained")
		s.set.Apply(s.settings())
		s.want("10.0.0.1, 10.0.0.2")
		if s.api.count("list pods") != 1 {
			t.Errorf("%d lists", s.api.count("list pods"))
		}
		program, faults := rules.Compile(nil, []rules.Rule{{Name: "bad", When: `pod.spec.nodeName == "bad"`, Then: "NotReady"}})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		s.set.Apply(s.settings(func(o *Settings) { o.Rules = program.For("a") }))
		s.want("10.0.0.1, 10.0.0.2 reserve")
		if s.api.count("list pods") != 2 || s.api.count("list services") != 1 {
			t.Errorf("%d and %d lists", s.api.count("list pods"), s.api.count("list services"))
		}
		s.api.put(pod("web-3", "10.0.0.3", func(p *corev1.Pod) { p.Spec.NodeName = "bad" }))
		s.want("10.0.0.1, 10.0.0.2 reserve, 10.0.0.3 reserve")
		s.set.Apply(s.settings(func(o *Settings) { o.Cluster.Namespaces.Exclude = []string{"shop"} }))
		s.want("")
	})
}

func TestRefusedNamespaceRetainsWhatIsPublished(t *testing.T) {
	play(t, func(s *scene) {
		two := func(o *Settings) { o.Cluster.Namespaces = config.Namespaces{Include: []string{"shop", "other"}} }
		s.api.put(service(), pod("web-1", "10.0.0.1"))
		s.api.with(func() {
			s.api.refuse = func(r *http.Request) int {
				if strings.Contains(r.URL.Path, "/namespaces/other/") {
					return http.StatusForbidden
				}
				return 0
			}
		})
		s.set.Apply(s.settings(two))
		s.want("10.0.0.1")
		s.pass(time.Second)
		s.wantState(StateLive, "Refused")
		if share := s.set.Give(syncer.Key{Namespace: "other", Name: "api"})[0]; share.Listed || !share.SourceOpen {
			t.Errorf("the share of a refused namespace is %+v", share)
		}
		if s.set.AllListed() {
			t.Error("a refused namespace counts as listed")
		}
	})
}

func TestHandWrittenIsFollowedWhereItIsNeeded(t *testing.T) {
	play(t, func(s *scene) {
		s.api.put(service(), pod("web-1", "10.0.0.1"))
		s.set.Apply(s.settings())
		s.want("10.0.0.1")
		if s.api.count("list endpoints")+s.api.count("list endpointslices") != 0 {
			t.Error("hand-written endpoints are followed though there are none")
		}
		s.api.put(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.9.0.1"}}, Ports: []corev1.EndpointPort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}})
		s.api.put(service(func(svc *corev1.Service) { svc.Spec.Selector = nil }))
		s.pass(time.Second)
		s.want("10.9.0.1")
		s.api.remove("endpoints", "shop/web")
		s.want("")
	})
}

func TestAnotherClusterIsNotHeardBeforeItIsAccepted(t *testing.T) {
	play(t, func(s *scene) {
		s.api.put(service(), pod("web-1", "10.0.0.1"))
		s.record = "uid-a"
		s.set.Apply(s.settings())
		s.want("10.0.0.1")
		other := newFakeAPI("uid-b")
		defer other.close()
		other.put(service(), pod("web-9", "10.7.0.9"))
		s.api.listener.Cut()
		s.set.Apply(s.settings(func(o *Settings) { o.Access.REST, o.Access.Hash = other.config("b"), "b" }))
		s.pass(5 * time.Second)
		s.want("10.0.0.1")
		s.record = "" // the member that replaces it knows the identity nevertheless
		s.set.Apply(s.settings(func(o *Settings) {
			o.Access.REST, o.Access.Hash, o.Annotations = other.config("b"), "b", []string{"example.com/*"}
		}))
		s.pass(5 * time.Second)
		s.wantState(StateOtherCluster, "OtherCluster")
		s.want("10.0.0.1")
		s.record = "uid-b"
		s.set.Recorded("a")
		s.pass(5 * time.Second)
		s.want("10.7.0.9")
		s.set.Apply(nil)
		s.pass(time.Second)
	})
}

func TestNewLeaderBeginsAnewWithWhatItDoesNotFollow(t *testing.T) {
	play(t, func(s *scene) {
		s.api.put(service(), pod("web-1", "10.0.0.1"))
		s.set.Apply(s.settings(func(o *Settings) { o.Cluster.StaleAfter = "1h" }))
		s.want("10.0.0.1")
		s.set.Lead()
		if !s.set.AllListed() {
			t.Error("a member that is followed began anew")
		}
		s.api.with(func() { s.api.refuse = func(*http.Request) int { return http.StatusServiceUnavailable } })
		s.api.compact()
		s.pass(time.Minute)
		s.wantState(StateUnreachable, "Unreachable")
		s.set.Lead()
		if s.set.AllListed() {
			t.Error("a member that is not followed did not begin anew")
		}
		s.want("10.0.0.1")
		s.pass(time.Hour)
		s.want("10.0.0.1 reserve")
		s.wantState(StateUnreachable, "Unreachable", "Stale")
		s.api.with(func() { s.api.refuse = nil })
		s.pass(time.Minute)
		s.want("10.0.0.1")
		s.wantState(StateLive)
	})
}

func TestExplains(t *testing.T) {
	play(t, func(s *scene) {
		s.api.put(service(), pod("web-1", "10.0.0.1"))
		s.set.Apply(s.settings())
		s.want("10.0.0.1")
		e := s.set.Explain(web)[0]
		if e.Member != "a" || e.Service == nil || e.Excluded != "" || len(e.Pods) != 1 || !e.Share.Listed {
			t.Errorf("explained %+v", e)
		}
		s.api.put(service(func(svc *corev1.Service) {
			svc.Annotations = map[string]string{syncer.AnnotationReplicate: "false"}
		}))
		s.pass(time.Second) // its pods were only just listed
		s.want("")
		if e := s.set.Explain(web)[0]; e.Service == nil || e.Excluded == "" {
			t.Errorf("explained %+v", e)
		}
	})
}

// One of two namespaces is listed later: what was compared before then is observed, too.
func TestObservesMembersOwnEndpoints(t *testing.T) {
	play(t, func(s *scene) {
		s.api.put(service(), pod("web-1", "10.0.0.1"))
		s.api.with(func() {
			s.api.refuse = func(r *http.Request) int {
				return map[bool]int{true: http.StatusForbidden}[strings.Contains(r.URL.Path, "/namespaces/other/")]
			}
		})
		s.set.Apply(s.settings(func(o *Settings) {
			o.Cluster.ObserveNative, o.Cluster.Namespaces = true, config.Namespaces{Include: []string{"shop", "other"}}
		}))
		s.want("10.0.0.1")
		s.pass(time.Second)
		s.api.with(func() { s.api.refuse = nil })
		s.pass(3 * time.Minute)
		status := s.set.Status()[0].Native
		if status == nil || status.DifferingCount != 1 || status.BehindSeconds < 60 {
			t.Fatalf("native is %+v", status)
		}
		s.api.put(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1", NodeName: new("node-1")}},
			Ports:     []corev1.EndpointPort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}})
		s.pass(time.Second)
		if status := s.set.Status()[0].Native; status.DifferingCount != 0 {
			t.Errorf("native is %+v", status)
		}
		s.set.Apply(s.settings())
		s.pass(time.Second)
		if s.set.Status()[0].Native != nil {
			t.Error("it is observed still")
		}
	})
}
