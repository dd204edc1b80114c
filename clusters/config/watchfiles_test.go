// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimits(t *testing.T) {
	w, m := start(t)
	check := func(client string, qps float32, burst int) {
		t.Helper()
		m.write("/t/tributary.yaml", strings.Replace(two, "kubeconfig: a}", "kubeconfig: a, client: "+client+"}", 1))
		w.poll()
		w.poll()
		if c := w.Loaded().Members["a"].REST; c.QPS != qps || c.Burst != burst {
			t.Errorf("%s: QPS %v, burst %v", client, c.QPS, c.Burst)
		}
	}
	check("{}", -1, 0)
	check("{qps: 5}", 5, 10)
	check("{qps: 0.1}", 0.1, 1)
	check("{qps: 5, burst: 7}", 5, 7)
	check("{qps: 0}", -1, 0)
}

func TestWatcherTellsNoSecret(t *testing.T) {
	w, m := start(t)
	m.write("/t/a", reach("a", "s3cr3t"))
	next(t, w)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, value := range []any{w, *w.Loaded(), w.Loaded(), w.Loaded().Members["a"]} {
			if text := fmt.Sprintf(format, value); strings.Contains(text, "s3cr3t") || strings.Contains(text, fmt.Sprint([]byte("s3cr3t"))) {
				t.Errorf("%s of %T tells the token: %s", format, value, text)
			}
		}
	}
}

// TestRunTakesEffectWithinTwoSeconds runs in virtual time.
func TestRunTakesEffectWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		updates := make(chan Update)
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx, func(u Update) { updates <- u })
		}()
		for i, delay := range []time.Duration{0, 300 * time.Millisecond, 999 * time.Millisecond} {
			<-time.After(delay)
			m.write("/t/a", reach("a", fmt.Sprint("token-", i)))
			from := time.Now()
			u := <-updates
			wantDiff(t, u, Diff{Reconnect: []string{"a"}})
			if took := time.Since(from); took > 2*time.Second {
				t.Errorf("change %d took %v", i, took)
			}
		}
		cancel()
		<-done
	})
}

// TestProjectedSecret replaces real files as the kubelet does: a symlink ..data
// is swapped for one to a new directory.
func TestProjectedSecret(t *testing.T) {
	dir := t.TempDir()
	project := func(version, token string) {
		t.Helper()
		must := func(err error) {
			if err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
		}
		real := filepath.Join(dir, "..real-"+version)
		must(os.Mkdir(real, 0o700))
		must(os.WriteFile(filepath.Join(real, "a"), []byte(reach("a", token)), 0o600))
		must(os.WriteFile(filepath.Join(real, "tributary.yaml"), []byte(one("serviceSelector: v="+version)), 0o600))
		must(os.Symlink("..real-"+version, filepath.Join(dir, "..tmp")))
		must(os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
		for _, name := range []string{"a", "tributary.yaml"} {
			must(os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
		}
	}
	project("1", "first")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	w, err := Open(filepath.Join(dir, "tributary.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if faults := w.Loaded().Faults(); len(faults) != 1 || faults[0].Field != "ingress.kubeconfig" {
		t.Fatal(faults)
	}
	project("2", "second")
	u := next(t, w)
	wantDiff(t, u, Diff{Changed: []string{"idc-a"}, Reconnect: []string{"idc-a"}})
	if got := u.Loaded.Members["idc-a"].REST.BearerToken; got != "second" {
		t.Errorf("token %q", got)
	}
	// Replaced by rename, then written in place.
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path+".new", []byte(reach("a", "third")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	wantDiff(t, next(t, w), Diff{Reconnect: []string{"idc-a"}})
	if err := os.WriteFile(path, []byte(reach("a", "fourth")), 0o600); err != nil {
		t.Fatal(err)
	}
	wantDiff(t, next(t, w), Diff{Reconnect: []string{"idc-a"}})
}

func TestLoadFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for path, want := range map[string]string{
		missing:                ": does not exist; give the path of the configuration file",
		filepath.Dir(missing):  ": is a directory, not a file; give the path of the configuration file",
		write(t, ""):           ": is empty",
		write(t, "kind: Pod"):  `:1:1: kind: "Pod" is not known to this version; write Config`,
		write(t, one()+"a: b"): ":6:1: a: unknown field; known here: apiVersion, kind, listen, metricsListen, metricsTLS, metricsTokenReview, instance, namespace, ingress, clusters, clusterDefaults, clustersFrom, replicas",
	} {
		_, err := Open(path)
		if err == nil || !strings.Contains(err.Error(), path+want) {
			t.Errorf("got %v, want %s%s", err, path, want)
		}
	}
	w, err := Open(write(t, one()))
	if err != nil {
		t.Fatal(err)
	}
	if member := w.Loaded().Members["idc-a"]; member.Err == nil || member.REST != nil {
		t.Errorf("a missing kubeconfig concerns its member: %+v", member)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tributary.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWhoItIsStays: a running process has one name, and one namespace of its own.
func TestWhoItIsStays(t *testing.T) {
	w, m := start(t)
	m.write("/t/tributary.yaml", two+"instance: blue\nnamespace: other\n")
	got := next(t, w)
	want := `/t/tributary.yaml:8:1: instance: is "blue", and was "default" when this process started; restart it, or put the former value back
/t/tributary.yaml:9:1: namespace: is "other", and was "" when this process started; restart it, or put the former value back`
	if got.Err == nil || got.Err.Error() != want || got.Loaded.Config.Instance != DefaultInstance || !reflect.DeepEqual(got.Diff, Diff{}) {
		t.Errorf("got %v, instance %q, %+v\nwant %s", got.Err, got.Loaded.Config.Instance, got.Diff, want)
	}
}

// TestWhereTheLeaseIsStays: who reads the file first would write beside who has not read it.
func TestWhereTheLeaseIsStays(t *testing.T) {
	w, m := start(t)
	m.write("/t/tributary.yaml", two+"leaderElection: {namespace: tributary-system}\n")
	if got := next(t, w); got.Err != nil {
		t.Errorf("the same namespace by its name: %v", got.Err)
	}
	m.write("/t/tributary.yaml", two+"leaderElection: {namespace: elsewhere}\n")
	want := `/t/tributary.yaml:8:18: leaderElection.namespace: is "elsewhere", and was "tributary-system" when this process started; restart it, or put the former value back`
	if got := next(t, w); got.Err == nil || got.Err.Error() != want || got.Loaded.Config.LeaderElection.Namespace == "elsewhere" {
		t.Errorf("got %v\nwant %s", got.Err, want)
	}
}

// TestPinsAndBoundsReachTheIngressClusterAnew: they hold for a connection.
func TestPinsAndBoundsReachTheIngressClusterAnew(t *testing.T) {
	for _, field := range []string{"identity: other", "namespaces: [shop]"} {
		w, m := start(t)
		m.write("/t/tributary.yaml", strings.Replace(two, "ingress: {kubeconfig: in}", "ingress: {kubeconfig: in, "+field+"}", 1))
		wantDiff(t, next(t, w), Diff{Ingress: true, Replicas: strings.HasPrefix(field, "namespaces")})
	}
}
