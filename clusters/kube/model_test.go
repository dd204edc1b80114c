// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/internal/memnet"
	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is an API server that has pods and the namespace kube-system, reached over memory.
type model struct {
	ctx  context.Context // of the bubble
	net  *memnet.Listener
	http *httptest.Server

	mu       sync.Mutex
	uid      string // of kube-system
	rv       uint64
	uids     int
	pods     map[string]*corev1.Pod // immutable, by namespace/name
	history  []change
	oldest   uint64 // the lowest revision that watches resume from
	tokens   uint64 // continue tokens of lists below this revision have expired
	changed  chan struct{}
	dropped  int           // counts what ends all watches
	frozen   int           // watches with a number up to this say nothing and do not end
	watches  int           // opened so far
	slow     time.Duration // how long a page takes
	skew     time.Duration // of its clock
	answer   func(r *http.Request, verb string) *metav1.Status
	raw      func(w http.ResponseWriter, r *http.Request, verb string) bool
	requests map[string]int // by verb: get, list (first pages), page (all), watch, probe, identity
	log      []string       // the requests for pods in order
}

// connection is the key of a request's connection in its context.
type connection struct{}

type change struct {
	kind watch.EventType
	pod  *corev1.Pod
	rv   uint64
}

// newModel starts a server in the bubble of the test.
func newModel(t *testing.T) *model {
	m := &model{ctx: t.Context(), net: memnet.New(), uid: "uid-a", rv: 100, pods: map[string]*corev1.Pod{}, changed: make(chan struct{}), requests: map[string]int{}}
	m.http = httptest.NewUnstartedServer(m)
	_ = m.http.Listener.Close()
	m.http.Listener = m.net
	m.http.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, fmt.Sprintf("%p", c))
	}
	m.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	return m
}

// start serves, over HTTP/2 with TLS or over HTTP/1 without.
func (m *model) start(t *testing.T, http2 bool) *rest.Config {
	cfg := &rest.Config{Host: "http://member", Dial: m.net.Dial}
	if http2 {
		m.http.EnableHTTP2 = true
		m.http.StartTLS()
		cfg.Host = "https://member"
		cfg.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
	} else {
		m.http.Start()
	}
	t.Cleanup(func() {
		m.net.Thaw()
		m.net.Cut()
		_ = m.http.Listener.Close()
		_ = m.http.Config.Close()
	})
	return cfg
}

// ServeHTTP implements http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb := m.note(r)
	m.mu.Lock()
	answer, raw, slow := m.answer, m.raw, m.slow
	w.Header().Set("Date", time.Now().Add(m.skew).UTC().Format(http.TimeFormat))
	m.mu.Unlock()
	if verb == "page" || verb == "list" {
		time.Sleep(slow)
	}
	if raw != nil && raw(w, r, verb) {
		return
	}
	if answer != nil {
		if status := answer(r, verb); status != nil {
			fail(w, status)
			return
		}
	}
	switch verb {
	case "version":
		_, _ = w.Write([]byte(`{"major":"1","minor":"36+","gitVersion":"v1.36.3-test"}`))
	case "identity":
		m.mu.Lock()
		uid := m.uid
		m.mu.Unlock()
		respond(w, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid), ResourceVersion: "1"}})
	case "get":
		m.get(w, r)
	case "watch":
		m.watch(w, r)
	default:
		m.list(w, r)
	}
}

// note counts a request and names it.
func (m *model) note(r *http.Request) (verb string) {
	q := r.URL.Query()
	switch {
	case r.URL.Path == "/version":
		verb = "version"
	case strings.HasSuffix(r.URL.Path, "/namespaces/kube-system"):
		verb = "identity"
	case strings.Contains(r.URL.Path, "/pods/"):
		verb = "get"
	case q.Get("watch") != "":
		verb = "watch"
	case q.Get("limit") == "1":
		verb = "probe"
	case q.Get("continue") == "":
		verb = "list"
	default:
		verb = "page"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[verb]++
	m.log = append(m.log, strings.TrimSpace(verb+" "+q.Get("resourceVersion")))
	return verb
}

func respond(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

func fail(w http.ResponseWriter, status *metav1.Status) {
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

func statusOf(err apierrors.APIStatus) *metav1.Status {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}

// forbidden is how an authorizer refuses.
func forbidden() *metav1.Status {
	return statusOf(apierrors.NewForbidden(Pods.GroupResource(), "", fmt.Errorf(`User "u" cannot list resource "pods"`)))
}

func namespaceOf(r *http.Request) string {
	if _, rest, ok := strings.Cut(r.URL.Path, "/namespaces/"); ok {
		namespace, _, _ := strings.Cut(rest, "/")
		return namespace
	}
	return ""
}

// selected reports what the request selects.
func selected(r *http.Request) func(*corev1.Pod) bool {
	namespace := namespaceOf(r)
	byLabel, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	byField, _ := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	return func(p *corev1.Pod) bool {
		return (namespace == "" || p.Namespace == namespace) && byLabel.Matches(labels.Set(p.Labels)) &&
			byField.Matches(fields.Set{"metadata.name": p.Name})
	}
}

func (m *model) get(w http.ResponseWriter, r *http.Request) {
	key := namespaceOf(r) + "/" + r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	m.mu.Lock()
	p := m.pods[key]
	m.mu.Unlock()
	if p == nil {
		_, name, _ := strings.Cut(key, "/")
		fail(w, statusOf(apierrors.NewNotFound(Pods.GroupResource(), name)))
		return
	}
	respond(w, p)
}

// list serves pages from the history, as of the revision of the first.
func (m *model) list(w http.ResponseWriter, r *http.Request) {
	q, selects := r.URL.Query(), selected(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	at, after := m.rv, ""
	if token := q.Get("continue"); token != "" {
		rv, name, _ := strings.Cut(token, "|")
		at, _ = strconv.ParseUint(rv, 10, 64)
		if after = name; at < m.tokens {
			fail(w, statusOf(apierrors.NewResourceExpired("the continue token is too old")))
			return
		}
	}
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(at, 10)}}
	limit, _ := strconv.Atoi(q.Get("limit"))
	pods := m.lockedAsOf(at)
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		if name <= after || !selects(pods[name]) {
			continue
		}
		if limit > 0 && len(list.Items) == limit {
			last := list.Items[limit-1]
			list.Continue = fmt.Sprintf("%d|%s/%s", at, last.Namespace, last.Name)
			break
		}
		list.Items = append(list.Items, *pods[name])
	}
	respond(w, list)
}

// lockedAsOf undoes what came after a revision.
func (m *model) lockedAsOf(rv uint64) map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	if rv == m.rv {
		return m.pods
	}
	for _, c := range m.history {
		if c.rv > rv {
			break
		}
		name := c.pod.Namespace + "/" + c.pod.Name
		if pods[name] = c.pod; c.kind == watch.Deleted {
			delete(pods, name)
		}
	}
	return pods
}

func (m *model) watch(w http.ResponseWriter, r *http.Request) {
	q, selects := r.URL.Query(), selected(r)
	after, _ := strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	over := time.After(time.Duration(seconds) * time.Second)
	bookmark := time.After(time.Duration(seconds)*time.Second - 2*time.Second)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	m.mu.Lock()
	m.watches++
	number, dropped := m.watches, m.dropped
	m.mu.Unlock()
	send := func(kind watch.EventType, object any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
		w.(http.Flusher).Flush()
	}
	for {
		m.mu.Lock()
		changed, frozen, ended, expired, rv := m.changed, number <= m.frozen, m.dropped != dropped, after < m.oldest, m.rv
		var news []change
		for _, c := range m.history {
			if c.rv > after {
				news = append(news, c)
			}
		}
		m.mu.Unlock()
		switch {
		case frozen:
			<-r.Context().Done()
			return
		case ended:
			return
		case expired:
			send(watch.Error, statusOf(apierrors.NewResourceExpired("too old resource version")))
			return
		}
		for _, c := range news {
			if after = c.rv; selects(c.pod) {
				send(c.kind, c.pod)
			}
		}
		select {
		case <-changed:
		case <-bookmark:
			if rv >= after { // one from the future is silent
				after = rv
				send(watch.Bookmark, &corev1.Pod{TypeMeta: podType, ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(rv, 10)}})
			}
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}

var podType = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}

// do changes the model.
func (m *model) do(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	close(m.changed)
	m.changed = make(chan struct{})
}

// set adds a pod or changes it.
func (m *model) set(name, value string) {
	m.do(func() {
		m.rv++
		full, kind := "ns/"+name, watch.Modified
		uid := types.UID("")
		if old := m.pods[full]; old == nil {
			m.uids++
			uid, kind = types.UID(fmt.Sprintf("uid-%d", m.uids)), watch.Added
		} else {
			uid = old.UID
		}
		p := &corev1.Pod{TypeMeta: podType, ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: uid, ResourceVersion: strconv.FormatUint(m.rv, 10), Labels: map[string]string{"value": value},
		}}
		m.pods[full] = p
		m.history = append(m.history, change{kind, p, m.rv})
	})
}

// remove deletes a pod.
func (m *model) remove(name string) {
	m.do(func() {
		if p := m.pods["ns/"+name]; p != nil {
			m.rv++
			p = p.DeepCopy()
			p.ResourceVersion = strconv.FormatUint(m.rv, 10)
			delete(m.pods, "ns/"+name)
			m.history = append(m.history, change{watch.Deleted, p, m.rv})
		}
	})
}

// expire drops the history up to now, for watches and for lists that are being read.
func (m *model) expire() { m.do(func() { m.oldest, m.tokens = m.rv, m.rv }) }

// drop ends all watches in order.
func (m *model) drop() { m.do(func() { m.dropped++ }) }

// freeze silences the open watches, which do not end either.
func (m *model) freeze() { m.do(func() { m.frozen = m.watches }) }

// snapshot returns a function that restores the store to its present state, as from a backup,
// at a revision that is higher by bump; 0: at the same one.
func (m *model) snapshot() (restore func(bump uint64)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pods, rv, history := maps.Clone(m.pods), m.rv, slices.Clone(m.history)
	return func(bump uint64) {
		m.do(func() {
			m.pods, m.history = pods, history
			m.oldest, m.tokens = min(m.oldest, rv), min(m.tokens, rv)
			if m.rv = rv; bump > 0 {
				m.rv += bump
				m.oldest, m.tokens = m.rv, m.rv
			}
		})
	}
}

func (m *model) count(verb string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[verb]
}

func (m *model) requestLog() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.log), func(line string) bool {
		return strings.HasPrefix(line, "probe") || line == "identity" || line == "version"
	})
}

// picture is what the model has, by name.
func (m *model) picture() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	picture := map[string]string{}
	for _, p := range m.pods {
		picture[p.Name] = p.Labels["value"]
	}
	return picture
}

// item is what the followers under test store of a pod.
type item struct {
	Key        syncer.Key
	UID, Value string
	by         int32 // the how manyth list, from 0, it was converted for
}

// convert returns another Convert for each list and what follows it.
func convert() func() Convert[item] {
	var lists atomic.Int32
	return func() Convert[item] {
		by := lists.Add(1) - 1
		return func(content []byte) (*item, error) {
			var p corev1.Pod
			switch err := p.Unmarshal(content); {
			case err != nil:
				return nil, err
			case p.Labels["value"] == "bad":
				return nil, fmt.Errorf("it is bad")
			}
			return &item{syncer.Key{Namespace: p.Namespace, Name: p.Name}, string(p.UID), p.Labels["value"], by}, nil
		}
	}
}

// recorder is a Sink that stores objects as a member does: an object is accepted if it is not
// older than what is known, and what a list lacks is asked for, here of the model.
type recorder struct {
	model *model

	mu        sync.Mutex
	items     map[string]Versioned[item]
	log       []string
	phases    []string
	faults    []error
	err       error // of the last phase
	at        uint64
	late      time.Duration // the longest from a change's arrival to its report
	backwards []string      // what was reported out of order
}

func (r *recorder) tell(line string, args ...any) { r.log = append(r.log, fmt.Sprintf(line, args...)) }

func (r *recorder) reach(revision uint64) {
	if revision <= r.at {
		r.backwards = append(r.backwards, fmt.Sprintf("%d after %d", revision, r.at))
	}
	r.at = revision
}

func (r *recorder) Event(v Versioned[item], arrived time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reach(v.Revision)
	switch {
	case v.Key == syncer.Key{}:
	case v.Object == nil:
		r.tell("gone %s", v.Key.Name)
		delete(r.items, v.Key.Name)
	default:
		r.late = max(r.late, time.Since(arrived))
		r.tell("seen %s=%s", v.Key.Name, v.Object.Value)
		v.Relisted = nil
		r.items[v.Key.Name] = v
	}
}

// of is what is known of a pod.
func (r *recorder) of(name string) item {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.items[name].Object
}

func (r *recorder) Listed(all []Versioned[item], revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if revision < r.at {
		r.backwards = append(r.backwards, fmt.Sprintf("a list at %d after %d", revision, r.at))
	}
	r.at = revision
	names := map[string]string{}
	items := map[string]Versioned[item]{}
	for _, v := range all {
		items[v.Key.Name], names[v.Key.Name] = v, v.Object.Value
	}
	r.items = items
	if len(names) < 10 {
		r.tell("listed %v", names)
	} else {
		r.tell("listed %d", len(names))
	}
}

func (r *recorder) Following(is bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := "listing"
	switch {
	case is && err != nil:
		r.backwards = append(r.backwards, fmt.Sprintf("following with error %v", err))
	case is:
		name = "following"
	case NotAllowed(err):
		name = "refused"
	case err != nil:
		name = "failing"
	}
	if r.err = err; len(r.phases) == 0 || r.phases[len(r.phases)-1] != name {
		r.phases = append(r.phases, name)
	}
}

func (r *recorder) WentBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = 0
	r.tell("went back")
}

func (r *recorder) fault(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, err)
}

func (r *recorder) picture() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	picture := map[string]string{}
	for name, v := range r.items {
		picture[name] = v.Object.Value
	}
	return picture
}

// read returns what was reported since the last read.
func (r *recorder) read() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log = nil
	return log
}

// scene is a follower of a model in a bubble of virtual time.
type scene struct {
	*model
	t        *testing.T
	cfg      *rest.Config
	pin      *Pin
	access   *Access
	sink     *recorder
	follower *Follower[item]
}

// play runs a follower until script returns. The first script prepares the model.
func play(t *testing.T, http2 bool, prepare func(*model), script func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{model: newModel(t), t: t, pin: NewPin("")}
		if prepare != nil {
			prepare(s.model)
		}
		s.cfg = s.start(t, http2)
		s.sink = &recorder{model: s.model, items: map[string]Versioned[item]{}}
		s.access = NewAccess(s.open)
		s.follower = NewFollower(Query{Resource: Pods}, convert(), s.access, Sink[item](s.sink), s.sink.fault)
		s.follower.dice = func(d time.Duration) time.Duration { return d / 2 }
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.follower.Run(ctx) })
		synctest.Wait()
		script(s)
		cancel()
		s.access.Close()
		running.Wait()
		for _, line := range s.sink.backwards {
			t.Errorf("reported in the wrong order: %s", line)
		}
		synctest.Wait()
		if open := s.net.Open(); open != 0 {
			t.Errorf("%d connections are open at the end", open)
		}
	})
}

func (s *scene) open(ctx context.Context) (*Session, error) {
	return Open(ctx, s.cfg, Options{Pin: s.pin})
}

// pass lets virtual time go by.
func (s *scene) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// told returns what was reported since the last call.
func (s *scene) told() []string {
	synctest.Wait()
	return s.sink.read()
}

func (s *scene) wantTold(want ...string) {
	s.t.Helper()
	if got := s.told(); !slices.Equal(got, want) {
		s.t.Errorf("told\n  %q\nwant\n  %q\nafter %q", got, want, s.requestLog())
	}
}

func (s *scene) wantPicture() {
	s.t.Helper()
	if got, want := s.sink.picture(), s.model.picture(); !maps.Equal(got, want) {
		s.t.Errorf("the sink has %v, the server %v", got, want)
	}
}

func (s *scene) wantPhases(want ...string) {
	s.t.Helper()
	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	if !slices.Equal(s.sink.phases, want) {
		s.t.Errorf("phases %q, want %q (last error: %v)", s.sink.phases, want, s.sink.err)
	}
}

// wantPhase compares the last phase.
func (s *scene) wantPhase(want string) {
	s.t.Helper()
	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	if got := s.sink.phases[len(s.sink.phases)-1]; got != want {
		s.t.Errorf("the phase is %s, want %s (%v)", got, want, s.sink.err)
	}
}

func (s *scene) wantCount(verb string, want int) {
	s.t.Helper()
	if got := s.count(verb); got != want {
		s.t.Errorf("%d requests %s, want %d: %q", got, verb, want, s.requestLog())
	}
}

// lastError is that of the last phase.
func (s *scene) lastError() error {
	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	return s.sink.err
}
