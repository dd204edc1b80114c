// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"tributary.dev/tributary/clusters/kubeconfig"
)

// memory is a directory of files that a Watcher reads.
type memory struct {
	mu    sync.Mutex
	files map[string]string
}

func (m *memory) read(path string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.files[path]
	if !ok {
		return nil, errors.New("does not exist")
	}
	return []byte(text), nil
}

func (m *memory) write(path, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[path] = text
}

// reach is a kubeconfig with one token.
func reach(server, token string) string {
	return fmt.Sprintf(`{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}, {"name": "y", "context": {"cluster": "x", "user": "y"}}],
"clusters": [{"name": "x", "cluster": {"server": "https://%s"}}], "users": [{"name": "x", "user": {"token": "%s"}}, {"name": "y", "user": {"token": "fixed"}}]}`, server, token)
}

const two = header + `
ingress: {kubeconfig: in}
clusters:
- {name: a, kubeconfig: a}
- {name: b, kubeconfig: /k/b}
`

// start opens a Watcher on files in memory: /t/tributary.yaml and what it names.
func start(t *testing.T) (*Watcher, *memory) {
	t.Helper()
	m := &memory{files: map[string]string{
		"/t/tributary.yaml": two, "/t/in": reach("in", "i"), "/t/a": reach("a", "1"), "/k/b": reach("b", "1"),
	}}
	w, err := open(&Watcher{path: "/t/tributary.yaml", interval: DefaultInterval, read: m.read, local: inCluster})
	if err != nil {
		t.Fatal(err)
	}
	if faults := w.Loaded().Faults(); faults != nil {
		t.Fatal(faults)
	}
	return w, m
}

func inCluster(_, _ string, _ func(string) ([]byte, error)) (*kubeconfig.Accepted, error) {
	return &kubeconfig.Accepted{REST: &rest.Config{Host: "local", QPS: -1}, Hash: "local"}, nil
}

// next polls until there is news; the second look must bring it.
func next(t *testing.T, w *Watcher) Update {
	t.Helper()
	if u, news := w.poll(); news {
		t.Fatalf("news at first sight, before it settled: %+v", u.Diff)
	}
	u, news := w.poll()
	if !news {
		t.Fatal("no news at the second look")
	}
	quiet(t, w)
	if u.Loaded != w.Loaded() {
		t.Error("Update.Loaded is not what counts")
	}
	return u
}

func quiet(t *testing.T, w *Watcher) {
	t.Helper()
	for range 3 {
		if u, news := w.poll(); news {
			t.Fatalf("news without a change: %+v %v", u.Diff, u.Err)
		}
	}
}

func wantDiff(t *testing.T, u Update, want Diff) {
	t.Helper()
	if !reflect.DeepEqual(u.Diff, want) {
		t.Errorf("got  %+v\nwant %+v", u.Diff, want)
	}
}

func TestWatcherIsQuietWithoutChange(t *testing.T) {
	w, m := start(t)
	quiet(t, w)
	m.write("/t/a", "\n# touched\n"+reach("a", "1"))
	wantDiff(t, next(t, w), Diff{}) // another text, the same meaning
}

func TestCredentialRotated(t *testing.T) {
	w, m := start(t)
	m.write("/t/a", reach("a", "2"))
	u := next(t, w)
	wantDiff(t, u, Diff{Reconnect: []string{"a"}})
	if got := u.Loaded.Members["a"].REST.BearerToken; got != "2" || u.Reloaded {
		t.Errorf("token %q, reloaded %v", got, u.Reloaded)
	}
	m.write("/t/in", reach("elsewhere", "i"))
	wantDiff(t, next(t, w), Diff{Ingress: true})
}

// A file that a kubeconfig names is followed like the kubeconfig, of members and of the
// ingress cluster; one that goes, or makes no sense with the others, takes nothing away.
func TestNamedFileRotated(t *testing.T) {
	w, m := start(t)
	withFile := func(server string) string {
		return strings.Replace(reach(server, "unused"), `{"token": "unused"}`, `{"tokenFile": "tok"}`, 1)
	}
	m.write("/k/tok", "1")
	m.write("/t/tok", "i")
	m.write("/k/b", withFile("b"))
	m.write("/t/in", withFile("in"))
	m.write("/t/tributary.yaml", header+`
ingress: {kubeconfig: in, allowInKubeconfig: [files]}
clusters:
- {name: a, kubeconfig: a}
- {name: b, kubeconfig: /k/b, allowInKubeconfig: [files]}
`)
	next(t, w)
	m.write("/k/tok", "2\n")
	u := next(t, w)
	wantDiff(t, u, Diff{Reconnect: []string{"b"}})
	if got := u.Loaded.Members["b"].REST.BearerToken; got != "2" {
		t.Errorf("token %q", got)
	}
	m.write("/t/tok", "j")
	wantDiff(t, next(t, w), Diff{Ingress: true})
	m.write("/k/tok", "")
	u = next(t, w)
	if now := u.Loaded.Members["b"]; now.Err == nil || now.REST.BearerToken != "2" {
		t.Errorf("a file that was cut off: %v with %v", now.REST, now.Err)
	}
	m.write("/k/tok", "3")
	u = next(t, w)
	if now := u.Loaded.Members["b"]; now.Err != nil || now.REST.BearerToken != "3" {
		t.Errorf("mended: %v with %v", now.REST, now.Err)
	}
	m.write("/k/b", reach("b", "4"))
	next(t, w)
	if len(w.files) != 1 {
		t.Errorf("%d files are followed that nothing names", len(w.files)-1)
	}
}

// A renewed certificate is served; one that does not fit its key leaves the former in use.
func TestCertificateRenewed(t *testing.T) {
	w, m := start(t)
	pair := func(name string) (cert, key string) {
		c, k, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(c), string(k)
	}
	m.write("/t/tributary.yaml", two+"metricsListen: ':1'\nmetricsTLS: {certFile: tls.crt, keyFile: /t/tls.key}\n")
	u := next(t, w)
	if u.Loaded.Metrics.TLS != nil || u.Loaded.Metrics.Err == nil || len(u.Loaded.Faults()) != 1 {
		t.Errorf("without files: %+v", u.Loaded.Metrics)
	}
	cert, key := pair("first")
	m.write("/t/tls.crt", cert)
	m.write("/t/tls.key", key)
	u = next(t, w)
	wantDiff(t, u, Diff{Listen: true})
	first := u.Loaded.Metrics.TLS
	if first == nil || u.Loaded.Faults() != nil {
		t.Fatalf("with both: %v", u.Loaded.Metrics.Err)
	}
	cert, key = pair("second")
	m.write("/t/tls.crt", cert)
	u = next(t, w)
	wantDiff(t, u, Diff{})
	if u.Loaded.Metrics.TLS != first || u.Loaded.Metrics.Err == nil || strings.Contains(u.Loaded.Metrics.Err.Error(), "PRIVATE") {
		t.Errorf("half renewed: %v", u.Loaded.Metrics.Err)
	}
	m.write("/t/tls.key", key)
	u = next(t, w)
	wantDiff(t, u, Diff{Listen: true})
	if u.Loaded.Metrics.TLS == first || u.Loaded.Metrics.Err != nil {
		t.Errorf("renewed: %v", u.Loaded.Metrics.Err)
	}
}

func TestHalfWrittenKubeconfigIsNotTaken(t *testing.T) {
	w, m := start(t)
	whole := reach("a", "2")
	for n := 0; n < len(whole); n += 7 {
		m.write("/t/a", whole[:n])
		if u, news := w.poll(); news {
			t.Fatalf("taken at %d bytes: %+v", n, u.Diff)
		}
	}
	m.write("/t/a", whole)
	wantDiff(t, next(t, w), Diff{Reconnect: []string{"a"}})
}

// TestBrokenKubeconfigConcernsItsClusterAlone: what was accepted before stays in
// use, others may change meanwhile, and the same content again is no change.
func TestBrokenKubeconfigConcernsItsClusterAlone(t *testing.T) {
	w, m := start(t)
	before := w.Loaded().Members["a"]
	for _, broken := range []string{reach("a", "2")[:90], "", strings.Replace(reach("a", "s3cr3t"), `"token"`, `"exec": {"command": "sh"}, "token"`, 1)} {
		m.write("/t/a", broken)
		u := next(t, w)
		wantDiff(t, u, Diff{Refused: []string{"a"}})
		now := u.Loaded.Members["a"]
		if now.Err == nil || now.REST != before.REST || now.Hash != before.Hash || u.Err != nil {
			t.Errorf("kept %v for %v, file %v", now.REST, now.Err, u.Err)
		}
		if faults := u.Loaded.Faults(); len(faults) != 1 || strings.Contains(faults.Error(), "s3cr3t") {
			t.Errorf("faults %v", faults)
		}
	}
	m.write("/k/b", reach("b", "2"))
	wantDiff(t, next(t, w), Diff{Reconnect: []string{"b"}})
	m.write("/t/a", reach("a", "1"))
	u := next(t, w)
	wantDiff(t, u, Diff{})
	if u.Loaded.Faults() != nil {
		t.Errorf("mended, yet %v", u.Loaded.Faults())
	}
}

func TestMissingKubeconfig(t *testing.T) {
	w, m := start(t)
	m.mu.Lock()
	delete(m.files, "/t/a")
	m.mu.Unlock()
	u := next(t, w)
	wantDiff(t, u, Diff{Refused: []string{"a"}})
	want := "/t/tributary.yaml:6:13: clusters[0].kubeconfig: /t/a does not exist"
	if got := u.Loaded.Members["a"].Err; got == nil || got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestInvalidEditIsReportedOnceAndNotUsed(t *testing.T) {
	w, m := start(t)
	running := w.Loaded().Config
	m.write("/t/tributary.yaml", two+"colour: red\n")
	u := next(t, w)
	wantDiff(t, u, Diff{})
	if u.Err == nil || !u.Reloaded || !strings.Contains(u.Err.Error(), "colour: unknown field") {
		t.Errorf("reloaded %v, err %v", u.Reloaded, u.Err)
	}
	if !reflect.DeepEqual(u.Loaded.Config, running) {
		t.Error("an invalid edit changed the running configuration")
	}
	m.write("/t/a", reach("a", "2")) // a credential may rotate meanwhile
	u = next(t, w)
	wantDiff(t, u, Diff{Reconnect: []string{"a"}})
	if u.Err == nil || u.Reloaded {
		t.Errorf("reloaded %v, err %v", u.Reloaded, u.Err)
	}
	m.write("/t/tributary.yaml", two+"color: red\n") // wrong in another way
	if u = next(t, w); u.Err == nil || !u.Reloaded || !strings.Contains(u.Err.Error(), "color:") {
		t.Errorf("reloaded %v, err %v", u.Reloaded, u.Err)
	}
	m.write("/t/tributary.yaml", two)
	u = next(t, w)
	wantDiff(t, u, Diff{})
	if u.Err != nil || !u.Reloaded {
		t.Errorf("mended: reloaded %v, err %v", u.Reloaded, u.Err)
	}
}

func TestConfigurationFileVanishes(t *testing.T) {
	w, m := start(t)
	m.mu.Lock()
	delete(m.files, "/t/tributary.yaml")
	m.mu.Unlock()
	u := next(t, w)
	wantDiff(t, u, Diff{})
	if u.Err == nil || u.Err.Error() != "/t/tributary.yaml: does not exist; give the path of the configuration file" {
		t.Errorf("err %v", u.Err)
	}
}

func TestEdits(t *testing.T) {
	tests := []struct {
		name     string
		old, new string
		want     Diff
	}{
		{"member added with its kubeconfig", "clusters:\n", "clusters:\n- {name: c, kubeconfig: c}\n", Diff{Added: []string{"c"}}},
		{"member added without its kubeconfig", "clusters:\n", "clusters:\n- {name: c, kubeconfig: none}\n", Diff{Added: []string{"c"}, Refused: []string{"c"}}},
		{"member removed", "- {name: a, kubeconfig: a}\n", "", Diff{Removed: []string{"a"}}},
		{"member renamed", "name: a,", "name: z,", Diff{Added: []string{"z"}, Removed: []string{"a"}}},
		{"members in another order", "- {name: a, kubeconfig: a}\n- {name: b, kubeconfig: /k/b}\n", "- {name: b, kubeconfig: /k/b}\n- {name: a, kubeconfig: a}\n", Diff{Policy: true}},
		{"context", "kubeconfig: a}", "kubeconfig: a, context: y}", Diff{Reconnect: []string{"a"}}},
		{"context named that was current", "kubeconfig: a}", "kubeconfig: a, context: x}", Diff{}},
		{"unknown context", "kubeconfig: a}", "kubeconfig: a, context: z}", Diff{Refused: []string{"a"}}},
		{"limit", "kubeconfig: a}", "kubeconfig: a, client: {qps: 5}}", Diff{Reconnect: []string{"a"}}},
		{"kubeconfig elsewhere", "kubeconfig: a}", "kubeconfig: c}", Diff{Reconnect: []string{"a"}}},
		{"rules", "kubeconfig: a}", "kubeconfig: a, namespaces: {exclude: []}}", Diff{Changed: []string{"a"}}},
		{"rules and credential", "kubeconfig: a}", "kubeconfig: c, serviceSelector: app}", Diff{Changed: []string{"a"}, Reconnect: []string{"a"}}},
		{"feature allowed", "kubeconfig: a}", "kubeconfig: a, allowInKubeconfig: [exec]}", Diff{}},
		{"kinds", "ingress:", "replicas: {write: [Endpoints]}\ningress:", Diff{Replicas: true}},
		{"listen", "ingress:", "listen: ':1'\ningress:", Diff{Listen: true}},
		{"metricsListen", "ingress:", "metricsListen: ':1'\ningress:", Diff{Listen: true}},
		{"ingress", "ingress: {kubeconfig: in}", "ingress: {kubeconfig: a}", Diff{Ingress: true}},
		{"ingress in the cluster", "ingress: {kubeconfig: in}\n", "", Diff{Ingress: true}},
		{"ingress refused", "ingress: {kubeconfig: in}", "ingress: {kubeconfig: none}", Diff{IngressRefused: true}},
		{"no members left", "clusters:\n- {name: a, kubeconfig: a}\n- {name: b, kubeconfig: /k/b}\n", "clusters: []", Diff{Removed: []string{"a", "b"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, m := start(t)
			m.write("/t/c", reach("c", "1"))
			edited := strings.Replace(two, test.old, test.new, 1)
			if edited == two {
				t.Fatal("the edit changes nothing")
			}
			m.write("/t/tributary.yaml", edited)
			u := next(t, w)
			wantDiff(t, u, test.want)
			if u.Err != nil || !u.Reloaded {
				t.Errorf("reloaded %v, err %v", u.Reloaded, u.Err)
			}
			m.write("/t/tributary.yaml", two)
			next(t, w)
			if w.Loaded().Faults() != nil || len(w.kubeconfigs) != 3 {
				t.Errorf("after going back: %v, %d kubeconfigs followed", w.Loaded().Faults(), len(w.kubeconfigs))
			}
		})
	}
}

// TestNewKubeconfigThatKeepsChanging does not hold the edit up that names it.
func TestNewKubeconfigThatKeepsChanging(t *testing.T) {
	w, m := start(t)
	m.write("/t/tributary.yaml", two+"- {name: c, kubeconfig: c}\nlisten: ':1'\n")
	m.write("/t/c", reach("c", "1"))
	w.poll()
	m.write("/t/c", reach("c", "2"))
	u, news := w.poll()
	if !news {
		t.Fatal("no news")
	}
	wantDiff(t, u, Diff{Added: []string{"c"}, Refused: []string{"c"}, Listen: true})
	if err := u.Loaded.Members["c"].Err; err == nil || !strings.Contains(err.Error(), "is still being written") {
		t.Errorf("err %v", err)
	}
	u, news = w.poll()
	if !news || u.Loaded.Members["c"].Err != nil {
		t.Fatalf("news %v, %v", news, u.Loaded.Members["c"].Err)
	}
	wantDiff(t, u, Diff{Reconnect: []string{"c"}})
}
