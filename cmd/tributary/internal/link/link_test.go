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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"tributary.dev/tributary/clusters/config"
)

// world is a member and an ingress cluster, which apply as a server does, and a directory.
type world struct {
	t               *testing.T
	member, ingress *dynamicfake.FakeDynamicClient
	tokens          *fake.Clientset
	dir             string
	did             map[string]int
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, member: newCluster(), ingress: newCluster(), tokens: fake.NewClientset(), dir: t.TempDir()}
	issued := int64(0)
	w.tokens.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		issued++
		claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"kubernetes.io":{"namespace":%q,"serviceaccount":{"name":"tributary-member","uid":"u"}}}`,
			time.Now().Unix(), time.Now().Add(time.Hour).Unix()+issued, action.GetNamespace())
		token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: token}}, nil
	})
	return w
}

func newCluster() *dynamicfake.FakeDynamicClient {
	client := dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
	revision := 0
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		want := &unstructured.Unstructured{}
		if err := json.Unmarshal(patch.GetPatch(), &want.Object); err != nil {
			return true, nil, err
		}
		tracker, resource, namespace := client.Tracker(), patch.GetResource(), patch.GetNamespace()
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
			return true, want, tracker.Create(resource, want, namespace)
		}
		return true, want, tracker.Update(resource, want, namespace)
	})
	return client
}

func (w *world) options(edit ...func(*Options)) *Options {
	w.did = map[string]int{}
	o := &Options{
		Name: "idc-a", Namespace: "tributary-system", Account: "tributary-member", Server: &rest.Config{Host: "https://a.example:6443"},
		Member: w.member, Tokens: w.tokens.CoreV1(), File: filepath.Join(w.dir, "idc-a.kubeconfig"), IngressNamespace: "tributary-system",
		Report: func(did, _ string) { w.did[did]++ },
	}
	for _, e := range edit {
		e(o)
	}
	return o
}

func inSecret(w *world) func(*Options) { return func(o *Options) { o.Ingress = w.ingress } }

func only(namespaces ...string) func(*Options) {
	return func(o *Options) { o.Namespaces = namespaces }
}

func (w *world) link(want string, edit ...func(*Options)) {
	w.t.Helper()
	if _, err := Link(w.t.Context(), w.options(edit...)); err != nil || fmt.Sprint(w.did) != "map["+want+"]" {
		w.t.Errorf("link: %v: %v; want %s", w.did, err, want)
	}
}

func (w *world) unlink(want string, edit ...func(*Options)) {
	w.t.Helper()
	if err := Unlink(w.t.Context(), w.options(edit...)); err != nil || fmt.Sprint(w.did) != "map["+want+"]" {
		w.t.Errorf("unlink: %v: %v; want %s", w.did, err, want)
	}
}

func TestLinkAndUnlinkWithAFile(t *testing.T) {
	w := newWorld(t)
	file := w.options().File
	w.link("created:6 written:1")
	first, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(first), "https://a.example:6443") {
		t.Errorf("%s, %v", first, err)
	}
	w.link("unchanged:5 written:1")
	if second, _ := os.ReadFile(file); string(second) == string(first) {
		t.Error("a second call issues no other token")
	}
	w.link("created:2 unchanged:4 updated:1 written:1", only("shop"))
	w.link("deleted:2 unchanged:4 updated:1 written:1")
	w.unlink("deleted:7")
	w.unlink("")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Error("the kubeconfig stays")
	}
}

func TestLinkAndUnlinkWithASecret(t *testing.T) {
	w := newWorld(t)
	w.foreign(w.member, "v1", "Namespace", "", "tributary-system")
	w.link("created:8", inSecret(w), only("shop"))
	o := w.options()
	secrets := resource(w.ingress, o.secret(nil))
	secret, err := secrets.Get(t.Context(), "idc-a", metav1.GetOptions{})
	if err != nil || secret.GetLabels()[config.SecretLabel] != config.SecretLabelValue || secret.GetAnnotations()[config.SettingsAnnotation] != `namespaces: {include: ["shop"], exclude: []}` {
		t.Errorf("%+v, %v", secret, err)
	}
	w.link("unchanged:7 updated:1", inSecret(w), only("shop"))
	w.unlink("deleted:8", inSecret(w), only("shop"))
	if _, err := secrets.Get(t.Context(), "idc-a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret stays: %v", err)
	}
}

// TestANamespaceWithAnotherAccountStays: of another ingress cluster, or of Tributary itself.
func TestANamespaceWithAnotherAccountStays(t *testing.T) {
	w := newWorld(t)
	w.link("created:6 written:1")
	w.foreign(w.member, "v1", "ServiceAccount", "tributary-system", "tributary")
	w.unlink("deleted:6")
}

// TestRolesAreEnough for whoever may act in some namespaces alone.
func TestRolesAreEnough(t *testing.T) {
	w := newWorld(t)
	w.foreign(w.member, "v1", "Namespace", "", "tributary-system")
	w.member.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		beyond := action.GetNamespace() == "" && strings.HasPrefix(action.GetResource().Resource, "clusterrole")
		return beyond, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", nil)
	})
	w.link("created:5 refused:2 written:1", only("shop"))
	w.unlink("deleted:6", only("shop"))
}

// TestWhatLinkDidNotMake is neither changed nor deleted.
func TestWhatLinkDidNotMake(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*world)
		edit   func(*world, *Options)
		want   string
	}{
		"the account of another member": {func(w *world) { w.link("created:6 written:1") }, func(_ *world, o *Options) { o.Name, o.File = "idc-b", o.File+"b" }, "is that of member idc-a"},
		"a file that link did not make": {func(w *world) { w.write("apiVersion: v1\nkind: Config\n") }, nil, "is not the kubeconfig of idc-a"},
		"a file of another member":      {func(w *world) { w.link("created:6 written:1") }, func(_ *world, o *Options) { o.Name, o.Namespace = "idc-b", "other" }, "is not the kubeconfig of idc-b"},
		"a role of somebody else": {func(w *world) {
			w.foreign(w.member, "rbac.authorization.k8s.io/v1", "ClusterRole", "", "tributary-member")
		}, nil, "was not made by link"},
		"a Secret that is no member's": {func(w *world) { w.foreign(w.ingress, "v1", "Secret", "tributary-system", "idc-a") }, func(w *world, o *Options) { o.Ingress = w.ingress }, "was not made by link"},
		"a server without TLS":         {func(*world) {}, func(_ *world, o *Options) { o.Server.Host = "http://a" }, "give --server"},
		"a server that is not trusted": {func(*world) {}, func(_ *world, o *Options) { o.Server.Insecure = true }, "certificate-authority"},
	} {
		w := newWorld(t)
		test.before(w)
		o := w.options()
		if test.edit != nil {
			test.edit(w, o)
		}
		if _, err := Link(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %s", name, err, test.want)
		}
		if w.did["updated"]+w.did["deleted"]+w.did["written"] > 0 {
			t.Errorf("%s: %v", name, w.did)
		}
	}
}

func (w *world) write(text string) {
	if err := os.WriteFile(w.options().File, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// foreign is an object that somebody else made.
func (w *world) foreign(in *dynamicfake.FakeDynamicClient, version, kind, namespace, name string) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace}}}
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if err := in.Tracker().Create(plural, o, namespace); err != nil {
		w.t.Fatal(err)
	}
}

func TestValidate(t *testing.T) {
	w := newWorld(t)
	for flag, edit := range map[string]func(*Options){
		"NAME": func(o *Options) { o.Name = "A" }, "--account": func(o *Options) { o.Account = "a.b" }, "--namespaces": func(o *Options) { o.Namespaces = []string{"*"} },
		"--namespace": func(o *Options) { o.Namespace = "a\nb" }, "--ingress-namespace": func(o *Options) { o.IngressNamespace = "" },
	} {
		if err := w.options(edit).Validate(); err == nil || !strings.HasPrefix(err.Error(), flag+": ") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if err := w.options().Validate(); err != nil {
		t.Error(err)
	}
}

// TestLeastRights: nothing may be written, and the right to renew is of this account alone.
func TestLeastRights(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"shop", "pay"}} {
		objects, err := newWorld(t).options(only(namespaces...)).Objects()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
			for _, rule := range rules {
				verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
				of, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames")
				slices.Sort(verbs)
				if got := strings.Join(verbs, ","); got != "get,list,watch" && (got != "get" || of[0] != "kube-system") && (got != "create" || of[0] != "tributary-member") {
					t.Errorf("%s grants %v on %v", named(o), verbs, rule)
				}
			}
		}
		if want := 6 + 2*len(namespaces); len(objects) != want {
			t.Errorf("%d objects for %v; want %d", len(objects), namespaces, want)
		}
	}
}
