// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// world is an ingress cluster and two members, all in memory behind HTTP, and the files that
// lead to them.
type world struct {
	*testing.T
	dir, listen string
	ingress     *apitest.Server
	members     map[string]*apitest.Server
	// extra are more lines of the configuration, clusters those below each member.
	extra    string
	clusters map[string]string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: t.TempDir(), ingress: apitest.New(t), members: map[string]*apitest.Server{}, clusters: map[string]string{"idc-a": "", "idc-b": ""}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.listen = listener.Addr().String()
	listener.Close()
	for i, name := range []string{"idc-a", "idc-b"} {
		w.members[name] = apitest.New(t)
		w.members[name].Create(t, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}, pod("web-0", fmt.Sprintf("10.%d.0.1", i+1)), pod("web-1", fmt.Sprintf("10.%d.0.2", i+1)))
	}
	for name, s := range w.all() {
		s.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
		apitest.Edit(t, s, "", "kube-system", func(n *corev1.Namespace) { n.UID = types.UID(name + "-uid") })
	}
	w.files()
	return w
}

func (w *world) all() map[string]*apitest.Server {
	return map[string]*apitest.Server{"ingress": w.ingress, "idc-a": w.members["idc-a"], "idc-b": w.members["idc-b"]}
}

func pod(name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name + ip), Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}},
	}
}

// files writes the configuration and its kubeconfigs, and returns the path of the first.
func (w *world) files() string {
	w.Helper()
	write := func(name, text string) string {
		path := filepath.Join(w.dir, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			w.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			w.Fatal(err)
		}
		return path
	}
	for name, s := range w.all() {
		write(name, fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"+
			"clusters: [{name: x, cluster: {server: %q}}]\nusers: [{name: x, user: {}}]\n", s.Config("").Host))
	}
	text := "apiVersion: tributary.dev/v1alpha1\nkind: Config\nlisten: " + w.listen + "\ningress: {kubeconfig: ingress}\n" + w.extra + "clusters:\n"
	for _, name := range []string{"idc-a", "idc-b"} {
		if more, named := w.clusters[name]; named {
			text += fmt.Sprintf("- {name: %s, kubeconfig: %s%s}\n", name, name, more)
		}
	}
	return write("tributary.yaml", text)
}

// run runs tributary until the test, or what it returns, ends it.
func (w *world) run() (stop func() (log string)) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	var out bytes.Buffer
	var code int
	var done sync.WaitGroup
	done.Go(func() { code = dispatch(ctx, []string{"run", "--config", w.files()}, &out, &out) })
	stop = sync.OnceValue(func() string {
		cancel()
		done.Wait()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if code != exitOK {
			w.Errorf("run ended with %d: %s", code, out.String())
		}
		return out.String()
	})
	w.Cleanup(func() { stop() })
	return stop
}

// pause waits a moment; it returns false when the test has ended.
func (w *world) pause() bool {
	select {
	case <-time.After(10 * time.Millisecond):
		return true
	case <-w.Context().Done():
		return false
	}
}

// says runs a command until it succeeds and says something: what a server has is in its answer
// to a write a moment before the writer knows it.
func (w *world) says(want string, args ...string) {
	w.Helper()
	for {
		code, out, errs := call(w.T, args...)
		if code == exitOK && strings.Contains(out, want) {
			return
		}
		if !w.pause() {
			w.Fatalf("%v does not say %q: %d\n%s%s", args, want, code, out, errs)
		}
	}
}

// until waits for a state of the running instance.
func (w *world) until(what string, is func(s *metrics.Status) bool) {
	w.Helper()
	for {
		status, err := ask[metrics.Status](w.Context(), &instanceFlags{server: w.listen}, "/debug/status", nil)
		if err == nil && is(status) {
			return
		}
		if !w.pause() {
			w.Fatalf("not %s", what)
		}
	}
}

// shows waits until the replica has these addresses, each with its condition ready.
func (w *world) shows(want string) {
	w.Helper()
	for {
		changed := w.ingress.Changed()
		var got []string
		for _, slice := range apitest.List[*discoveryv1.EndpointSlice](w.ingress, "shop") {
			for _, e := range slice.Endpoints {
				got = append(got, fmt.Sprintf("%s:%t", strings.Join(e.Addresses, ","), *e.Conditions.Ready))
			}
		}
		if slices.Sort(got); strings.Join(got, " ") == want {
			return
		}
		select {
		case <-changed:
		case <-w.Context().Done():
			w.Fatalf("the replica shows %v; want %s", got, want)
		}
	}
}

// leads reports that the instance leads, all is well, and all that was to be written is
// acknowledged: what comes next is a change of its own.
func leads(s *metrics.Status) bool {
	busy := func(l metrics.LaneStatus) bool { return l.Waiting+l.Sent > 0 }
	return s.Ready && s.Leader.State == "leading" && len(s.Clusters) == 2 && len(s.Findings()) == 0 && s.Comparing == 0 && !slices.ContainsFunc(s.Lanes, busy)
}

// TestRun is the life of an instance as its commands tell it.
func TestRun(t *testing.T) {
	w := newWorld(t)
	server := []string{"--server", w.listen}
	if code, out, errs := call(t, "plan", "--config", w.files()); code != 0 || !strings.Contains(out, "create Service shop/web") || len(w.ingress.Writes("")) > 0 {
		t.Fatalf("plan: %d %s%s", code, out, errs)
	}
	stop := w.run()
	w.shows("10.1.0.1:true 10.1.0.2:true 10.2.0.1:true 10.2.0.2:true")
	w.until("well", leads)

	apitest.Remove[*corev1.Pod](t, w.members["idc-a"], "shop", "web-0")
	w.shows("10.1.0.2:true 10.2.0.1:true 10.2.0.2:true")
	w.until("well", leads)
	for _, command := range []struct{ args, want string }{
		{"status", "All is well."},
		{"status -o json", `"name": "idc-a"`},
		{"explain shop/web", "web-1  10.1.0.2  ready  ready"},
		{"explain shop/web -o yaml", "cluster: idc-b"},
		{"trace --ip 10.1.0.1", "-10.1.0.1:80"},
		{"trace --service shop/web -o json", `"result":"written"`},
		{"trace --cluster idc-a -o yaml", "kind: Pod"},
	} {
		w.says(command.want, append(strings.Fields(command.args), server...)...)
	}
	for _, command := range []struct{ args, want string }{
		{"explain shop/other", `service "shop/other" not found`},
	} {
		if code, _, errs := call(t, append(strings.Fields(command.args), server...)...); code != exitFailed || !strings.Contains(errs, command.want) {
			t.Errorf("%s: exit %d\n%s", command.args, code, errs)
		}
	}
	if code, _, errs := call(t, append([]string{"trace", "--ip", "banana"}, server...)...); code != exitUsage || !strings.Contains(errs, `ip: "banana" is not an IP address`) {
		t.Errorf("exit %d\n%s", code, errs)
	}
	w.says("Nothing to write", "plan", "--config", w.files())

	w.clusters["idc-a"] = ", drain: true"
	w.files()
	w.shows("10.1.0.2:false 10.2.0.1:true 10.2.0.2:true")
	w.says("idc-a: live, Drained\n", "explain", "shop/web", "--server", w.listen)
	w.says("reserve  not ready  drained: others serve", "explain", "shop/web", "--server", w.listen)
	w.says("idc-a: drained", "status", "--server", w.listen)
	w.extra = "bogus: 1\n"
	w.files()
	w.until("refused", func(s *metrics.Status) bool { return strings.Contains(s.Config.Error, "bogus") })
	delete(w.clusters, "idc-a")
	w.extra = "metricsListen: 127.0.0.1:0\n"
	w.files()
	w.until("an orphan", func(s *metrics.Status) bool {
		return len(s.Orphans) == 1 && s.Orphans[0].Cluster == "idc-a" && slices.Equal(s.Config.Restart, []string{"metricsListen"})
	})
	w.clusters["idc-a"], w.extra = "", ""
	w.files()
	w.shows("10.1.0.2:true 10.2.0.1:true 10.2.0.2:true")
	w.until("well", leads)
	for _, want := range []string{"ready", "configuration refused", "bogus", "waits for a restart", "member removed", "this process leads"} {
		if log := stop(); !strings.Contains(log, want) {
			t.Errorf("no %q in the log:\n%s", want, log)
		}
	}

	// Another start finds everything as it should be, and writes nothing but its Lease.
	w.ingress.ForgetWrites()
	stop = w.run()
	w.until("well", leads)
	stop()
	for _, write := range w.ingress.Writes("") {
		if write.Resource != "leases" {
			t.Errorf("a restart writes %+v", write)
		}
	}
}

// TestStandby: of two processes one writes, the other follows, shows the same, and takes over.
func TestStandby(t *testing.T) {
	first, second := newWorld(t), newWorld(t)
	second.ingress, second.members = first.ingress, first.members
	end := first.run()
	first.until("leading", leads)
	second.run()
	second.until("on standby", func(s *metrics.Status) bool {
		return s.Ready && s.Leader.State == "standby" && strings.HasSuffix(s.Leader.Holder, first.listen)
	})
	e, err := ask[app.Explanation](t.Context(), &instanceFlags{server: second.listen}, app.ExplainPath, map[string][]string{"service": {"shop/web"}})
	if err != nil || len(e.Members) != 2 || len(e.Members[1].Endpoints) != 2 {
		t.Errorf("a standby explains %+v, %v", e, err)
	}
	end()
	second.until("leading", leads)
	apitest.Remove[*corev1.Pod](t, first.members["idc-b"], "shop", "web-1")
	second.shows("10.1.0.1:true 10.1.0.2:true 10.2.0.1:true")
}

// TestMembersFromSecrets: one joins while Tributary runs, is known at the next start, and leaves.
func TestMembersFromSecrets(t *testing.T) {
	w := newWorld(t)
	delete(w.clusters, "idc-b")
	w.extra = "clustersFrom: {secrets: {selector: tributary.dev/member=true}}\n"
	text, err := os.ReadFile(filepath.Join(w.dir, "idc-b"))
	if err != nil {
		t.Fatal(err)
	}
	stop := w.run()
	w.until("well", func(s *metrics.Status) bool { return s.Ready && len(s.Findings()) == 0 })
	w.ingress.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tributary-system", Name: "idc-b", Labels: map[string]string{"tributary.dev/member": "true"}},
		Data:       map[string][]byte{"kubeconfig": text},
	})
	w.shows("10.1.0.1:true 10.1.0.2:true 10.2.0.1:true 10.2.0.2:true")
	stop()
	w.ingress.ForgetWrites()
	stop = w.run()
	w.until("well", leads)
	for _, write := range w.ingress.Writes("") {
		if write.Resource != "leases" {
			t.Errorf("a restart writes %+v", write)
		}
	}
	apitest.Remove[*corev1.Secret](t, w.ingress, "tributary-system", "idc-b")
	w.shows("10.1.0.1:true 10.1.0.2:true 10.2.0.1:false 10.2.0.2:false")
	stop()
}

// TestTraceFollows: changes are shown as they come, missed ones are told, and the end of the
// stream is an error unless the reader ended it.
func TestTraceFollows(t *testing.T) {
	rec := record.Begin("shop", "web", record.Cause{Cluster: "idc-a", Kind: "Pod", Name: "web-1", Event: "deleted", Arrival: time.Now()}, 3, time.Now())
	rec.Removed = []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"}
	rec.End(time.Now(), record.Written, nil)
	line, err := json.Marshal(&rec)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s\n\n{\"missed\":7}\n%s\n", line, line)
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	code, out, errs := call(t, "trace", "--follow", "--server", listener.Addr().String())
	if code != exitFailed || strings.Count(out, "Pod web-1 deleted, the first of 3") != 2 || !strings.Contains(out, "-10.0.0.3:80 -1 more") || strings.Count(out, "SEEN") != 1 {
		t.Errorf("%d:\n%s", code, out)
	}
	if !strings.Contains(errs, "7 changes came faster") || !strings.Contains(errs, "ended the stream") {
		t.Errorf("said %s", errs)
	}
}
