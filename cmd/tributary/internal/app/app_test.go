// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/leader"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// token is a service account's token, signed by nobody.
func token(account string, issued, expires time.Time) string {
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"sub":"system:serviceaccount:ns:%s","kubernetes.io":{"namespace":"ns","serviceaccount":{"name":%q,"uid":"u1"}}}`,
		issued.Unix(), expires.Unix(), account, account)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestHolderOutlastsARestartInPlace(t *testing.T) {
	host, _ := os.Hostname()
	boot := "[0-9a-f-]+"
	if _, err := os.Stat("/proc/sys"); err != nil { // only Linux tells
		boot = ""
	}
	for pod, want := range map[string]string{"": "^" + regexp.QuoteMeta(host) + "_" + boot + "_:9440$", "pod-7": "^pod-7$"} {
		t.Setenv("POD_NAME", pod)
		if got := holder(":9440"); !regexp.MustCompile(want).MatchString(got) || got != holder(":9440") {
			t.Errorf("%q: %q", pod, got)
		}
	}
}

// TestCurrentOf: a slice that is somebody else's is no member's, also of a Service that is ours.
func TestCurrentOf(t *testing.T) {
	slice := func(cluster string, owned, ready bool) plan.Slice {
		of := syncer.Slice{Endpoints: []syncer.Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Ready: ready}}}
		return plan.Slice{Meta: plan.Meta{Owned: owned, Labels: syncer.LabelsOf(map[string]string{syncer.LabelSourceCluster: cluster})}, Slice: of}
	}
	service, current := currentOf(plan.Current{
		Service: &plan.Service{Meta: plan.Meta{Owned: true}},
		Slices:  []plan.Slice{slice("a", true, true), slice("b", true, false), slice("", false, true)},
	})
	if got := fmt.Sprintln(service, current); got != "ours map[a:map[10.0.0.1:ready] b:map[10.0.0.1:not ready]]\n" {
		t.Error(got)
	}
	if service, _ := currentOf(plan.Current{Service: &plan.Service{}}); service != "foreign" {
		t.Error(service)
	}
}

// TestPagesAreForThisMachine: a page of another site, whose name was made to lead here, is refused.
func TestPagesAreForThisMachine(t *testing.T) {
	handler := localOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:9440": 200, "localhost": 200, "LOCALHOST.:80": 200, "[::1]:9440": 200, "x.localhost": 200, "[::ffff:127.0.0.1]": 200,
		"evil.example:9440": 403, "localhost.evil": 403, "10.0.0.1": 403, "": 403,
	} {
		request, answer := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		request.Host = host
		if handler.ServeHTTP(answer, request); answer.Code != want {
			t.Errorf("Host %q: %d; want %d", host, answer.Code, want)
		}
	}
}

func TestListenIsAllOrNothing(t *testing.T) {
	m := metrics.New(metrics.Options{})
	p, err := listen(&config.Config{Listen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0"}, m, http.NotFoundHandler(), quiet)
	if err != nil || len(p) != 2 {
		t.Fatal(p, err)
	}
	if _, err := listen(&config.Config{Listen: "127.0.0.1:0", MetricsListen: p[0].listener.Addr().String()}, m, http.NotFoundHandler(), quiet); err == nil || !strings.Contains(err.Error(), "metricsListen") {
		t.Errorf("an address that is in use: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, s := range p {
		if err := page.Serve(ctx, s.listener, s.handler, quiet); err != nil {
			t.Error(err)
		}
	}
}

// ingressWorld is an ingress cluster in memory, of which the credential is the user agent.
func ingressWorld(t *testing.T) (*apitest.Server, func(agent string) config.Access, *ingress) {
	server := apitest.NewInMemory(t)
	server.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "one"}})
	access := func(agent string) config.Access {
		return config.Access{Accepted: kubeconfig.Accepted{REST: server.Config(agent), Hash: agent}}
	}
	loaded := &config.Loaded{Config: &config.Config{}, Ingress: access("first")}
	return server, access, newIngress(loaded, &leader.Permit{}, metrics.New(metrics.Options{}), "v1", quiet)
}

// TestIngressGoesOverToANewCredential: all ways in use, at once; one that does not work leaves
// the former in use.
func TestIngressGoesOverToANewCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, access, i := ingressWorld(t)
		first, err := i.follow.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if version, problem := first.Version(), i.trouble(); version == "" || problem != nil {
			t.Errorf("version %q, problem %v", version, problem)
		}
		server.Intercept(func(r apitest.Request) *apitest.Fault { return &apitest.Fault{Status: http.StatusServiceUnavailable} })
		i.use(access("second"))
		time.Sleep(time.Minute)
		if problem := i.trouble(); i.follow.Current() != first || problem == nil {
			t.Errorf("what serves was let go before the new credential worked; problem %v", problem)
		}
		server.Intercept(nil)
		time.Sleep(time.Minute)
		if problem := i.trouble(); i.follow.Current() == first || problem != nil {
			t.Errorf("the new credential is not in use; problem %v", problem)
		}
		if _, err := i.write.Get(t.Context()); err != nil {
			t.Error(err)
		}
		i.close()
		server.Close()
	})
}

func TestIngressIsPinned(t *testing.T) {
	server, _, i := ingressWorld(t)
	if _, err := i.elect.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	apitest.Edit(t, server, "", "kube-system", func(n *corev1.Namespace) { n.UID = "other" })
	if _, err := i.follow.Get(t.Context()); !errors.Is(err, kube.ErrOtherCluster) {
		t.Errorf("another cluster is read through: %v", err)
	}
	i.elect.Close()
}

func TestOwnNamespaceIsMade(t *testing.T) {
	server, _, i := ingressWorld(t)
	defer i.elect.Close()
	i.ownNamespace(t.Context(), "tributary-system", map[string]string{"a": "b"})
	if n, made := apitest.Get[*corev1.Namespace](server, "", "tributary-system"); !made || n.Labels["a"] != "b" {
		t.Errorf("not made: %v", n)
	}
	server.Allow(func(r apitest.Request) bool { return r.Resource != "namespaces" || r.Name == "kube-system" })
	i.ownNamespace(t.Context(), "other", nil) // returns although it may not
}

// TestSecretsThatAreMembers: one that a list lacks is asked for, and only an answer removes
// it.
func TestSecretsThatAreMembers(t *testing.T) {
	server := apitest.NewInMemory(t)
	defer server.Close()
	server.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "one"}})
	create := func(name, label string) {
		server.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: name, Labels: map[string]string{"member": label}}, Data: map[string][]byte{"kubeconfig": []byte("k")}})
	}
	create("a", "true")
	create("b", "true")
	create("other", "false")
	access := kube.NewAccess(func(ctx context.Context) (*kube.Session, error) {
		return kube.Open(ctx, server.Config("x"), kube.Options{})
	})
	defer access.Close()
	conf := &config.Config{Namespace: "own", ClustersFrom: config.ClustersFrom{Secrets: &config.SecretSource{Selector: "member=true"}}}
	var offered []string
	s := &secrets{access: access, logger: quiet, offer: func(all []config.Secret) {
		offered = nil
		for _, one := range all {
			offered = append(offered, one.Name)
		}
		slices.Sort(offered)
	}}
	look := func(what string, fails bool, want ...string) {
		t.Helper()
		if err := s.look(t.Context(), conf); (err != nil) != fails {
			t.Errorf("%s: %v", what, err)
		}
		if !slices.Equal(offered, want) {
			t.Errorf("%s: %v; want %v", what, offered, want)
		}
	}
	look("the first list", false, "a", "b")
	offered = nil
	look("nothing new", false)
	s.known["gone"] = config.Secret{Name: "gone"}
	s.known["other"] = config.Secret{Name: "other"}
	look("a list lacks one that is not there, and one that is no member any more", false, "a", "b")
	s.known["gone"] = config.Secret{Name: "gone"}
	server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.Verb == "get" {
			return &apitest.Fault{Status: http.StatusServiceUnavailable}
		}
		return nil
	})
	create("c", "true")
	look("and one that nobody can be asked about", true, "a", "b", "c", "gone")
	server.Intercept(func(apitest.Request) *apitest.Fault { return &apitest.Fault{Status: http.StatusServiceUnavailable} })
	offered = nil
	look("no list", true)
	server.Intercept(nil)
	apitest.Remove[*corev1.Secret](t, server, "own", "a")
	look("one is deleted", false, "b", "c")
	conf.ClustersFrom.Secrets = nil
	if look("none are wanted", false, "b", "c"); s.known != nil {
		t.Error("what was read counts when others are wanted")
	}
}

// TestRenewal: a token in the last third of its life is replaced where it is stored.
func TestRenewal(t *testing.T) {
	now := time.Now()
	old, fresh := token("member", now.Add(-50*time.Minute), now.Add(10*time.Minute)), token("member", now, now.Add(time.Hour))
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"gitVersion":"v1.36.3"}`)
			return
		}
		codecs := serializer.NewCodecFactory(scheme.Scheme)
		w.Header().Set("Content-Type", "application/json")
		var out runtime.Object = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "one", ResourceVersion: "1"}}
		if strings.HasSuffix(r.URL.Path, "/namespaces/ns/serviceaccounts/member/token") {
			asked++
			out = &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: fresh}}
		}
		_ = codecs.LegacyCodec(corev1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion).Encode(out, w)
	}))
	defer server.Close()
	kubeconfigWith := func(token string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\nclusters: [{name: x, cluster: {server: %q}}]\nusers: [{name: x, user: {token: %q}}]\n", server.URL, token)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfigWith(old)), 0o600); err != nil {
		t.Fatal(err)
	}
	api := apitest.New(t)
	api.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "idc-b"}, Data: map[string][]byte{config.SecretKey: []byte(kubeconfigWith(old))}})
	var log strings.Builder
	n := &renewer{version: "v1", logger: slog.New(slog.NewTextHandler(&log, nil)), failed: map[string]string{},
		ingress: func(context.Context) (kubernetes.Interface, error) { return api.Client(t, "writer"), nil }}
	access := func(bearer string) config.Access {
		return config.Access{Accepted: kubeconfig.Accepted{REST: &rest.Config{Host: server.URL, BearerToken: bearer}, Context: "x"}}
	}
	inFile, inSecret, young := access(old), access(old), access(fresh)
	inFile.File, inSecret.Secret, young.File = file, "own/idc-b", file
	for name, a := range map[string]config.Access{"young": young, "password": access("password"), "none": {}, "file": inFile, "secret": inSecret} {
		n.renew(t.Context(), name, a)
	}
	text, _ := os.ReadFile(file)
	secret, _ := apitest.Get[*corev1.Secret](api, "own", "idc-b")
	if asked != 2 || !strings.Contains(string(text), fresh) || !strings.Contains(string(secret.Data[config.SecretKey]), fresh) {
		t.Errorf("asked for %d tokens; file %s; Secret %s; log %s", asked, text, secret.Data[config.SecretKey], log.String())
	}
	inFile.File = filepath.Join(t.TempDir(), "none")
	n.renew(t.Context(), "lost", inFile)
	n.renew(t.Context(), "lost", inFile)
	if strings.Count(log.String(), "token not renewed") != 1 || strings.Contains(log.String(), old) {
		t.Errorf("asked for %d tokens, logged %s", asked, log.String())
	}
	api.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "emptied"}})
	emptied := access(old)
	emptied.Secret = "own/emptied"
	if n.renew(t.Context(), "emptied", emptied); strings.Count(log.String(), "token not renewed") != 2 {
		t.Errorf("logged %s", log.String())
	}
}

func TestCauseOfAChange(t *testing.T) {
	at := time.Now()
	got := causeOf("idc-a", &member.Cause{
		Kind: "Pod", Key: syncer.Key{Namespace: "shop", Name: "web-0"}, UID: "u", Event: "deleted", State: "gone", IP: "10.0.0.1", SourceTime: at, Arrived: at, Live: true,
	})
	want := record.Cause{Cluster: "idc-a", Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "u", Event: "deleted", State: "gone", IP: "10.0.0.1", SourceTime: at, Arrival: at, Live: true}
	if got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
}
