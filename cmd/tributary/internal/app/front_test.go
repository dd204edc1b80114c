// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/internal/apitest"
)

// front is an ingress cluster as an App connects to it: an apitest.Server with
// a version, Leases and tokens, that takes protobuf.
type front struct {
	*apitest.Server
	http *httptest.Server
	// atVersion, unless nil, is called before the version is told.
	atVersion func()
	// atWrite, unless nil, is called before something is written.
	atWrite func(token string, r *http.Request)

	mu sync.Mutex
	// refused are tokens that are answered with 401, unlisting those with 403 on lists.
	refused, unlisting string
	leases             []coordinationv1.Lease
	// calls are the methods and paths of the requests about Leases.
	calls []string
	// election is the leader's Lease, elections counts its writes.
	election  *coordinationv1.Lease
	elections int
	// watches counts the open ones by token, writers are the tokens of all writes.
	watches map[string]int
	writers []string
}

func newFront(t *testing.T) *front {
	f := &front{Server: apitest.New(t), watches: map[string]int{}}
	f.http = httptest.NewServer(f)
	t.Cleanup(func() { f.http.CloseClientConnections(); f.http.Close() })
	return f
}

// access current to the front with a token.
func (f *front) access(token string) config.Access {
	return config.Access{REST: &rest.Config{Host: f.http.URL, BearerToken: token}, Hash: f.http.URL + token}
}

func (f *front) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *front) open(token string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watches[token]
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	watch := r.URL.Query().Get("watch") != ""
	f.mu.Lock()
	refused, unlisting := token == f.refused, token == f.unlisting
	f.mu.Unlock()
	switch path := r.URL.Path; {
	case refused:
		w.WriteHeader(http.StatusUnauthorized)
	case path == "/version":
		if f.atVersion != nil {
			f.atVersion()
		}
		answer(w, map[string]string{"major": "1", "minor": "33", "gitVersion": "v1.33.0"})
	case path == "/apis/discovery.k8s.io/v1":
		answer(w, map[string]string{})
	case unlisting:
		w.WriteHeader(http.StatusForbidden)
	case strings.HasPrefix(path, "/apis/coordination.k8s.io"):
		f.serveLeases(w, r)
	default:
		switch {
		case watch:
			f.with(func() { f.watches[token]++ })
			defer f.with(func() { f.watches[token]-- })
		case r.Method != http.MethodGet && !strings.HasSuffix(path, "/namespaces"):
			if f.atWrite != nil {
				f.atWrite(token, r)
			}
			f.with(func() { f.writers = append(f.writers, token) })
		}
		f.Server.ServeHTTP(w, inJSON(r))
	}
}

func (f *front) serveLeases(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.RawQuery, "watch=true") {
		f.watchElection(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.Contains(r.URL.Path, "/leases/tributary-leader.") || r.Method == http.MethodPost {
		f.serveElection(w, r)
		return
	}
	f.calls = append(f.calls, r.Method+" "+r.URL.Path)
	if r.Method == http.MethodGet {
		answer(w, coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"}, Items: f.leases})
		return
	}
	answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
}

// watchElection tells each version of the leader's Lease.
func (f *front) watchElection(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for told := r.URL.Query().Get("resourceVersion"); ; {
		f.mu.Lock()
		if lease := f.election; lease != nil && lease.ResourceVersion != told {
			told = lease.ResourceVersion
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": lease}) // the client may have left
		}
		f.mu.Unlock()
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-look.C:
		}
	}
}

// serveElection serves the leader's Lease.
func (f *front) serveElection(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if f.election == nil {
			w.WriteHeader(http.StatusNotFound)
			answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
			return
		}
		answer(w, f.election)
		return
	}
	body, _ := io.ReadAll(r.Body)
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	lease, ok := obj.(*coordinationv1.Lease)
	if err != nil || !ok || f.election != nil && lease.ResourceVersion != f.election.ResourceVersion {
		w.WriteHeader(http.StatusConflict)
		answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Code: http.StatusConflict})
		return
	}
	lease.TypeMeta = metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
	if r.URL.Query().Has("dryRun") {
		answer(w, lease)
		return
	}
	f.elections++
	lease.ResourceVersion = strconv.Itoa(f.elections)
	f.election = lease
	answer(w, lease)
}

// holds is who holds the leader's Lease.
func (f *front) holds() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.election == nil || f.election.Spec.HolderIdentity == nil {
		return ""
	}
	return *f.election.Spec.HolderIdentity
}

// leaseCalls returns what was asked about Leases so far.
func (f *front) leaseCalls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may have left
}

// object is one of ours, of a cluster.
func object(name, cluster string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{
		"app.kubernetes.io/managed-by": "tributary", discoveryv1.LabelServiceName: name,
		discoveryv1.LabelManagedBy: "tributary.dev", "multicluster.kubernetes.io/source-cluster": cluster, "tributary.dev/instance": "default",
	}, Annotations: map[string]string{
		"tributary.dev/replica": "shop/" + name, "tributary.dev/sources": `[{"cluster":"` + cluster + `","service":"shop/` + name + `","created":"2025-01-01T00:00:00Z","ports":["http"]}]`,
	}}
}

// orphan makes a Service of ours that nobody wants, and waits until it is collected.
// It returns by which tokens.
func (f *front) orphan(t *testing.T, name string) (writers []string) {
	t.Helper()
	f.with(func() { f.writers = nil })
	f.unwanted(t, name)
	until(t, "the orphan "+name+" is collected", func() bool { return !f.stands(name) })
	f.with(func() { writers = slices.Clone(f.writers) })
	return writers
}

// unwanted makes a Service of ours that nobody wants.
func (f *front) unwanted(t *testing.T, name string) {
	t.Helper()
	f.Create(t, &corev1.Service{ObjectMeta: object(name, "nobody"), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}})
}

func (f *front) stands(name string) bool {
	_, stands := apitest.Get[*corev1.Service](f.Server, "shop", name)
	return stands
}

// left makes a replica with an endpoint of a cluster.
func (f *front) left(t *testing.T, name, cluster string) {
	t.Helper()
	f.Create(t, &corev1.Service{ObjectMeta: object(name, cluster), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}})
	f.Create(t, &discoveryv1.EndpointSlice{
		ObjectMeta: object(name, cluster), AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:     []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	})
}

// inJSON is the request with a body that apitest understands.
func inJSON(r *http.Request) *http.Request {
	if r.Header.Get("Content-Type") != "application/vnd.kubernetes.protobuf" {
		return r
	}
	body, _ := io.ReadAll(r.Body)
	if obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		body, _ = json.Marshal(obj)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

// emptyMember is a member cluster in which there is nothing.
func emptyMember(t *testing.T) config.Access {
	lists := map[string]string{
		"/api/v1/services": "ServiceList", "/api/v1/pods": "PodList", "/api/v1/nodes": "NodeList", "/api/v1/endpoints": "EndpointsList",
		"/apis/discovery.k8s.io/v1/endpointslices": "EndpointSliceList",
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		version, _ := strings.CutPrefix(path[:strings.LastIndexByte(path, '/')], "/apis/")
		switch kind := lists[path]; {
		case path == "/version":
			answer(w, map[string]string{"major": "1", "minor": "33", "gitVersion": "v1.33.0"})
		case path == "/api/v1/namespaces/kube-system":
			answer(w, corev1.Namespace{
				TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid"},
			})
		case kind == "": // in the words of an API server: any other 404 is no answer
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			answer(w, metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound,
				Code: http.StatusNotFound, Details: &metav1.StatusDetails{Name: path[strings.LastIndexByte(path, '/')+1:]},
			})
		case r.URL.Query().Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			answer(w, map[string]any{
				"kind": kind, "apiVersion": strings.TrimPrefix(version, "/api/"), "metadata": map[string]string{"resourceVersion": "1"}, "items": []string{},
			})
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return config.Access{REST: &rest.Config{Host: s.URL}, Hash: s.URL}
}

// loadedWith is a configuration with an ingress cluster, from more lines of the file.
// No member can be reached.
func loadedWith(t *testing.T, ingress config.Access, lines string) *config.Loaded {
	t.Helper()
	c, err := config.Parse("f", []byte("apiVersion: tributary.dev/v1alpha1\nkind: Config\ningress: {kubeconfig: x}\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	loaded := &config.Loaded{Config: c, Ingress: ingress, Members: map[string]config.Access{}}
	for _, member := range c.Clusters {
		loaded.Members[member.Name] = config.Access{REST: &rest.Config{Host: "http://127.0.0.1:1"}, Hash: member.Name}
	}
	return loaded
}

// replicating runs an App until the test ends.
func replicating(t *testing.T, loaded *config.Loaded) *App {
	t.Helper()
	r := New(loaded, Options{Path: "f", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	runs(t, r)
	return r
}

// runs has an App run until the test ends.
func runs(t *testing.T, r *App) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.metrics.Flush()
	})
}

// edit applies another configuration, as the watcher of the files does.
func (r *App) edit(next *config.Loaded) {
	r.mu.Lock()
	former := r.loaded
	r.mu.Unlock()
	r.apply(config.Update{Loaded: next, Diff: config.Compare(former, next), Reloaded: true})
}

// until waits for something that happens in other goroutines and on connections.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	end := time.NewTimer(20 * time.Second)
	defer end.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-end.C:
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}
