// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"tributary.dev/tributary/clusters/config"
)

// TestFilesOfOthersStay: a file that link did not make for this member is neither replaced nor deleted.
func TestFilesOfOthersStay(t *testing.T) {
	b := newBench(t)
	b.Keep = Keep{File: filepath.Join(t.TempDir(), "idc-a.kubeconfig")}
	b.link(t)
	made := string(mustRead(t, b.Keep))
	if got := b.link(t); len(got) > 0 {
		t.Errorf("what link made is not known again: %q", got)
	}
	for name, text := range map[string]string{
		"no kubeconfig": "notes", "empty": "",
		"an administrator's": strings.ReplaceAll(made, "token: ", "password: "),
		"another member's":   strings.ReplaceAll(made, "idc-a", "idc-b"),
		"more contexts":      strings.Replace(made, "contexts:\n", "contexts:\n- context: {cluster: idc-a, user: me}\n  name: mine\n", 1),
	} {
		fresh := newBench(t)
		fresh.Keep = b.Keep
		if err := os.WriteFile(b.Keep.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Link(t.Context(), fresh.Options); err == nil || !strings.Contains(err.Error(), "--file") || len(r.Steps) > 0 {
			t.Errorf("%s: link did %v, %v", name, r.Steps, err)
		}
		if r, err := Unlink(t.Context(), fresh.Options); err == nil || len(r.Steps) > 0 {
			t.Errorf("%s: unlink did %v, %v", name, r.Steps, err)
		}
		if left := string(mustRead(t, b.Keep)); left != text {
			t.Errorf("%s: the file is now %.60q", name, left)
		}
	}
}

// TestSecretsOfOthersStay: a member that somebody made by hand has the same label, and is neither replaced nor deleted.
func TestSecretsOfOthersStay(t *testing.T) {
	b := newBench(t)
	b.link(t)
	secrets := b.Keep.Ingress.CoreV1().Secrets(b.Keep.Namespace)
	made, err := secrets.Get(t.Context(), b.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := string(made.Data[config.SecretKey])
	for name, data := range map[string]map[string]string{
		"an administrator's": {config.SecretKey: strings.ReplaceAll(text, "token: ", "password: ")},
		"another account's":  {config.SecretKey: strings.ReplaceAll(text, b.Account, "somebody")},
		"something beside":   {config.SecretKey: text, "other": "x"},
		"another key":        {"value": text},
		"empty":              {},
	} {
		next := made.DeepCopy()
		next.Data = map[string][]byte{}
		for key, value := range data {
			next.Data[key] = []byte(value)
		}
		if _, err := secrets.Update(t.Context(), next, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.refuses(t, name, "choose another name, or delete it")
		left, err := secrets.Get(t.Context(), b.Name, metav1.GetOptions{})
		if err != nil || !maps.EqualFunc(left.Data, next.Data, func(a, b []byte) bool { return string(a) == string(b) }) {
			t.Errorf("%s: the Secret is now %v, %v", name, left, err)
		}
	}
}

// refuses: neither command does anything, and both say what to do.
func (b *bench) refuses(t *testing.T, name, remedy string) {
	t.Helper()
	standing := len(b.standing(t))
	for _, call := range []struct {
		name string
		do   func() (Result, error)
	}{
		{"link", func() (Result, error) { return Link(t.Context(), b.Options) }},
		{"unlink", func() (Result, error) { return Unlink(t.Context(), b.Options) }},
	} {
		if r, err := call.do(); err == nil || !strings.Contains(err.Error(), remedy) || len(r.Steps) > 0 || len(b.standing(t)) != standing {
			t.Errorf("%s: %s did %v, %v", name, call.name, r.Steps, err)
		}
	}
}

// TestAnotherCluster: a slip in --context is noticed, whatever that cluster has.
func TestAnotherCluster(t *testing.T) {
	a, b := newBench(t), newBench(t)
	a.link(t)
	b.Server.URL, b.Keep.Ingress = "https://idc-b.example:6443", a.Keep.Ingress
	b.refuses(t, "a cluster without the account", "give the --context of idc-a")
	b.Name, b.Keep.Name = "idc-b", "idc-b"
	b.link(t)
	b.Name, b.Keep.Name = "idc-a", "idc-a"
	b.refuses(t, "a member of another name", "is that of member idc-b")
	b.Keep.Name = "idc-x"
	b.refuses(t, "and nothing kept", "is that of member idc-b")
	// One that an older version linked does not say of which member it is.
	api := b.Objects.Resource(resourceOf("ServiceAccount")).Namespace(b.Namespace)
	account, err := api.Get(t.Context(), b.Account, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account.SetAnnotations(nil)
	if _, err := api.Update(t.Context(), account, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.Keep.Name = "idc-a"
	b.refuses(t, "an older version's", "give the --context of idc-a")
	// The cluster itself, at another address, is known by its account.
	a.Server.URL = "https://moved.example"
	if _, err := Unlink(t.Context(), a.Options); err != nil {
		t.Error(err)
	}
}

// TestAccountLearnsItsMember: one of an older version is told at the next link.
func TestAccountLearnsItsMember(t *testing.T) {
	b := newBench(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "tributary-system", Name: "tributary-member", Labels: account{}.meta("", "").Labels, Annotations: map[string]string{"team": "edge"},
	}})
	b.link(t)
	found, err := b.findAccount(t.Context())
	if err != nil || found.GetAnnotations()[memberAnnotation] != b.Name || found.GetAnnotations()["team"] != "edge" {
		t.Errorf("annotations %v, %v", found.GetAnnotations(), err)
	}
}

// TestAccountsNamedAsTheRolesOfAnother: neither is given what the other has, nor takes it.
func TestAccountsNamedAsTheRolesOfAnother(t *testing.T) {
	b := newBench(t)
	blue, reads := b.Options, b.Options
	blue.Account, blue.Keep.Name, blue.Namespaces = "blue", "blue", []string{"web"}
	reads.Account, reads.Keep.Name = "blue-reads", "reads"
	own := map[string][]string{}
	for _, o := range []Options{blue, reads} {
		r, err := Link(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Link(t.Context(), o); err != nil || len(did(again)) > 0 {
			t.Errorf("%s again: %q, %v", o.Account, did(again), err)
		}
		for _, step := range r.Steps {
			if step.Did == "deleted" {
				t.Errorf("linking %s deletes %s", o.Account, step.What)
			}
			own[o.Account] = append(own[o.Account], step.What)
		}
	}
	// In its own namespace the one would have the Role of the other.
	both := blue
	both.Namespaces = []string{"web", b.Namespace}
	before := b.standing(t)
	if r, err := Link(t.Context(), both); err == nil || !strings.Contains(err.Error(), "gives rights to the account blue-reads") || len(r.Steps) > 0 || !slices.Equal(b.standing(t), before) {
		t.Errorf("%q, %v", did(r), err)
	}
	for _, o := range []Options{reads, blue} {
		r, err := Unlink(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range r.Steps {
			if step.Did == "deleted" && step.What != "Namespace "+b.Namespace && !slices.Contains(own[o.Account], step.What) {
				t.Errorf("unlinking %s deletes %s", o.Account, step.What)
			}
		}
	}
	if left := b.standing(t); len(left) > 0 {
		t.Errorf("%q stay", left)
	}
}

// TestUnlinkFindsTheKubeconfigFirst: an account that stands has one somewhere, by which Tributary follows the member.
func TestUnlinkFindsTheKubeconfigFirst(t *testing.T) {
	b := newBench(t)
	b.link(t)
	before := b.standing(t)
	for name, elsewhere := range map[string]Keep{
		"no --ingress-context":    {File: filepath.Join(t.TempDir(), "idc-a.kubeconfig")},
		"another ingress cluster": {Ingress: newBench(t).Keep.Ingress, Namespace: b.Keep.Namespace, Name: b.Name},
		"another namespace":       {Ingress: b.Keep.Ingress, Namespace: "other", Name: b.Name},
	} {
		o := b.Options
		o.Keep = elsewhere
		if r, err := Unlink(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--ingress-context") || len(r.Steps) > 0 || !slices.Equal(b.standing(t), before) {
			t.Errorf("%s: %q, %v", name, did(r), err)
		}
	}
	if _, err := b.Keep.remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.KeptNowhere = true
	if _, err := Unlink(t.Context(), b.Options); err != nil || len(b.standing(t)) > 0 {
		t.Errorf("%v, %q stay", err, b.standing(t))
	}
}

// TestAccountOfTwoInstallationsStays until the last of them is unlinked.
func TestAccountOfTwoInstallationsStays(t *testing.T) {
	b := newBench(t)
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "one"}}
	b.Keep.Ingress = fake.NewClientset(system)
	elsewhere := system.DeepCopy()
	elsewhere.UID = "two"
	for name, keep := range map[string]Keep{
		"another namespace":       {Ingress: b.Keep.Ingress, Namespace: "blue", Name: b.Name},
		"another ingress cluster": {Ingress: fake.NewClientset(elsewhere), Namespace: b.Keep.Namespace, Name: b.Name},
		"a file":                  {File: filepath.Join(t.TempDir(), "idc-a.kubeconfig")},
	} {
		second := b.Options
		second.Keep = keep
		for _, o := range []Options{b.Options, second, b.Options, second} {
			if _, err := Link(t.Context(), o); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if again, err := Link(t.Context(), second); err != nil || len(did(again)) > 0 {
			t.Errorf("%s again: %q, %v", name, did(again), err)
		}
		before := b.standing(t)
		r, err := Unlink(t.Context(), second)
		if err != nil || !slices.Equal(b.standing(t), before) || len(r.Steps) != 2 || r.Steps[0].Did != "deleted" || r.Steps[1].Did != "left" {
			t.Errorf("%s: unlink did %v, %v", name, r.Steps, err)
		}
		if got := b.link(t); len(got) > 0 {
			t.Errorf("%s: the first lost %q", name, got)
		}
		if _, err := Unlink(t.Context(), b.Options); err != nil || len(b.standing(t)) > 0 {
			t.Errorf("%s: the last leaves %q, %v", name, b.standing(t), err)
		}
	}
	// One that was deleted by hand keeps nothing.
	second := b.Options
	second.Keep.Namespace = "blue"
	for _, o := range []Options{b.Options, second} {
		if _, err := Link(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := second.Keep.remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := Unlink(t.Context(), b.Options); err != nil || len(b.standing(t)) > 0 {
		t.Errorf("%q stay, %v", b.standing(t), err)
	}
}
