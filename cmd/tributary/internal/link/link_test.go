// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd/api"

	"tributary.dev/tributary/clusters/config"
)

// world is a member that applies as a server does, in both clients, and an ingress cluster.
type world struct {
	t       *testing.T
	objects *dynamicfake.FakeDynamicClient
	member  *fake.Clientset
	ingress *fake.Clientset
	dir     string
	// life of the tokens that the member gives, tokens how many it has given.
	life   time.Duration
	tokens int
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, objects: dynamicfake.NewSimpleDynamicClient(scheme.Scheme), member: fake.NewClientset(), ingress: fake.NewClientset(), dir: t.TempDir(), life: 30 * 24 * time.Hour}
	revision := 0
	w.objects.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		want := &unstructured.Unstructured{}
		if err := json.Unmarshal(patch.GetPatch(), &want.Object); err != nil {
			return true, nil, err
		}
		tracker, resource, namespace := w.objects.Tracker(), patch.GetResource(), patch.GetNamespace()
		before, err := tracker.Get(resource, namespace, patch.GetName())
		if err == nil {
			is := before.(*unstructured.Unstructured)
			want.SetUID(is.GetUID())
			want.SetResourceVersion(is.GetResourceVersion())
			if fmt.Sprint(is.Object) == fmt.Sprint(want.Object) {
				return true, is, nil
			}
		}
		revision++
		want.SetResourceVersion(fmt.Sprint(revision))
		if apierrors.IsNotFound(err) {
			want.SetUID(types.UID(fmt.Sprint("uid-", revision)))
			err = tracker.Create(resource, want, namespace)
		} else {
			err = tracker.Update(resource, want, namespace)
		}
		return true, want, err
	})
	w.member.PrependReactor("get", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		found, err := w.objects.Tracker().Get(action.GetResource(), action.GetNamespace(), action.(clienttesting.GetAction).GetName())
		if err != nil {
			return true, nil, err
		}
		out := &corev1.ServiceAccount{}
		return true, out, runtime.DefaultUnstructuredConverter.FromUnstructured(found.(*unstructured.Unstructured).Object, out)
	})
	w.member.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		account, err := w.objects.Tracker().Get(action.GetResource(), action.GetNamespace(), "tributary-member")
		if err != nil {
			return true, nil, err
		}
		w.tokens++
		claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"sub":"system:serviceaccount:%s:tributary-member","kubernetes.io":{"namespace":%[3]q,"serviceaccount":{"name":"tributary-member","uid":%[4]q}}}`,
			time.Now().Unix(), time.Now().Add(w.life).Unix(), action.GetNamespace(), account.(*unstructured.Unstructured).GetUID())
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token: "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln", ExpirationTimestamp: metav1.NewTime(time.Now().Add(w.life)),
		}}, nil
	})
	return w
}

func (w *world) options(edit ...func(*Options)) Options {
	o := Options{
		Name: "idc-a", Namespace: "tributary-system", Account: "tributary-member", Lifetime: w.life, Server: Server{URL: "https://a.example:6443"},
		Member: w.member, Objects: w.objects, Keep: Keep{File: filepath.Join(w.dir, "idc-a.kubeconfig"), Namespace: "tributary-system", Name: "idc-a"},
	}
	for _, e := range edit {
		e(&o)
	}
	return o
}

func inSecret(w *world) func(*Options) { return func(o *Options) { o.Keep.Ingress = w.ingress } }

// did says what a call did: "created 6, unchanged 1".
func did(r Result) string {
	count := map[string]int{}
	for _, s := range r.Steps {
		count[s.Did]++
	}
	return strings.Trim(fmt.Sprint(count), "map[]")
}

func (w *world) link(want string, edit ...func(*Options)) Result {
	w.t.Helper()
	r, err := Link(w.t.Context(), w.options(edit...))
	if err != nil || did(r) != want {
		w.t.Errorf("link: %v: %v; want %s", did(r), err, want)
	}
	return r
}

func (w *world) unlink(want string, edit ...func(*Options)) {
	w.t.Helper()
	if r, err := Unlink(w.t.Context(), w.options(edit...)); err != nil || did(r) != want {
		w.t.Errorf("unlink: %v: %v; want %s", did(r), err, want)
	}
}

func TestLinkAndUnlinkWithAFile(t *testing.T) {
	w := newWorld(t)
	w.link("created:7")
	w.link("left:1 unchanged:6")
	if w.tokens != 1 {
		t.Errorf("%d tokens for one member", w.tokens)
	}
	text, err := os.ReadFile(w.options().Keep.File)
	if err != nil || !strings.Contains(string(text), "https://a.example:6443") {
		t.Errorf("%s, %v", text, err)
	}
	w.link("created:2 deleted:2 left:1 unchanged:4", func(o *Options) { o.Namespaces = []string{"shop"} })
	w.link("created:2 deleted:2 left:1 unchanged:3 updated:1", func(o *Options) { o.Server.URL = "https://b.example" })
	w.unlink("deleted:6", func(o *Options) { o.Server.URL = "https://b.example" })
	w.unlink("")
	if _, err := os.Stat(w.options().Keep.File); !os.IsNotExist(err) {
		t.Error("the kubeconfig stays")
	}
}

func TestLinkWithASecret(t *testing.T) {
	w := newWorld(t)
	w.link("created:7", inSecret(w), func(o *Options) { o.Namespaces = []string{"shop"} })
	secret, err := w.ingress.CoreV1().Secrets("tributary-system").Get(t.Context(), "idc-a", metav1.GetOptions{})
	if err != nil || secret.Labels[config.SecretLabel] != config.SecretLabelValue || secret.Annotations[config.SettingsAnnotation] != "namespaces: {include: [shop], exclude: []}" {
		t.Errorf("%+v, %v", secret, err)
	}
	w.link("left:1 unchanged:6", inSecret(w), func(o *Options) { o.Namespaces = []string{"shop"} })
	w.unlink("deleted:6", inSecret(w))
	if list, _ := w.ingress.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); len(list.Items) > 0 {
		t.Error("the Secret stays")
	}
}

// TestTokenIsRenewedByASecondCall where less than half of its life is left, and where a
// shorter one is asked for.
func TestTokenIsRenewedByASecondCall(t *testing.T) {
	w := newWorld(t)
	w.link("created:7")
	w.life = time.Hour
	w.link("left:1 unchanged:5 updated:1")
	if w.tokens != 2 {
		t.Errorf("%d tokens", w.tokens)
	}
	w.link("left:1 unchanged:6")
}

func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*world)
		edit   func(*Options)
		want   string
	}{
		"the account of another member": {func(w *world) { w.link("created:7") }, func(o *Options) { o.Name, o.Keep.File = "idc-b", o.Keep.File+"b" }, "is that of member idc-a"},
		"a file that link did not make": {func(w *world) { w.write("apiVersion: v1\nkind: Config\n") }, nil, "is not the kubeconfig of idc-a"},
		"a file of another member":      {func(w *world) { w.link("created:7") }, func(o *Options) { o.Name, o.Namespace = "idc-b", "other" }, "is not the kubeconfig of idc-b"},
		"a role of somebody else":       {func(w *world) { w.foreign("ClusterRole", "", "tributary-member") }, nil, "was not made by link"},
		"a Secret that is no member's":  {func(w *world) { w.secret() }, func(o *Options) { o.Keep.Ingress = fake.NewClientset() }, ""},
		"another cluster by the same name": {func(w *world) {
			w.link("created:7")
			w.objects = newWorld(w.t).objects
			w.member.PrependReactor("get", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "x")
			})
		}, func(o *Options) { o.Server.URL = "https://other.example" }, "leads to another cluster"},
	} {
		w := newWorld(t)
		test.before(w)
		o := w.options()
		if test.edit != nil {
			test.edit(&o)
		}
		if test.want == "" {
			o.Keep.Ingress = w.ingress
			test.want = "it is not a member's"
		}
		if _, err := Link(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %s", name, err, test.want)
		}
	}
}

func (w *world) write(text string) {
	if err := os.WriteFile(w.options().Keep.File, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) secret() {
	_ = w.ingress.Tracker().Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tributary-system", Name: "idc-a"}})
}

// foreign is an object that somebody else made.
func (w *world) foreign(kind, namespace, name string) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace}}}
	if err := w.objects.Tracker().Create(resourceOf(kind), o, namespace); err != nil {
		w.t.Fatal(err)
	}
}

func TestValidate(t *testing.T) {
	w := newWorld(t)
	for flag, edit := range map[string]func(*Options){
		"NAME": func(o *Options) { o.Name = "A" }, "--account": func(o *Options) { o.Account = "a.b" }, "--namespaces": func(o *Options) { o.Namespaces = []string{"*"} },
		"--server": func(o *Options) { o.Server.URL = "http://x" }, "--lifetime": func(o *Options) { o.Lifetime = time.Minute },
	} {
		o := w.options(edit)
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), flag+": ") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	o := w.options()
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
}

func TestServerOf(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, []byte("pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := ServerOf(&api.Cluster{Server: "https://127.0.0.1:6443", CertificateAuthority: ca}); err != nil || string(s.CA) != "pem" || !s.Loopback() {
		t.Errorf("%+v, %v", s, err)
	}
	for _, c := range []api.Cluster{{Server: "http://x"}, {Server: "https://x", InsecureSkipTLSVerify: true}, {Server: "https://x", CertificateAuthority: "nowhere"}} {
		if _, err := ServerOf(&c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if (Server{URL: "https://a.example"}).Loopback() {
		t.Error("a.example is this machine")
	}
}

// TestLeastRights: nothing may be written, and the right to renew is of this account alone.
func TestLeastRights(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"shop", "pay", "shop"}} {
		o := (&world{t: t}).options(func(o *Options) { o.Namespaces = namespaces })
		manifests, err := o.Manifests()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifests {
			rules, _, _ := unstructured.NestedSlice(m.Object, "rules")
			for _, rule := range rules {
				verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
				names, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames")
				slices.Sort(verbs)
				if got := strings.Join(verbs, ","); got != "get,list,watch" && (got != "get" || names[0] != "kube-system") && (got != "create" || names[0] != "tributary-member") {
					t.Errorf("%s gives %v on %v", named(m), verbs, rule)
				}
			}
		}
		if want := 6 + max(0, 2*(len(namespaces)-1)-2); len(manifests) != want {
			t.Errorf("%d manifests for %v; want %d", len(manifests), namespaces, want)
		}
	}
}
