// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"tributary.dev/tributary/clusters/kubeconfig"
)

const shared = two + `
clusterDefaults: {staleAfter: 30m, guard: {percent: 20}, namespaces: {exclude: [test]}}
clustersFrom: {secrets: {namespace: members}}
`

func member(name string, annotations ...string) Secret {
	s := Secret{Namespace: "members", Name: name, Annotations: map[string]string{"kubectl.kubernetes.io/x": "y"}, Kubeconfig: []byte(reach(name, "1"))}
	for i := 0; i < len(annotations); i += 2 {
		s.Annotations["tributary.dev/"+annotations[i]] = annotations[i+1]
	}
	return s
}

// withSecrets opens a Watcher on a file that takes members from Secrets.
func withSecrets(t *testing.T, text string) (*Watcher, *memory) {
	t.Helper()
	w, m := start(t)
	m.write("/t/tributary.yaml", text)
	next(t, w)
	return w, m
}

func names(l *Loaded) (all []string) {
	for _, c := range l.Config.Clusters {
		all = append(all, c.Name)
	}
	return all
}

// TestClusterDefaults: what a member says overrides what all share, and a wrong default is said once.
func TestClusterDefaults(t *testing.T) {
	c := mustParse(t, header+`clusters:
- {name: a, kubeconfig: a}
- {name: b, kubeconfig: b, staleAfter: 1h, guard: {minEndpoints: 3}, namespaces: {exclude: []}}
clusterDefaults: {staleAfter: 30m, guard: {percent: 20}, namespaces: {exclude: [test]}}
`)
	a, b := c.Clusters[0], c.Clusters[1]
	if a.StaleAfter != "30m" || a.Guard.Percent != 20 || a.Guard.MinEndpoints != 10 || !slices.Equal(a.Namespaces.Exclude, []string{"test"}) {
		t.Errorf("a has %+v", a)
	}
	if b.StaleAfter != "1h" || b.Guard.Percent != 20 || b.Guard.MinEndpoints != 3 || len(b.Namespaces.Exclude) > 0 || !slices.Equal(b.Namespaces.Include, []string{"*"}) {
		t.Errorf("b has %+v", b)
	}
	_, err := Parse("f", []byte(header+"clusters: [{name: a, kubeconfig: a}, {name: b, kubeconfig: b}]\nclusterDefaults: {name: x, maxObjects: -1}\n"))
	if got := fmt.Sprint(err); strings.Count(got, "maxObjects") != 1 || !strings.Contains(got, "clusterDefaults.name") {
		t.Error(got)
	}
}

// TestMembersFromSecrets: they come, change and go as those of the file do.
func TestMembersFromSecrets(t *testing.T) {
	w, _ := withSecrets(t, shared)
	if got := names(w.Loaded()); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatal(got)
	}
	offer := func(secrets ...Secret) Update {
		t.Helper()
		w.Offer(secrets)
		u, _ := w.poll()
		quiet(t, w)
		return u
	}
	u := offer(member("d"), member("c", "staleAfter", "1h", "serviceSelector", "!canary", "namespaces", "{include: [web]}", "drain", "true"))
	wantDiff(t, u, Diff{Added: []string{"c", "d"}})
	c, d := u.Loaded.Config.Clusters[2], u.Loaded.Config.Clusters[3]
	if c.StaleAfter != "1h" || c.ServiceSelector != "!canary" || !slices.Equal(c.Namespaces.Include, []string{"web"}) || !slices.Equal(c.Namespaces.Exclude, []string{"test"}) || !c.Drain {
		t.Errorf("c has %+v", c)
	}
	if d.StaleAfter != "30m" || u.Loaded.Members["d"].REST.Host != "https://d" || d.meaning == nil {
		t.Errorf("d has %+v", d)
	}
	rotated := member("d")
	rotated.Kubeconfig = []byte(reach("d", "2"))
	wantDiff(t, offer(rotated, member("c")), Diff{Reconnect: []string{"d"}, Changed: []string{"c"}, Policy: true})
	broken := member("d")
	broken.Kubeconfig = []byte("{")
	u = offer(broken, member("c"))
	wantDiff(t, u, Diff{Refused: []string{"d"}})
	if u.Loaded.Members["d"].REST == nil || !strings.Contains(fmt.Sprint(u.Loaded.Members["d"].Err), "Secret members/d") {
		t.Errorf("%v, and it lost its connection: %v", u.Loaded.Members["d"].Err, u.Loaded.Members["d"].REST == nil)
	}
	wantDiff(t, offer(member("c")), Diff{Removed: []string{"d"}})
	wantDiff(t, offer(), Diff{Removed: []string{"c"}})
}

// TestSecretsMayNotSayEverything: whoever writes a Secret gains no more than its member.
func TestSecretsMayNotSayEverything(t *testing.T) {
	run := member("d")
	run.Kubeconfig = []byte(strings.Replace(reach("d", "1"), `"token": "1"`, `"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh"}`, 1))
	for name, s := range map[string]Secret{
		"features":        member("d", "allowInKubeconfig", "[exec]"),
		"name":            member("d", "name", "e"),
		"a file":          member("d", "kubeconfig", "/etc/passwd"),
		"unknown setting": member("d", "stale", "1h"),
		"wrong value":     member("d", "staleAfter", "soon"),
		"no YAML":         member("d", "allowedCIDRs", "["),
		"no label":        member("D.e"),
		"name of a":       member("a"),
	} {
		w, _ := withSecrets(t, shared)
		w.Offer([]Secret{s})
		u, _ := w.poll()
		want := []string{"a", "b"}
		if s.Name != "a" {
			want = append(want, s.Name) // a member of which what stands stays, and that is seen to be wrong
		}
		if got := names(u.Loaded); !slices.Equal(got, want) || len(u.SecretFaults) == 0 || u.SecretFaults[0].File != s.String() {
			t.Errorf("%s: members %v, faults %v", name, got, u.SecretFaults)
		}
		if access := u.Loaded.Members[s.Name]; s.Name != "a" && (access.REST != nil || access.Hash != "" || fmt.Sprint(access.Err) != fmt.Sprint(u.SecretFaults) || access.Secret == "") {
			t.Errorf("%s: %+v", name, access)
		}
		if got := u.Loaded.Faults(); len(got) != len(u.SecretFaults) {
			t.Errorf("%s: told twice: %v", name, got)
		}
		if strings.Contains(fmt.Sprint(u.SecretFaults, u.Loaded), "token") {
			t.Errorf("%s: %v", name, u.SecretFaults)
		}
	}
	w, _ := withSecrets(t, shared)
	w.Offer([]Secret{run})
	u, _ := w.poll()
	if access := u.Loaded.Members["d"]; access.REST != nil || access.Err == nil {
		t.Error("a Secret ran a program")
	}
	// What all members may is for the file to say.
	w, _ = withSecrets(t, strings.Replace(shared, "clusterDefaults: {", "clusterDefaults: {allowInKubeconfig: [exec], ", 1))
	w.Offer([]Secret{run})
	if u, _ = w.poll(); u.Loaded.Members["d"].REST == nil {
		t.Error(u.Loaded.Members["d"].Err)
	}
}

// TestSettingsOfASecretAreRefused: the former ones go on, also those of a cluster of the file, but not what its kubeconfig may.
func TestSettingsOfASecretAreRefused(t *testing.T) {
	w, m := withSecrets(t, shared)
	w.Use([]Secret{member("d", "staleAfter", "1h")})
	l := w.Use([]Secret{member("d", "staleAfter", "soon")})
	if got := l.Config.Clusters[2]; got.StaleAfter != "1h" || len(l.SecretFaults) != 1 {
		t.Errorf("%+v, %v", got, l.SecretFaults)
	}
	if access := l.Members["d"]; access.REST == nil || access.Err == nil || !access.RefusedSettings {
		t.Errorf("%+v", access)
	}
	if l = w.Use([]Secret{member("d", "staleAfter", "2h")}); l.Config.Clusters[2].StaleAfter != "2h" || l.Members["d"].Err != nil || l.Members["d"].RefusedSettings {
		t.Errorf("%+v, %v", l.Config.Clusters[2], l.Members["d"].Err)
	}
	of := "- {name: b, kubeconfig: /k/b}"
	if !strings.Contains(shared, of) {
		t.Fatal("the file is another")
	}
	m.write("/t/tributary.yaml", strings.Replace(shared, of, "- {name: b, kubeconfig: /k/b, staleAfter: 7h, allowInKubeconfig: [exec]}", 1))
	next(t, w)
	w.Use([]Secret{member("b", "staleAfter", "soon")})
	m.write("/t/tributary.yaml", strings.Replace(shared, of, "", 1))
	l = next(t, w).Loaded
	if got := l.Config.Clusters[1]; got.Name != "b" || got.StaleAfter != "7h" || len(got.AllowInKubeconfig) > 0 || l.Members["b"].Secret == "" {
		t.Errorf("%+v, %+v", got, l.Members["b"])
	}
}

// TestSettingsOfASecretWereNeverAccepted: it is a member by what all share and a drain, however often it is read, until it
// is mended.
func TestSettingsOfASecretWereNeverAccepted(t *testing.T) {
	w, _ := withSecrets(t, shared)
	for i, wrong := range []Secret{member("d", "drian", "true"), member("d", "staleAfter", "soon", "serviceSelector", "x=y"), member("d", "drain", "true", "staleAfter", "soon"), member("d", "staleAfter", "[")} {
		l := w.Use([]Secret{wrong})
		got := l.Config.Clusters[2]
		if got.Name != "d" || got.StaleAfter != "30m" || got.ServiceSelector != "" || got.Force || got.Drain != (i == 2) || l.Members["d"].REST != nil {
			t.Errorf("%v: %+v, %+v", wrong.Annotations, got, l.Members["d"])
		}
	}
	w.Offer([]Secret{member("d")})
	u, _ := w.poll()
	if !slices.Equal(u.Diff.Reconnect, []string{"d"}) || !slices.Equal(u.Diff.Changed, []string{"d"}) || u.Loaded.Members["d"].REST == nil || u.Loaded.Faults() != nil {
		t.Errorf("%+v, %+v", u.Diff, u.Loaded.Members["d"])
	}
}

// TestUnreadSecretsKeepOrphans: before a list is read, what stands may be of members that it names.
func TestUnreadSecretsKeepOrphans(t *testing.T) {
	w, _ := withSecrets(t, shared+"replicas: {orphans: delete}\n")
	if got := w.Loaded().Config.Replicas.Orphans; got != OrphansKeep {
		t.Error(got)
	}
	w.Offer(nil)
	if u, _ := w.poll(); u.Loaded.Config.Replicas.Orphans != OrphansDelete || !u.Diff.Replicas {
		t.Error(u.Loaded.Config.Replicas.Orphans)
	}
}

// TestSecretsCountAtOnce: a list that is offered waits for no look at the files.
func TestSecretsCountAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := withSecrets(t, shared)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan Update, 1)
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx, func(u Update) { got <- u }) }()
		synctest.Wait()
		w.Offer([]Secret{member("d")})
		synctest.Wait()
		select {
		case u := <-got:
			wantDiff(t, u, Diff{Added: []string{"d"}})
		default:
			t.Error("it waits")
		}
		cancel()
		<-done
	})
}

// TestSecretsAreNotFormatted: not with any verb.
func TestSecretsAreNotFormatted(t *testing.T) {
	s := member("d")
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v %v", s, s, []Secret{s})} {
		if strings.Contains(text, "token") || strings.Contains(text, fmt.Sprint(s.Kubeconfig)) {
			t.Error(text)
		}
	}
}

// TestAccountTokens: only what TokenRequest gave is renewed.
func TestAccountTokens(t *testing.T) {
	for token, want := range map[string]bool{
		"":      false,
		"a.b.c": false,
		// {"iat":100,"exp":700,"kubernetes.io":{"namespace":"n","serviceaccount":{"name":"a"}}}
		"h.eyJpYXQiOjEwMCwiZXhwIjo3MDAsImt1YmVybmV0ZXMuaW8iOnsibmFtZXNwYWNlIjoibiIsInNlcnZpY2VhY2NvdW50Ijp7Im5hbWUiOiJhIn19fQ.s": true,
		// The same without exp.
		"h.eyJpYXQiOjEwMCwia3ViZXJuZXRlcy5pbyI6eyJuYW1lc3BhY2UiOiJuIiwic2VydmljZWFjY291bnQiOnsibmFtZSI6ImEifX19.s": false,
	} {
		got, ok := kubeconfig.ParseAccountToken(token)
		if ok != want || ok && (got.Namespace != "n" || got.Account != "a" || got.Expires.Sub(got.Issued).Seconds() != 600) {
			t.Errorf("%s: %+v %v", token, got, ok)
		}
	}
}
