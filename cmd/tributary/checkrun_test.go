// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/internal/reserve"
)

const (
	goodToken = "good"
	ownName   = "tributary-system"
	podIP     = "10.1.0.7"
	movedIP   = "10.1.0.8"
	// mayTake is how long run may take to keep its promises, and breaks after how long it is taken not to.
	mayTake, breaks = 2 * time.Minute, 2 * time.Second
	// atOnce bounds how many cases are tried at a time: most of them wait.
	atOnce = 6
)

// cluster is an API server that asks for a token, over TLS.
type cluster struct {
	*apitest.Server
	tls *httptest.Server
}

func newCluster(t *testing.T, name string) *cluster {
	c := &cluster{Server: apitest.New(t)}
	c.tls = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+goodToken {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`)
			return
		}
		c.ServeHTTP(w, r)
	}))
	c.tls.EnableHTTP2 = true
	c.tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.tls.StartTLS()
	t.Cleanup(func() { c.tls.CloseClientConnections(); c.tls.Close() })
	c.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
	c.identify(t, types.UID(name+"-uid"))
	return c
}

func (c *cluster) identify(t *testing.T, uid types.UID) {
	apitest.Edit(t, c.Server, "", "kube-system", func(n *corev1.Namespace) { n.UID = uid })
}

// deny takes rights away: those of which one of the texts, such as "list pods" or
// "* leases tributary-system", is the beginning.
func (c *cluster) deny(rights ...string) {
	c.Allow(func(r apitest.Request) bool {
		return !slices.ContainsFunc(rights, func(denied string) bool {
			verb, rest, _ := strings.Cut(denied, " ")
			resource, namespace, _ := strings.Cut(rest, " ")
			return (verb == "*" || verb == r.Verb) && (resource == "*" || resource == r.Resource) && (namespace == "" || namespace == r.Namespace || r.Namespace == "" && namespace == "-")
		})
	})
}

// onlyIn leaves rights in these namespaces alone.
func (c *cluster) onlyIn(namespaces ...string) {
	c.Allow(func(r apitest.Request) bool {
		return slices.Contains(namespaces, r.Namespace) || r.Resource == "groups"
	})
}

// setting is an ingress cluster and a member with a Service, and the files that lead to both.
type setting struct {
	*testing.T
	dir             string
	ingress, member *cluster
	config          map[string]any
	// sliceless: no EndpointSlice is written.
	sliceless bool
	// bounded: nothing is promised about other namespaces than shop.
	bounded     bool
	kubeconfigs map[string]map[string]string // by file: server, ca, token
}

func newSetting(t *testing.T) *setting {
	s := &setting{T: t, dir: t.TempDir(), ingress: newCluster(t, "ingress"), member: newCluster(t, "idc-a"), kubeconfigs: map[string]map[string]string{}}
	for name, c := range map[string]*cluster{"ingress": s.ingress, "idc-a": s.member} {
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.tls.Certificate().Raw})
		s.kubeconfigs[name] = map[string]string{"server": c.tls.URL, "ca": base64.StdEncoding.EncodeToString(ca), "token": goodToken}
	}
	for _, namespace := range []string{"shop", ownName} {
		s.ingress.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	s.populate("shop")
	s.config = map[string]any{
		"apiVersion": "tributary.dev/v1alpha1", "kind": "Config", "listen": freeAddress(t), "namespace": ownName,
		"ingress":  map[string]any{"kubeconfig": "ingress"},
		"clusters": []any{map[string]any{"name": "idc-a", "kubeconfig": "idc-a"}},
		"leases":   map[string]any{"namespace": ownName},
	}
	return s
}

// populate makes a Service with a ready pod in the member.
func (s *setting) populate(namespace string) {
	s.member.Create(s.T, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, pod(namespace, "web-0", podIP))
}

func pod(namespace, name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// part is a mapping of the configuration; of the only member, if it is "clusters".
func (s *setting) part(name string) map[string]any {
	if list, ok := s.config[name].([]any); ok {
		return list[0].(map[string]any)
	}
	if s.config[name] == nil {
		s.config[name] = map[string]any{}
	}
	return s.config[name].(map[string]any)
}

func (s *setting) kubeconfig(name string) string {
	k := s.kubeconfigs[name]
	user := fmt.Sprintf("{token: %q}", k["token"])
	if k["exec"] != "" {
		user = fmt.Sprintf("{exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, interactiveMode: Never}}", k["exec"])
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"+
		"clusters: [{name: x, cluster: {server: %q, certificate-authority-data: %q}}]\nusers: [{name: x, user: %s}]\n", k["server"], k["ca"], user)
}

// write writes a file beside the configuration.
func (s *setting) write(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

// files writes the configuration and its kubeconfigs, and returns the path of the first.
func (s *setting) files() string {
	s.Helper()
	text, err := yaml.Marshal(s.config)
	if err != nil {
		s.Fatal(err)
	}
	for name := range s.kubeconfigs {
		s.write(name, s.kubeconfig(name))
	}
	return s.write("tributary.yaml", string(text))
}

// promises are what run does if it works, in their order; each waits for those before.
var promises = []struct {
	change func(*setting)
	kept   func(*setting) bool
}{
	{func(*setting) {}, func(s *setting) bool { return s.shows("shop", podIP) && s.well() }},
	{func(s *setting) { // a pod in a new namespace
		if !s.bounded {
			s.populate("pay")
		}
	}, func(s *setting) bool { return s.bounded || s.shows("pay", podIP) }},
	{func(s *setting) { // another pod
		s.member.Create(s.T, pod("shop", "web-1", movedIP))
	}, func(s *setting) bool { return s.shows("shop", podIP, movedIP) }},
	{func(s *setting) { // one that goes
		apitest.Remove[*corev1.Pod](s.T, s.member.Server, "shop", "web-0")
	}, func(s *setting) bool { return s.shows("shop", movedIP) }},
	{func(s *setting) { // another port
		apitest.Edit(s.T, s.member.Server, "shop", "web", func(v *corev1.Service) { v.Spec.Ports[0].Port, v.Spec.Ports[0].TargetPort = 81, intstr.FromInt32(81) })
	}, func(s *setting) bool {
		v, _ := apitest.Get[*corev1.Service](s.ingress.Server, "shop", "web")
		slices := apitest.List[*discoveryv1.EndpointSlice](s.ingress.Server, "shop")
		return v != nil && v.Spec.Ports[0].Port == 81 && len(slices) <= 1 && (len(slices) == 0 || *slices[0].Ports[0].Port == 81)
	}},
	{func(s *setting) { // and all that goes
		apitest.Remove[*corev1.Service](s.T, s.member.Server, "shop", "web")
	}, func(s *setting) bool {
		_, stands := apitest.Get[*corev1.Service](s.ingress.Server, "shop", "web")
		return !stands && len(apitest.List[*discoveryv1.EndpointSlice](s.ingress.Server, "shop")) == 0
	}},
}

// shows reports whether the replica of web in a namespace has these addresses alone.
func (s *setting) shows(namespace string, ips ...string) bool {
	e, stands := apitest.Get[*corev1.Endpoints](s.ingress.Server, namespace, "web")
	var got []string
	for _, slice := range apitest.List[*discoveryv1.EndpointSlice](s.ingress.Server, namespace) {
		for _, endpoint := range slice.Endpoints {
			got = append(got, endpoint.Addresses...)
		}
	}
	slices.Sort(got)
	sliced := slices.Equal(got, ips) || len(got) == 0 && s.sliceless
	return sliced && stands && len(e.Subsets) == 1 && slices.EqualFunc(e.Subsets[0].Addresses, ips, func(a corev1.EndpointAddress, ip string) bool { return a.IP == ip })
}

// well asks the running instance.
func (s *setting) well() bool {
	return dispatch(s.Context(), []string{"status", "--server", s.config["listen"].(string), "--exit-code"}, io.Discard, io.Discard) == exitOK
}

// runWorks runs tributary until it has kept all promises; false if it ends before, or takes longer than is given for it.
func (s *setting) runWorks(path string, within time.Duration) (works bool, logged string) {
	s.Helper()
	ended, stop := s.start(path)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	over := time.NewTimer(within)
	defer over.Stop()
	kept := 0
wait:
	for kept < len(promises) {
		select {
		case <-ended:
			break wait
		case <-over.C:
			break wait
		case <-look.C:
			if promises[kept].kept(s) {
				if kept++; kept < len(promises) {
					promises[kept].change(s)
				}
			}
		}
	}
	return kept == len(promises), fmt.Sprintf("%d of %d promises kept\n%s", kept, len(promises), stop())
}

// start runs tributary. stop ends it, and returns what it said.
func (s *setting) start(path string) (ended <-chan struct{}, stop func() string) {
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		dispatch(ctx, []string{"run", "--config", path}, io.Discard, &said)
	}()
	return done, func() string {
		cancel()
		<-done
		return said.String()
	}
}

// until waits for something that tributary does.
func (s *setting) until(what string, done func() bool) {
	s.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	over := time.NewTimer(mayTake)
	defer over.Stop()
	for !done() {
		select {
		case <-over.C:
			s.Fatalf("not so: %s", what)
		case <-look.C:
		}
	}
}

// freeAddress is one of this machine at which nobody listens, and no other test will.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := reserve.Port()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// TestCheckSaysWhetherRunWorks: check exits with 0 exactly when run would work.
func TestCheckSaysWhetherRunWorks(t *testing.T) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, c := range checkCases {
		group.Go(func() error {
			t.Run(c.name, c.try)
			return nil
		})
	}
	_ = group.Wait() // none fails but through t
}

func (c *checkCase) try(t *testing.T) {
	s := newSetting(t)
	if c.change != nil {
		c.change(s)
	}
	path, within := s.files(), mayTake
	if c.says != "" {
		within = breaks
	}
	var table, faults bytes.Buffer
	code := dispatch(t.Context(), []string{"check", "--config", path, "--timeout", "1m"}, &table, &faults)
	works, logged := s.runWorks(path, within)
	if (code == exitOK) != works || works != (c.says == "") {
		t.Errorf("check exits with %d, run works: %t\n%s%s\nlog of run:\n%s", code, works, &table, &faults, logged)
	}
	if !strings.Contains(faults.String(), c.says) {
		t.Errorf("check does not say %q:\n%s%s", c.says, &table, &faults)
	}
	if !strings.Contains(table.String(), c.notes) {
		t.Errorf("check does not note %q:\n%s%s", c.notes, &table, &faults)
	}
}

// TestRunWithoutMembersOfTheFile: where every kubeconfig that the file names is refused, members that are Secrets are followed.
func TestRunWithoutMembersOfTheFile(t *testing.T) {
	s := newSetting(t)
	s.fromSecret(s.kubeconfig("idc-a"), nil)
	s.config["clusters"] = []any{map[string]any{"name": "legacy", "kubeconfig": "gone"}}
	path := s.files()
	if code := dispatch(t.Context(), []string{"check", "--config", path}, io.Discard, io.Discard); code != exitUsage {
		t.Errorf("check exits with %d", code)
	}
	_, stop := s.start(path)
	s.until("the member of the Secret is replicated", func() bool { return s.shows("shop", podIP) })
	if said := stop(); !strings.Contains(said, "gone does not exist") {
		t.Errorf("not said: %s", said)
	}
}
