// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 v1 Endpoints are what members hold

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/internal/memnet"
)

// fakeAPI is as much of an API server as members need, in JSON over HTTP/2 and
// TLS through memory, so that all of it runs in virtual time. Every fault is
// scripted through its fields; change them by with.
type fakeAPI struct {
	t        *testing.T
	server   *httptest.Server
	listener *memnet.Listener

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when anything below changes
	uid     string
	version string
	// noSlices leaves slices out of what the API says that it has.
	noSlices bool
	rv       int
	events   []fakeEvent
	hidden   []fakeEvent    // what lists do not show
	oldest   int            // revisions up to here are compacted
	deny     map[string]int // status by resource; "*" for all
	down     bool           // answer 503
	noToken  bool           // answer 401
	closing  int            // watches opened up to this generation are to end
	opened   int            // watches so far
	muted    int            // watches up to this one bring nothing any more
	watches  map[string]int // opened, by resource
	lists    map[string]int
	open     map[string]int // watches open now
	hook     func(w http.ResponseWriter, r *http.Request) (handled bool)
}

type fakeEvent struct {
	rv           int
	resource     string
	kind         string // ADDED, MODIFIED, DELETED
	old, current runtime.Object
}

func newFakeAPI(t *testing.T, uid string) *fakeAPI {
	f := &fakeAPI{
		t: t, listener: memnet.New(), changed: make(chan struct{}), uid: uid, version: "v1.36.3",
		rv: 100, deny: map[string]int{}, watches: map[string]int{}, lists: map[string]int{}, open: map[string]int{},
	}
	f.server = httptest.NewUnstartedServer(f)
	f.server.Listener.Close()
	f.server.Listener = f.listener
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.server.StartTLS()
	return f
}

func (f *fakeAPI) close() {
	f.listener.Thaw()
	f.server.CloseClientConnections()
	f.server.Close()
}

// config reaches the server; token makes configurations differ.
func (f *fakeAPI) config(token string) *rest.Config {
	return &rest.Config{
		Host: "https://example.com", BearerToken: token, Dial: f.listener.Dial,
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
		TLSClientConfig: rest.TLSClientConfig{
			CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw}),
		},
	}
}

// with changes the script and wakes all watches.
func (f *fakeAPI) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// put creates or updates an object.
func (f *fakeAPI) put(objects ...runtime.Object) {
	f.with(func() {
		for _, obj := range objects {
			resource, m := resourceOf(obj), accessor(obj)
			f.rv++
			m.SetResourceVersion(strconv.Itoa(f.rv))
			if m.GetUID() == "" {
				m.SetUID(types.UID(m.GetName() + "-uid"))
			}
			kind, old := "ADDED", f.find(resource, m.GetNamespace(), m.GetName())
			if old != nil {
				kind = "MODIFIED"
			}
			f.events = append(f.events, fakeEvent{f.rv, resource, kind, old, obj.DeepCopyObject()})
		}
	})
}

// remove deletes an object.
func (f *fakeAPI) remove(resource, namespace, name string) {
	f.with(func() {
		old := f.find(resource, namespace, name)
		if old == nil {
			f.t.Errorf("no %s %s/%s to delete", resource, namespace, name)
			return
		}
		f.rv++
		last := old.DeepCopyObject()
		accessor(last).SetResourceVersion(strconv.Itoa(f.rv))
		f.events = append(f.events, fakeEvent{f.rv, resource, "DELETED", old, last})
	})
}

// drop makes objects vanish without an event, as a restored backup does. Once a member reads from the server, it is for
// use in with.
func (f *fakeAPI) drop(resource string, match func(name string) bool) {
	f.events = slices.DeleteFunc(f.events, func(e fakeEvent) bool {
		return e.resource == resource && match(accessor(e.current).GetName())
	})
}

// backup is what restores the server's present.
func (f *fakeAPI) backup() []fakeEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

// rewind makes what is left of the past older than a revision, at which the
// server goes on. Open watches are not told.
func (f *fakeAPI) rewind(rv int) {
	f.rv = rv
	for i := range f.events {
		f.events[i].rv = i + 1
		f.events[i].current = f.events[i].current.DeepCopyObject()
		accessor(f.events[i].current).SetResourceVersion(strconv.Itoa(i + 1))
	}
}

func (f *fakeAPI) find(resource, namespace, name string) runtime.Object {
	for _, obj := range f.state(resource) {
		if m := accessor(obj); m.GetNamespace() == namespace && m.GetName() == name {
			return obj
		}
	}
	return nil
}

// state replays the events of a resource, in order of creation.
func (f *fakeAPI) state(resource string) []runtime.Object {
	var order []string
	objects := map[string]runtime.Object{}
	for _, e := range f.events {
		if e.resource != resource {
			continue
		}
		m := accessor(e.current)
		key := m.GetNamespace() + "/" + m.GetName()
		if e.kind == "DELETED" {
			delete(objects, key)
			continue
		}
		if _, known := objects[key]; !known {
			order = append(slices.DeleteFunc(order, func(k string) bool { return k == key }), key)
		}
		objects[key] = e.current
	}
	var list []runtime.Object
	for _, key := range order {
		if obj := objects[key]; obj != nil {
			list = append(list, obj)
		}
	}
	return list
}

func (f *fakeAPI) openWatches(resource string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[resource]
}

func accessor(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return m
}

func resourceOf(obj runtime.Object) string {
	switch obj.(type) {
	case *corev1.Pod:
		return "pods"
	case *corev1.Service:
		return "services"
	case *corev1.Node:
		return "nodes"
	case *corev1.Endpoints:
		return "endpoints"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	}
	panic(fmt.Sprintf("no resource for %T", obj))
}

var fakeKinds = map[string][2]string{
	"pods": {"v1", "Pod"}, "services": {"v1", "Service"}, "nodes": {"v1", "Node"}, "endpoints": {"v1", "Endpoints"},
	"endpointslices": {"discovery.k8s.io/v1", "EndpointSlice"},
}

// ServeHTTP implements http.Handler.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, name := parts[len(parts)-1], ""
	if n := len(parts) - 2; n >= 0 && fakeKinds[parts[n]][0] != "" {
		resource, name = parts[n], resource
	}
	f.mu.Lock()
	hook, status := f.hook, max(f.deny["*"], f.deny[resource])
	if f.noToken {
		status = http.StatusUnauthorized
	}
	if f.down {
		status = http.StatusServiceUnavailable
	}
	f.mu.Unlock()
	switch {
	case hook != nil && hook(w, r):
	case status != 0:
		fail(w, status)
	case resource == "version":
		f.mu.Lock()
		defer f.mu.Unlock()
		minor := strings.Split(f.version, ".")[1]
		_ = json.NewEncoder(w).Encode(map[string]string{"major": "1", "minor": minor + "+", "gitVersion": f.version})
	case resource == "apis":
		f.mu.Lock()
		defer f.mu.Unlock()
		groups := metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "apps", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "apps/v1"}}}}}
		if !f.noSlices {
			groups.Groups = append(groups.Groups, metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: slicesGroup}}})
		}
		_ = json.NewEncoder(w).Encode(groups)
	case resource == "kube-system":
		f.mu.Lock()
		defer f.mu.Unlock()
		respond(w, &corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: resource, UID: types.UID(f.uid)},
		})
	case fakeKinds[resource][0] == "":
		fail(w, http.StatusNotFound)
	case name != "" && f.denied(resource+"/name"):
		fail(w, http.StatusForbidden)
	case name != "":
		f.get(w, resource, parts[len(parts)-3], name)
	case r.URL.Query().Get("watch") != "":
		f.watch(w, r, resource, newFakeQuery(r, parts))
	default:
		f.list(w, resource, newFakeQuery(r, parts))
	}
}

func fail(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(statusObject(code))
}

func statusObject(code int) *metav1.Status {
	reasons := map[int]metav1.StatusReason{
		401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound,
		410: metav1.StatusReasonExpired, 422: metav1.StatusReasonInvalid, 500: metav1.StatusReasonInternalError,
	}
	message := "scripted"
	if code == http.StatusForbidden { // as an authorizer says it
		message = `User "tributary" cannot do that`
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reasons[code], Code: int32(code), Message: message,
	}
}

func respond(w http.ResponseWriter, obj any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(obj)
}

func (f *fakeAPI) denied(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deny[what] != 0
}

func (f *fakeAPI) get(w http.ResponseWriter, resource, namespace, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	obj := f.find(resource, namespace, name)
	if obj == nil {
		shown := f.events
		f.events = f.hidden
		obj = f.find(resource, namespace, name)
		f.events = shown
	}
	if obj == nil {
		missing := statusObject(http.StatusNotFound)
		missing.Details = &metav1.StatusDetails{Name: name, Kind: resource}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(missing)
		return
	}
	respond(w, obj)
}

func (f *fakeAPI) list(w http.ResponseWriter, resource string, q fakeQuery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.limit != 1 { // which is read for its revision
		f.lists[resource]++
	}
	var items []runtime.Object
	for _, obj := range f.state(resource) {
		if q.matches(obj) {
			items = append(items, obj)
		}
	}
	items = items[min(q.from, len(items)):]
	next := ""
	if q.limit > 0 && len(items) > q.limit {
		items, next = items[:q.limit], strconv.Itoa(q.from+q.limit)
	}
	kind := fakeKinds[resource]
	respond(w, map[string]any{
		"kind": kind[1] + "List", "apiVersion": kind[0], "items": items,
		"metadata": map[string]string{"resourceVersion": strconv.Itoa(f.rv), "continue": next},
	})
}
