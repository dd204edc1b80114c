// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	k8stesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

// bench is a member and an ingress cluster in memory.
type bench struct {
	Options
	tokens int
	age    time.Duration
	// refused: the member takes none of the tokens that it gave.
	refused bool
}

// accounts counts those of all members: no two have one UID.
var accounts atomic.Int64

func newBench(t *testing.T, existing ...runtime.Object) *bench {
	t.Helper()
	member, objects := fake.NewClientset(), dynamicfake.NewSimpleDynamicClient(scheme.Scheme, existing...)
	objects.PrependReactor("create", "serviceaccounts", func(action k8stesting.Action) (bool, runtime.Object, error) {
		action.(k8stesting.CreateAction).GetObject().(metav1.Object).SetUID(types.UID(fmt.Sprint("account-", accounts.Add(1))))
		return false, nil, nil
	})
	b := &bench{Options: Options{
		Name: "idc-a", Namespace: "tributary-system", Account: "tributary-member", Lifetime: time.Hour,
		Server: Server{URL: "https://idc-a.example:6443"},
		Member: member, Objects: objects,
		Keep: Keep{Ingress: fake.NewClientset(), Namespace: "tributary-system", Name: "idc-a"},
	}}
	member.PrependReactor("create", "serviceaccounts/token", func(action k8stesting.Action) (bool, runtime.Object, error) {
		b.tokens++
		request := action.(k8stesting.CreateAction).GetObject().(*authenticationv1.TokenRequest).DeepCopy()
		issued := time.Now().Add(-b.age)
		ends := issued.Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second)
		create := action.(k8stesting.CreateActionImpl)
		account, err := b.Objects.Resource(resourceOf("ServiceAccount")).Namespace(create.Namespace).Get(t.Context(), create.Name, metav1.GetOptions{})
		if err != nil {
			return true, nil, err
		}
		claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"kubernetes.io":{"namespace":%q,"serviceaccount":{"name":%q,"uid":%q}}}`,
			issued.Unix(), ends.Unix(), create.Namespace, create.Name, account.GetUID())
		request.Status = authenticationv1.TokenRequestStatus{
			Token:               fmt.Sprintf("%d.%s.secret", b.tokens, base64.RawURLEncoding.EncodeToString([]byte(claims))),
			ExpirationTimestamp: metav1.NewTime(ends),
		}
		return true, request, nil
	})
	member.PrependReactor("create", "tokenreviews", func(action k8stesting.Action) (bool, runtime.Object, error) {
		review := action.(k8stesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = !b.refused && strings.HasSuffix(review.Spec.Token, ".secret")
		return true, review, nil
	})
	return b
}

// did lists what a call did, without what it left as it was.
func did(r Result) (changes []string) {
	for _, s := range r.Steps {
		if s.Did != "unchanged" {
			changes = append(changes, s.Did+" "+s.What)
		}
	}
	return changes
}

func (b *bench) link(t *testing.T) []string {
	t.Helper()
	r, err := Link(t.Context(), b.Options)
	if err != nil {
		t.Fatal(err)
	}
	return did(r)
}

// standing are the objects of ours in the member.
func (b *bench) standing(t *testing.T) (all []string) {
	t.Helper()
	for _, r := range resources {
		list, err := b.Objects.Resource(r.resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			all = append(all, named(&o))
		}
	}
	return all
}

// TestLinkMakesWhatTheChartMakes: whoever installs by Helm or kubectl gets the same rights.
func TestLinkMakesWhatTheChartMakes(t *testing.T) {
	text, err := os.ReadFile("../../../../deploy/kubernetes/member.yaml")
	if err != nil {
		t.Fatal(err)
	}
	charts := map[string]map[string]any{}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			t.Fatal(err)
		}
		charts[named(o)] = o.Object
	}
	manifests, err := newBench(t).Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range manifests {
		want := charts[named(o)]
		delete(charts, named(o))
		for _, field := range []string{"rules", "roleRef", "subjects", "automountServiceAccountToken"} {
			if !reflect.DeepEqual(o.Object[field], want[field]) {
				t.Errorf("%s: %s is %v, in the chart %v", named(o), field, o.Object[field], want[field])
			}
		}
	}
	for name := range charts {
		t.Errorf("only the chart has %s", name)
	}
}

// TestLinkIsIdempotent: a second call changes nothing until half of the token's life is over.
func TestLinkIsIdempotent(t *testing.T) {
	b := newBench(t)
	want := []string{
		"created Namespace tributary-system", "created ServiceAccount tributary-system/tributary-member",
		"created Role tributary-system/tributary-member", "created RoleBinding tributary-system/tributary-member",
		"created ClusterRole tributary-member", "created ClusterRoleBinding tributary-member", "created Secret tributary-system/idc-a",
	}
	if got := b.link(t); !slices.Equal(got, want) {
		t.Errorf("first: %q", got)
	}
	if got := b.link(t); len(got) > 0 || b.tokens != 1 {
		t.Errorf("again: %q, %d tokens", got, b.tokens)
	}
	b.Server.URL = "https://other.example"
	if got := b.link(t); !slices.Equal(got, []string{"updated Secret tributary-system/idc-a"}) {
		t.Errorf("at another address: %q", got)
	}
	b.age, b.Server.URL = 40*time.Minute, "https://idc-a.example:6443"
	b.link(t)
	if got := b.link(t); !slices.Equal(got, []string{"updated Secret tributary-system/idc-a"}) {
		t.Errorf("with an old token: %q", got)
	}
	b.age = 0
	for asked, change := range map[string]func(){"a shorter life": func() { b.Lifetime /= 2 }, "one that the member takes": func() { b.refused = true }} {
		b.link(t)
		change()
		if got := b.link(t); !slices.Equal(got, []string{"updated Secret tributary-system/idc-a"}) {
			t.Errorf("%s: %q", asked, got)
		}
		b.refused = false
		if got := b.link(t); len(got) > 0 {
			t.Errorf("%s, again: %q", asked, got)
		}
	}
}

// TestLinkNarrowsRights: what a call does not want any more goes.
func TestLinkNarrowsRights(t *testing.T) {
	b := newBench(t)
	b.link(t)
	b.Namespaces = []string{"web", "shop"}
	want := []string{
		"created Role shop/tributary-member-reads", "created RoleBinding shop/tributary-member-reads",
		"created Role web/tributary-member-reads", "created RoleBinding web/tributary-member-reads",
		"deleted ClusterRoleBinding tributary-member", "deleted ClusterRole tributary-member", "updated Secret tributary-system/idc-a",
	}
	if got := b.link(t); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	secret, err := b.Keep.Ingress.CoreV1().Secrets("tributary-system").Get(t.Context(), "idc-a", metav1.GetOptions{})
	if err != nil || secret.Annotations["tributary.dev/namespaces"] != "{include: [web, shop], exclude: []}" || secret.Annotations["tributary.dev/rolesOnly"] != "true" {
		t.Errorf("the member's settings: %v, %v", secret.Annotations, err)
	}
	if secret.Labels["app.kubernetes.io/managed-by"] != "tributary" {
		t.Errorf("the Secret lacks the mark: %v", secret.Labels)
	}
	b.Namespaces = []string{"web"}
	if got := b.link(t); !slices.Equal(got, []string{"deleted RoleBinding shop/tributary-member-reads", "deleted Role shop/tributary-member-reads", "updated Secret tributary-system/idc-a"}) {
		t.Errorf("%q", got)
	}
}

// TestSettingsOfOthersStay: what somebody set on a member's Secret a second call leaves, unless it says else.
func TestSettingsOfOthersStay(t *testing.T) {
	b := newBench(t)
	b.link(t)
	secrets := b.Keep.Ingress.CoreV1().Secrets(b.Keep.Namespace)
	for _, set := range []map[string]string{
		{namespacesSetting: "{include: [shop]}"}, {namespacesSetting: "{include: [shop], exclude: []}"}, {rolesOnlySetting: "true", namespacesSetting: "{include: [shop], exclude: [x]}"},
	} {
		secret, err := secrets.Get(t.Context(), b.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		secret.Annotations = set
		if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := b.link(t); len(got) > 0 || b.tokens != 1 {
			t.Errorf("%v: %q, %d tokens", set, got, b.tokens)
		}
		b.Server.URL += "/x" // so that it is written
		b.link(t)
		b.Server.URL, b.tokens = strings.TrimSuffix(b.Server.URL, "/x"), 0
		b.link(t)
		if after, err := secrets.Get(t.Context(), b.Name, metav1.GetOptions{}); err != nil || !maps.Equal(after.Annotations, set) {
			t.Errorf("%v became %v, %v", set, after.Annotations, err)
		}
	}
	b.Namespaces = []string{"web"}
	b.link(t)
	b.Namespaces = nil
	b.link(t)
	if after, err := secrets.Get(t.Context(), b.Name, metav1.GetOptions{}); err != nil || len(after.Annotations) > 0 {
		t.Errorf("what link set stays: %v, %v", after.Annotations, err)
	}
}

// TestLinkMendsRights: what somebody edited is what it should be again.
func TestLinkMendsRights(t *testing.T) {
	b := newBench(t)
	b.link(t)
	api := b.Objects.Resource(resourceOf("ClusterRole"))
	role, err := api.Get(t.Context(), "tributary-member", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Object["rules"] = []any{}
	if _, err := api.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := b.link(t); !slices.Equal(got, []string{"updated ClusterRole tributary-member"}) {
		t.Errorf("%q", got)
	}
}

// TestUnlinkTakesAwayWhatLinkMade, and no more.
func TestUnlinkTakesAwayWhatLinkMade(t *testing.T) {
	b := newBench(t)
	for _, namespaces := range [][]string{nil, {"web"}} {
		b.Namespaces = namespaces
		b.link(t)
		for range 2 { // twice: what is gone is no error
			if _, err := Unlink(t.Context(), b.Options); err != nil {
				t.Fatal(err)
			}
		}
		if left := b.standing(t); len(left) > 0 {
			t.Errorf("%v: %q stay", namespaces, left)
		}
		if kept, err := b.Keep.read(t.Context()); err != nil || kept.found {
			t.Errorf("the kubeconfig stays (%v)", err)
		}
	}
}

// TestOthersObjectsStay: what link did not make is neither changed nor deleted.
func TestOthersObjectsStay(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tributary-system", Labels: map[string]string{"team": "x"}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "tributary-system", Name: "tributary-member"}}
	b := newBench(t, namespace, account)
	got := b.link(t)
	for _, want := range []string{"left Namespace tributary-system", "left ServiceAccount tributary-system/tributary-member"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q has no %q", got, want)
		}
	}
	if _, err := Unlink(t.Context(), b.Options); err != nil {
		t.Fatal(err)
	}
	if left := b.standing(t); !slices.Equal(left, []string{"Namespace tributary-system", "ServiceAccount tributary-system/tributary-member"}) {
		t.Errorf("%q stay", left)
	}
	// A Secret of that name that is no member's.
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tributary-system", Name: "idc-a"}, Data: map[string][]byte{"password": []byte("x")}}
	b = newBench(t)
	b.Keep.Ingress = fake.NewClientset(other)
	if _, err := Link(t.Context(), b.Options); err == nil || b.tokens > 0 {
		t.Errorf("%v, %d tokens", err, b.tokens)
	}
	if _, err := Unlink(t.Context(), b.Options); err == nil {
		t.Error("it was deleted")
	}
}

// TestSharedNamespaceStays while another account is in it.
func TestSharedNamespaceStays(t *testing.T) {
	b := newBench(t)
	b.link(t)
	second := b.Options
	second.Account, second.Keep.Name = "other", "second"
	if _, err := Link(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if _, err := Unlink(t.Context(), b.Options); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Namespace tributary-system", "ServiceAccount tributary-system/other", "ClusterRole other"} {
		if left := b.standing(t); !slices.Contains(left, want) {
			t.Errorf("%q lacks %s", left, want)
		}
	}
}

// TestNamespaceWithOthersThingsStays: they would go with it.
func TestNamespaceWithOthersThingsStays(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "tributary-system", Name: "guest"}
	standard := []runtime.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "tributary-system", Name: "default"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tributary-system", Name: "kube-root-ca.crt"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tributary-system", Name: "default-token-x"}, Type: corev1.SecretTypeServiceAccountToken},
	}
	for kind, guest := range map[string]runtime.Object{
		"": nil, "Pod": &corev1.Pod{ObjectMeta: meta}, "Secret": &corev1.Secret{ObjectMeta: meta}, "ConfigMap": &corev1.ConfigMap{ObjectMeta: meta},
		"Service": &corev1.Service{ObjectMeta: meta}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaim{ObjectMeta: meta}, "Deployment": &appsv1.Deployment{ObjectMeta: meta},
	} {
		existing := standard
		want := Step{Did: "deleted", What: "Namespace tributary-system"}
		if guest != nil {
			existing = append(slices.Clone(standard), guest)
			want.Did, want.Why = "left", kind+" tributary-system/guest is in it"
		}
		b := newBench(t, existing...)
		b.link(t)
		r, err := Unlink(t.Context(), b.Options)
		if err != nil || !slices.Contains(r.Steps, want) {
			t.Errorf("with %q: %v, %v", kind, r.Steps, err)
		}
	}
	// Whoever may not look does not delete.
	b := newBench(t)
	b.link(t)
	b.Objects.(*dynamicfake.FakeDynamicClient).PrependReactor("list", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)
	})
	if _, err := Unlink(t.Context(), b.Options); err != nil || !slices.Contains(b.standing(t), "Namespace tributary-system") {
		t.Errorf("without the right to list Secrets: %v, %v", b.standing(t), err)
	}
}

// TestAccountElsewhereKeepsItsRights: a second namespace neither takes nor deletes what the first has.
func TestAccountElsewhereKeepsItsRights(t *testing.T) {
	b := newBench(t)
	b.link(t)
	before := b.standing(t)
	second := b.Options
	second.Namespace, second.Keep.Name = "other-system", "second"
	for name, call := range map[string]func(context.Context, Options) (Result, error){"link": Link, "unlink": Unlink} {
		r, err := call(t.Context(), second)
		if err == nil || !strings.Contains(err.Error(), "--account") || len(r.Steps) > 0 {
			t.Errorf("%s did %v, %v", name, r.Steps, err)
		}
	}
	if got := b.standing(t); !slices.Equal(got, before) {
		t.Errorf("%q stand", got)
	}
	if got := b.link(t); len(got) > 0 {
		t.Errorf("the first lost %q", got)
	}
}

// TestKubeconfigInAFile is for its owner alone, and no step shows the token.
func TestKubeconfigInAFile(t *testing.T) {
	b := newBench(t)
	b.Keep = Keep{File: filepath.Join(t.TempDir(), "idc-a.kubeconfig")}
	r, err := Link(t.Context(), b.Options)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(b.Keep.File)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if strings.Contains(fmt.Sprintf("%+v", r), "secret") {
		t.Errorf("%+v", r)
	}
	if _, ok := b.stillGood(t.Context(), kept{text: mustRead(t, b.Keep)}); !ok {
		t.Error("what was written is not what is read")
	}
	if _, err := Unlink(context.Background(), b.Options); err != nil {
		t.Fatal(err)
	}
	if mustRead(t, b.Keep) != nil {
		t.Error("the file stays")
	}
}

// TestFileThatCannotBeWritten: no token is asked for that nothing would keep.
func TestFileThatCannotBeWritten(t *testing.T) {
	b := newBench(t)
	b.Keep = Keep{File: filepath.Join(t.TempDir(), "gone", "idc-a.kubeconfig")}
	if _, err := Link(t.Context(), b.Options); err == nil || !strings.Contains(err.Error(), b.Keep.File+", whose directory must be writable") {
		t.Error(err)
	}
	for _, action := range b.Member.(*fake.Clientset).Actions() {
		if action.GetSubresource() == "token" {
			t.Error("a token was asked for")
		}
	}
}

// TestTokenOfADeletedAccount is none of the account that has its name now.
func TestTokenOfADeletedAccount(t *testing.T) {
	b := newBench(t)
	b.link(t)
	if err := b.Objects.Resource(resourceOf("ServiceAccount")).Namespace("tributary-system").Delete(t.Context(), "tributary-member", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"created ServiceAccount tributary-system/tributary-member", "updated Secret tributary-system/idc-a"}
	if got := b.link(t); !slices.Equal(got, want) || b.tokens != 2 {
		t.Errorf("%q, %d tokens", got, b.tokens)
	}
}

func mustRead(t *testing.T, k Keep) []byte {
	t.Helper()
	kept, err := k.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return kept.text
}

func TestOptionsAreChecked(t *testing.T) {
	for flag, change := range map[string]func(*Options){
		"NAME": func(o *Options) { o.Name = "A" }, "--namespace": func(o *Options) { o.Namespace = "" }, "--account": func(o *Options) { o.Account = "a.b" },
		"--namespaces": func(o *Options) { o.Namespaces = []string{"*"} }, "--lifetime": func(o *Options) { o.Lifetime = time.Minute },
		"--server": func(o *Options) { o.Server.URL = "http://idc-a.example" }, "--ingress-namespace": func(o *Options) { o.Keep.Namespace = "UP" },
	} {
		o := newBench(t).Options
		change(&o)
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
