// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/internal/memnet"
)

// apiServer is as much of an API server as a connection needs, over TLS and HTTP/2
// through memory. hook may answer anything itself.
type apiServer struct {
	server   *httptest.Server
	listener *memnet.Listener

	mu      sync.Mutex
	version string
	uid     string
	hook    func(w http.ResponseWriter, r *http.Request) (handled bool)
}

func newAPIServer(uid string) *apiServer {
	f := &apiServer{listener: memnet.New(), version: "v1.36.3", uid: uid}
	f.server = httptest.NewUnstartedServer(f)
	f.server.Listener.Close()
	f.server.Listener = f.listener
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.server.StartTLS()
	return f
}

func (f *apiServer) close() {
	f.listener.Thaw()
	f.server.CloseClientConnections()
	f.server.Close()
}

func (f *apiServer) setHook(hook func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *apiServer) config(token string) *rest.Config {
	return &rest.Config{
		Host: "https://example.com", BearerToken: token, Dial: f.listener.Dial,
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
		TLSClientConfig: rest.TLSClientConfig{
			CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw}),
		},
	}
}

// ServeHTTP implements http.Handler.
func (f *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	hook, version, uid := f.hook, f.version, f.uid
	f.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/version":
		_ = json.NewEncoder(w).Encode(map[string]string{"major": "1", "minor": strings.Split(version, ".")[1] + "+", "gitVersion": version})
	case r.URL.Path == "/api/v1/namespaces/kube-system":
		_ = json.NewEncoder(w).Encode(&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(uid)},
		})
	case isWatch(r):
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"100"},"items":[]}`)
	}
}

// fail answers with an error of the API.
func fail(w http.ResponseWriter, code int) {
	reasons := map[int]metav1.StatusReason{
		401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound,
		410: metav1.StatusReasonExpired, 429: metav1.StatusReasonTooManyRequests, 500: metav1.StatusReasonInternalError,
	}
	message := "scripted"
	if code == http.StatusForbidden { // as an authorizer says it
		message = `User "tributary" cannot do that`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(&metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reasons[code], Code: int32(code), Message: message,
	})
}

// serving runs a script beside an API server in virtual time.
func serving(t *testing.T, script func(t *testing.T, f *apiServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newAPIServer("uid-a")
		defer f.close()
		script(t, f)
	})
}
