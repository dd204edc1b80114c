// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

// OldFront is a proxy of a cluster's apiserver that answers as an old Kubernetes did: its version, its API groups,
// its fields, its ignorance of newer query parameters. Everything else is the real server's response, watches included.
// Users with tokens can use it; a client certificate ends at the front. It is safe for concurrent use.
type OldFront struct {
	cluster *Cluster
	era     era
	server  *http.Server
	backend *http.Transport
	url     string
	served  chan struct{}

	mu      sync.Mutex
	refused map[string]bool
}

// StartOldFront starts a front, which lives until Close, whatever happens to the server behind it. The version is "1.17"
// (no discovery.k8s.io/v1, no watch lists, fields unknown then are absent) or "1.20" (an ingress cluster without
// discovery.k8s.io/v1).
func StartOldFront(c *Cluster, version string) (*OldFront, error) {
	era, known := eras[version]
	if !known {
		return nil, fmt.Errorf("front of %s: version %q is not known here", c.options.Name, version)
	}
	f := &OldFront{
		cluster: c, era: era, served: make(chan struct{}), refused: map[string]bool{},
		backend: &http.Transport{TLSClientConfig: c.ca.clientTLS(), ForceAttemptHTTP2: true, DisableCompression: true},
	}
	if err := f.serve(); err != nil {
		return nil, fmt.Errorf("front of %s: %w", c.options.Name, err)
	}
	return f, nil
}

func (f *OldFront) serve() error {
	target, err := url.Parse(f.cluster.url)
	if err != nil {
		return err
	}
	certificate, err := f.cluster.ca.serverTLS("kube-apiserver")
	if err != nil {
		return err
	}
	listener, err := Listen()
	if err != nil {
		return err
	}
	f.url = "https://" + listener.Addr().String()
	silent := log.New(io.Discard, "", 0) // a client that went away is not reported
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target); f.editRequest(r) },
		Transport: f.backend, FlushInterval: -1, ErrorLog: silent,
		ModifyResponse: f.editResponse,
	}
	f.server = &http.Server{
		Handler: f.guard(proxy), ErrorLog: silent, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { // ends with Close
		defer close(f.served)
		if err := f.server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			f.note("the front itself: " + err.Error())
		}
	}()
	return nil
}

// URL is the address of the front.
func (f *OldFront) URL() string { return f.url }

// Kubeconfig returns a kubeconfig for the front of a user with a token.
func (f *OldFront) Kubeconfig(u User) ([]byte, error) {
	if u.Token == "" {
		return nil, fmt.Errorf("front of %s: user %s has no token", f.cluster.options.Name, u.Name)
	}
	return Kubeconfig(f.cluster.options.Name, f.url, f.cluster.ca.certPEM, u)
}

// Refused lists what was requested and does not exist in that version: paths, and query parameters with a "?".
func (f *OldFront) Refused() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for what := range f.refused {
		list = append(list, what)
	}
	slices.Sort(list)
	return list
}

func (f *OldFront) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused[what] = true
}

// Close cuts all connections. A second call does nothing.
func (f *OldFront) Close() {
	_ = f.server.Close()
	<-f.served
	f.backend.CloseIdleConnections()
}

// guard answers what the old server would answer without looking at any object.
func (f *OldFront) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.serves(r.URL.Path) {
			f.note(r.URL.Path)
			http.Error(w, "404 page not found", http.StatusNotFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (f *OldFront) serves(path string) bool {
	for _, prefix := range laterPaths {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return false
		}
	}
	group, rest, _ := strings.Cut(strings.TrimPrefix(path, "/apis/"), "/")
	if !strings.HasPrefix(path, "/apis/") || group == "" {
		return true
	}
	versions, known := f.era.apis[group]
	version, _, _ := strings.Cut(rest, "/")
	return known && (version == "" || slices.Contains(versions, version))
}

// editRequest removes from a request what the old server would have ignored.
func (f *OldFront) editRequest(r *httputil.ProxyRequest) {
	query := r.Out.URL.Query()
	for _, name := range f.era.laterParameters {
		if query.Has(name) {
			f.note("?" + name)
			query.Del(name)
		}
	}
	r.Out.URL.RawQuery = query.Encode()
	r.Out.Header.Del("Accept-Encoding")
	var accepted []string
	for clause := range strings.SplitSeq(strings.Join(r.In.Header.Values("Accept"), ","), ",") {
		if !strings.Contains(clause, "cbor") && !strings.Contains(clause, "g=apidiscovery.k8s.io") {
			accepted = append(accepted, clause)
		}
	}
	if isDiscovery(r.In.URL.Path) {
		accepted = []string{"application/json"}
	}
	r.Out.Header.Del("Accept")
	if len(accepted) > 0 {
		r.Out.Header.Set("Accept", strings.Join(accepted, ","))
	}
}

// isDiscovery reports whether a path is a list of groups, which editResponse filters.
func isDiscovery(path string) bool {
	group, isGroup := strings.CutPrefix(path, "/apis/")
	return path == "/api" || path == "/apis" || isGroup && !strings.Contains(strings.TrimSuffix(group, "/"), "/")
}

func (f *OldFront) editResponse(resp *http.Response) error {
	for _, name := range f.era.laterHeaders {
		resp.Header.Del(name)
	}
	path := resp.Request.URL.Path
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return nil
	}
	switch {
	case path == "/version":
		return editJSON(resp, func(v *version.Info) {
			*v = version.Info{
				Major: f.era.major, Minor: f.era.minor, GitVersion: f.era.gitVersion,
				GitTreeState: "clean", GoVersion: v.GoVersion, Compiler: v.Compiler, Platform: v.Platform,
			}
		})
	case path == "/apis" || path == "/apis/":
		return editJSON(resp, func(list *metav1.APIGroupList) {
			list.Groups = slices.DeleteFunc(list.Groups, func(g metav1.APIGroup) bool { return f.era.apis[g.Name] == nil })
			for i := range list.Groups {
				f.editGroup(&list.Groups[i])
			}
		})
	case path != "/api" && isDiscovery(path):
		return editJSON(resp, f.editGroup)
	}
	return editAnswer(resp, f.era.forget)
}

func (f *OldFront) editGroup(g *metav1.APIGroup) {
	known := func(v metav1.GroupVersionForDiscovery) bool { return slices.Contains(f.era.apis[g.Name], v.Version) }
	g.Versions = slices.DeleteFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return !known(v) })
	if !known(g.PreferredVersion) && len(g.Versions) > 0 {
		g.PreferredVersion = g.Versions[0]
	}
}

// editJSON edits the body of a response.
func editJSON[T any](resp *http.Response, edit func(*T)) error {
	var value T
	err := json.NewDecoder(resp.Body).Decode(&value)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	edit(&value)
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	SetBody(resp, text)
	return nil
}
