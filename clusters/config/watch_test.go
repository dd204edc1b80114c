// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a file system that a Watcher reads.
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

const file = "/t/tributary.yaml"

const two = `
ingress: {kubeconfig: in}
clusters:
- {name: a, kubeconfig: a}
- {name: b, kubeconfig: /k/b}
`

// start opens a Watcher on files in memory.
func start(t *testing.T, text string) (*Watcher, *memory) {
	t.Helper()
	m := &memory{files: map[string]string{file: text, "/t/in": reach("in", "i"), "/t/a": reach("a", "1"), "/k/b": reach("b", "1")}}
	w, err := open(file, m.read)
	if err != nil {
		t.Fatal(err)
	}
	return w, m
}

// next polls until there is news: the second look must bring it.
func next(t *testing.T, w *Watcher) *Loaded {
	t.Helper()
	if w.poll() {
		t.Fatal("news at first sight, before it settled")
	}
	if !w.poll() {
		t.Fatal("no news at the second look")
	}
	quiet(t, w)
	return w.Loaded()
}

func quiet(t *testing.T, w *Watcher) {
	t.Helper()
	for range 3 {
		if w.poll() {
			t.Fatalf("news without a change: %v", w.Loaded().Err())
		}
	}
}

func wantErr(t *testing.T, err error, want ...string) {
	t.Helper()
	for _, text := range want {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v lacks %q", err, text)
		}
	}
	if err != nil && len(want) == 0 {
		t.Error(err)
	}
}

func TestAStart(t *testing.T) {
	w, _ := start(t, two)
	l := w.Loaded()
	wantErr(t, l.Err())
	if l.Ingress.REST.Host != "https://in" || l.Ingress.File != "/t/in" || l.Members["b"].REST.BearerToken != "1" || l.Members["a"].Hash == "" || l.Members["a"].Context != "x" {
		t.Errorf("%+v %+v", l.Ingress, l.Members)
	}
	quiet(t, w)
	if _, err := open("/t/none", (&memory{}).read); err == nil || err.Error() != "/t/none: does not exist; --config names the configuration file" {
		t.Error(err)
	}
}

func TestARotatedCredential(t *testing.T) {
	w, m := start(t, two)
	before := w.Loaded()
	m.write("/t/a", "\n"+reach("a", "1"))
	if next(t, w).Members["a"].Hash != before.Members["a"].Hash {
		t.Error("another text with the same meaning is another credential")
	}
	m.write("/t/a", reach("a", "2"))
	l := next(t, w)
	if l.Members["a"].REST.BearerToken != "2" || l.Members["a"].Hash == before.Members["a"].Hash || l.Members["b"].Hash != before.Members["b"].Hash {
		t.Errorf("%+v", l.Members)
	}
}

// TestARefusedKubeconfig: its cluster continues with the former one until it is mended.
func TestARefusedKubeconfig(t *testing.T) {
	w, m := start(t, two)
	was := w.Loaded().Members["a"].Hash
	m.write("/t/a", reach("a", "2")[:150])
	l := next(t, w)
	if l.Members["a"].Hash != was || l.Members["a"].REST == nil {
		t.Error("the former way is dropped")
	}
	wantErr(t, l.Err(), "/t/a: line 1: this is no kubeconfig")
	m.write("/t/a", reach("a", "2"))
	if l = next(t, w); l.Members["a"].Hash == was || l.Err() != nil {
		t.Error(l.Err())
	}
	m.mu.Lock()
	delete(m.files, "/t/a")
	m.mu.Unlock()
	l = next(t, w)
	wantErr(t, l.Members["a"].Err, `/t/tributary.yaml: clusters[0].kubeconfig: Not found: "/t/a": does not exist`)
	if l.Members["a"].REST == nil || l.Members["b"].Err != nil {
		t.Error("what is wrong with one file is not that cluster's alone")
	}
}

// TestFilesThatAKubeconfigNames: another certificate authority is another way.
func TestFilesThatAKubeconfigNames(t *testing.T) {
	w, m := start(t, two)
	m.write("/t/ca.pem", "x")
	m.write("/t/a", strings.Replace(reach("a", "1"), `"server"`, `"certificate-authority": "ca.pem", "server"`, 1))
	wantErr(t, next(t, w).Members["a"].Err, "/t/a: contexts[x]: Invalid value")
	m.write("/t/ca.pem", "y")
	next(t, w) // it is followed, though it was refused
	m.write("/t/a", reach("a", "1"))
	next(t, w)
	m.write("/t/ca.pem", "z")
	quiet(t, w)
}

// TestATokenFileThatComesLater: the member is reached once its token is there.
func TestATokenFileThatComesLater(t *testing.T) {
	w, m := start(t, two)
	token := filepath.Join(t.TempDir(), "token")
	m.write("/t/a", strings.Replace(reach("a", token), `"token"`, `"tokenFile"`, 1))
	wantErr(t, next(t, w).Members["a"].Err, `users[x].user.tokenFile: Not found: "`+token+`": does not exist`)
	if err := os.WriteFile(token, []byte("1"), 0o600); err != nil { // which client-go reads
		t.Fatal(err)
	}
	m.write(token, "1")
	if a := next(t, w).Members["a"]; a.Err != nil || a.REST.BearerTokenFile != token {
		t.Error(a.Err)
	}
}

func TestAnEdit(t *testing.T) {
	w, m := start(t, two)
	was := w.Loaded()
	m.write("/k/c", reach("c", "1"))
	m.write(file, "ingress: {kubeconfig: in}\nclusters:\n- {name: c, kubeconfig: /k/c}\n- {name: b, kubeconfig: /k/b, drain: true}\nrules: [{name: r, when: \"true\", then: Absent}]")
	l := next(t, w)
	if len(l.Members) != 2 || l.Members["c"].REST == nil || l.Members["b"].Hash != was.Members["b"].Hash {
		t.Errorf("%+v", l.Members)
	}
	if l.Config.Clusters[1].Settings() == was.Config.Clusters[1].Settings() || l.Rules.For("b").Empty() || !was.Rules.For("b").Empty() {
		t.Error("the edit is not seen")
	}
	m.write(file, "clusters: [{}]")
	refused := next(t, w)
	wantErr(t, refused.Err(), "/t/tributary.yaml: clusters[0].name: Required value", "clusters[0].kubeconfig: Required value")
	if len(refused.Members) != 2 || refused.Config.Clusters[0].Name != "c" {
		t.Error("a refused file counts")
	}
	m.write("/k/c", reach("c", "2"))
	if l = next(t, w); l.Refused != refused.Refused || l.Config != refused.Config || l.Members["c"].REST.BearerToken != "2" {
		t.Error("a credential waits for the file to be mended, or brings more news than itself")
	}
	m.write(file, two)
	wantErr(t, next(t, w).Err())
}

func TestWhatNeedsARestart(t *testing.T) {
	w, m := start(t, two)
	m.write(file, strings.Replace(two, "in}", "in, identity: u}", 1)+"listen: :1\nmetricsListen: :2\ninstance: other\nnamespace: else\nleaderElection: {enabled: false}\nreplicas: {orphans: delete}")
	l := next(t, w)
	if got := strings.Join(l.Restart, " "); got != "listen metricsListen instance namespace ingress.identity leaderElection" {
		t.Errorf("restart for %q", got)
	}
	if c := l.Config; c.Listen != "127.0.0.1:9440" || c.Instance != "default" || c.Namespace != "tributary-system" || !c.LeaderElection.Enabled || c.Replicas.Orphans != "delete" {
		t.Errorf("%+v", c)
	}
	m.write(file, two)
	if l = next(t, w); l.Restart != nil {
		t.Errorf("restart for %v", l.Restart)
	}
}

func TestSecretsAreMembers(t *testing.T) {
	w, m := start(t, two+"clustersFrom: {secrets: {}}\nclusterDefaults: {stableFor: 5s}")
	if !w.Loaded().SecretsUnread {
		t.Error("no list was offered, and it is not said")
	}
	s := func(name, settings, kubeconfig string) Secret {
		return Secret{Namespace: "own", Name: name, Settings: settings, Kubeconfig: []byte(kubeconfig)}
	}
	l := w.Use([]Secret{s("d", "namespaces: {include: [shop]}\ncontext: \"y\"", reach("d", "1")), s("c", "", reach("c", "1")), s("a", "", ""), s("c.d", "", "")})
	names := func() (out []string) {
		for _, c := range w.Loaded().Config.Clusters {
			out = append(out, c.Name)
		}
		return out
	}
	if got := fmt.Sprint(names()); got != "[a b c d]" || l.SecretsUnread {
		t.Errorf("members are %s", got)
	}
	if d := l.Config.Clusters[3]; d.Namespaces.Include[0] != "shop" || d.StableFor != "5s" || l.Members["d"].REST.BearerToken != "fixed" || l.Members["d"].Secret != "own/d" || l.Members["a"].File == "" {
		t.Errorf("%+v %+v", d, l.Members)
	}
	wantErr(t, l.Err(), `Secret own/a: metadata.name: Duplicate value: "a": the configuration file has a member of that name`, `Secret own/c.d: metadata.name: Invalid value`)

	l = w.Use([]Secret{s("d", "drain: maybe\nname: x", reach("d2", "2")), s("e", "xyzzy: 1", reach("e", "1")), s("f", "", strings.Replace(reach("f", "1"), "token", "tokenFile", 1)), s("k", "", "")})
	wantErr(t, l.Err(), `Secret own/d, annotation tributary.dev/settings: drain: Invalid value: must be a bool, not string`,
		`Secret own/e, annotation tributary.dev/settings: xyzzy: Forbidden: unknown field`, `Secret own/f: users[x].user.tokenFile: Forbidden`, `Secret own/k: data.kubeconfig: Required value: store the kubeconfig under this key`)
	if got := fmt.Sprint(names()); got != "[a b d e f k]" {
		t.Errorf("members are %s", got)
	}
	if d := l.Config.Clusters[2]; d.Namespaces.Include[0] != "shop" || l.Members["d"].REST.Host != "https://d2" {
		t.Error("one with refused settings does not continue with the former ones, and with a new credential")
	}
	if l.Members["e"].REST != nil || l.Members["f"].REST != nil {
		t.Error("one whose settings were never accepted is followed")
	}
	m.write(file, two)
	if next(t, w); len(names()) != 2 {
		t.Errorf("members are %v", names())
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := start(t, two+"clustersFrom: {secrets: {}}")
		ctx, cancel := context.WithCancel(t.Context())
		var seen []string
		var done sync.WaitGroup
		began := time.Now()
		done.Go(func() {
			w.Run(ctx, func(l *Loaded) {
				seen = append(seen, fmt.Sprintf("%v %v %s", time.Since(began), l.SecretsUnread, l.Members["a"].REST.BearerToken))
			})
		})
		time.Sleep(1500 * time.Millisecond)
		m.write("/t/a", reach("a", "2"))
		time.Sleep(2 * time.Second)
		w.Offer(nil)
		time.Sleep(10 * time.Second)
		cancel()
		done.Wait()
		if got := strings.Join(seen, ", "); got != "3s true 2, 3.5s false 2" {
			t.Errorf("seen: %s", got)
		}
	})
}
