// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 core/v1 Endpoints are what members hold

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/internal/memnet"
)

// fakeAPI is as much of an API server as members need, over memory, so that all of it runs in
// virtual time. Change what is scripted by with.
type fakeAPI struct {
	server   *httptest.Server
	listener *memnet.Listener

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when anything below changes
	uid     string        // of kube-system
	rv      int
	events  []fakeEvent
	oldest  int                       // revisions up to here are compacted
	hidden  func(object string) bool  // what lists lack: "pods shop/web-1"
	refuse  func(r *http.Request) int // a status in place of an answer
	seen    map[string]int            // requests: "list pods", "watch pods", "get pods"
	token   string                    // of the last request
	ended   chan struct{}             // closed and replaced to end all watches
}

type fakeEvent struct {
	rv           int
	resource     string
	old, current runtime.Object // nil: there was none, it is deleted
}

func newFakeAPI(uid string) *fakeAPI {
	f := &fakeAPI{listener: memnet.New(), changed: make(chan struct{}), ended: make(chan struct{}), uid: uid, rv: 100, seen: map[string]int{}}
	f.server = &httptest.Server{Listener: f.listener, Config: &http.Server{Handler: f}}
	f.server.Start()
	return f
}

func (f *fakeAPI) close() {
	f.listener.Thaw()
	f.server.CloseClientConnections()
	f.server.Close()
}

// config reaches the server; tokens make configurations differ.
func (f *fakeAPI) config(token string) *rest.Config {
	return &rest.Config{Host: "http://example.com", BearerToken: token, Dial: f.listener.Dial}
}

// with changes the script and wakes all watches.
func (f *fakeAPI) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// compact has all streams listed anew.
func (f *fakeAPI) compact() {
	f.with(func() {
		f.rv++
		f.oldest = f.rv
		close(f.ended)
		f.ended = make(chan struct{})
	})
}

// put creates or updates objects.
func (f *fakeAPI) put(objects ...runtime.Object) {
	f.with(func() {
		for _, o := range objects {
			m := accessor(o)
			f.rv++
			m.SetResourceVersion(strconv.Itoa(f.rv))
			if m.GetUID() == "" {
				m.SetUID(types.UID(m.GetName() + "-a"))
			}
			resource := fakeResource(o)
			f.events = append(f.events, fakeEvent{f.rv, resource, f.find(resource, m.GetNamespace()+"/"+m.GetName()), o.DeepCopyObject()})
		}
	})
}

// remove deletes an object.
func (f *fakeAPI) remove(resource, key string) {
	f.with(func() {
		f.rv++
		f.events = append(f.events, fakeEvent{f.rv, resource, f.find(resource, key), nil})
	})
}

func (f *fakeAPI) count(request string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[request]
}

func (f *fakeAPI) find(resource, key string) runtime.Object {
	for _, o := range f.state(resource) {
		if m := accessor(o); m.GetNamespace()+"/"+m.GetName() == key {
			return o
		}
	}
	return nil
}

// state replays the events of a resource.
func (f *fakeAPI) state(resource string) (all []runtime.Object) {
	for _, e := range f.events {
		if e.resource != resource {
			continue
		}
		all = slices.DeleteFunc(all, func(o runtime.Object) bool { return o == e.old })
		if e.current != nil {
			all = append(all, e.current)
		}
	}
	return all
}

func accessor(o runtime.Object) metav1.Object {
	m, err := meta.Accessor(o)
	if err != nil {
		panic(err)
	}
	return m
}

var fakeKinds = map[string][2]string{"pods": {"v1", "Pod"}, "services": {"v1", "Service"}, "endpoints": {"v1", "Endpoints"},
	"endpointslices": {"discovery.k8s.io/v1", "EndpointSlice"}}

func fakeResource(o runtime.Object) string {
	switch o.(type) {
	case *corev1.Pod:
		return "pods"
	case *corev1.Service:
		return "services"
	case *corev1.Endpoints:
		return "endpoints"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	}
	panic(fmt.Sprintf("no resource for %T", o))
}

// ServeHTTP implements http.Handler.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, name := parts[len(parts)-1], ""
	if n := len(parts) - 2; n >= 0 && fakeKinds[parts[n]][0] != "" {
		resource, name = parts[n], resource
	}
	query := r.URL.Query()
	verb := "list"
	switch {
	case name != "":
		verb = "get"
	case query.Get("watch") != "":
		verb = "watch"
	case query.Get("limit") == "1": // it is read for its revision
		verb = "probe"
	}
	f.mu.Lock()
	f.seen[verb+" "+resource]++
	f.token = r.Header.Get("Authorization")
	refuse := f.refuse
	f.mu.Unlock()
	if refuse != nil {
		if status := refuse(r); status != 0 {
			fail(w, status, resource, name)
			return
		}
	}
	switch {
	case resource == "version":
		_ = json.NewEncoder(w).Encode(map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
	case resource == "kube-system":
		respond(w, &corev1.Namespace{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: resource, UID: types.UID(f.uid), ResourceVersion: "1"}})
	case name != "":
		f.mu.Lock()
		o := f.find(resource, parts[len(parts)-3]+"/"+name)
		f.mu.Unlock()
		if o == nil {
			fail(w, http.StatusNotFound, resource, name)
			return
		}
		respond(w, typed(resource, o))
	case verb == "watch":
		f.watch(w, r, resource, selects(r, parts))
	default:
		f.list(w, resource, selects(r, parts), verb == "list")
	}
}

func (f *fakeAPI) list(w http.ResponseWriter, resource string, matches func(runtime.Object) bool, mayLie bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	items := []runtime.Object{}
	for _, o := range f.state(resource) {
		m := accessor(o)
		if matches(o) && (!mayLie || f.hidden == nil || !f.hidden(resource+" "+m.GetNamespace()+"/"+m.GetName())) {
			items = append(items, o)
		}
	}
	kind := fakeKinds[resource]
	respond(w, map[string]any{"kind": kind[1] + "List", "apiVersion": kind[0], "items": items,
		"metadata": map[string]string{"resourceVersion": strconv.Itoa(f.rv)}})
}

// watch streams events until its time is over, the client leaves or the script ends it.
func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request, resource string, matches func(runtime.Object) bool) {
	w.Header().Set("Content-Type", "application/json")
	position, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	send := func(kind string, o any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": o})
	}
	is := func(o runtime.Object) bool { return o != nil && matches(o) }
	timeout := time.After(time.Duration(seconds) * time.Second)
	f.mu.Lock()
	ended, expired := f.ended, position < f.oldest
	f.mu.Unlock()
	if expired {
		send("ERROR", status(http.StatusGone))
		return
	}
	for {
		f.mu.Lock()
		wake := f.changed
		for _, e := range f.events {
			if e.resource != resource || e.rv <= position {
				continue
			}
			switch {
			case is(e.current):
				send("MODIFIED", typed(resource, e.current))
			case is(e.old):
				last := typed(resource, e.old)
				accessor(last).SetResourceVersion(strconv.Itoa(e.rv))
				send("DELETED", last)
			}
		}
		position = f.rv
		f.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-ended:
			return
		case <-timeout:
			kind := fakeKinds[resource]
			send("BOOKMARK", map[string]any{"kind": kind[1], "apiVersion": kind[0],
				"metadata": map[string]any{"resourceVersion": strconv.Itoa(position)}})
			return
		case <-wake:
		}
	}
}

// selects is what a request asks for.
func selects(r *http.Request, parts []string) func(runtime.Object) bool {
	namespace := ""
	if i := slices.Index(parts, "namespaces"); i >= 0 {
		namespace = parts[i+1]
	}
	byField, _ := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	byLabel, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	return func(o runtime.Object) bool {
		m := accessor(o)
		set := fields.Set{"metadata.name": m.GetName()}
		if p, ok := o.(*corev1.Pod); ok {
			set["status.phase"] = string(p.Status.Phase)
		}
		return (namespace == "" || namespace == m.GetNamespace()) && byField.Matches(set) && byLabel.Matches(labels.Set(m.GetLabels()))
	}
}

func typed(resource string, o runtime.Object) runtime.Object {
	o = o.DeepCopyObject()
	t, _ := meta.TypeAccessor(o)
	t.SetAPIVersion(fakeKinds[resource][0])
	t.SetKind(fakeKinds[resource][1])
	return o
}

func respond(w http.ResponseWriter, o any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o)
}

func fail(w http.ResponseWriter, code int, resource, name string) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	s := status(code)
	s.Details = &metav1.StatusDetails{Name: name, Kind: resource}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(s)
}

func status(code int) *metav1.Status {
	reasons := map[int]metav1.StatusReason{401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden,
		404: metav1.StatusReasonNotFound, 410: metav1.StatusReasonExpired, 429: metav1.StatusReasonTooManyRequests}
	message := "scripted"
	if code == http.StatusForbidden { // as an authorizer says it
		message = `User "tributary" cannot do that`
	}
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Reason: reasons[code], Code: int32(code), Message: message}
}
