// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
)

// TestMembersOfUnreadSecretsAreShown: a process that goes on without the Secrets of members shows those that stand as
// silent, and that its configuration is not all in force.
func TestMembersOfUnreadSecretsAreShown(t *testing.T) {
	f := newFront(t)
	f.left(t, "web", "b")
	loaded := loadedWith(t, f.access("good"), noMembers+"clustersFrom: {secrets: {namespace: own}}\n")
	loaded.SecretsUnread = true
	r := New(loaded, Options{Path: "f", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	r.noteUnread(errors.New("it hangs"))
	if s := r.status(); s.Config.Error != "" {
		t.Errorf("before anything was asked: %s", s.Config.Error)
	}
	r.secretsReadOnce.Do(func() { close(r.secretsRead) }) // as after readyAfter
	runs(t, r)
	until(t, "what stands is listed", func() bool { return r.begun.Load() && r.ingress.Load().reconciler.Owned() == 1 })
	s := r.status()
	if len(s.Clusters) != 1 || s.Clusters[0].Name != "b" || s.Clusters[0].State != "silent" || s.Clusters[0].Reason == "" || s.Clusters[0].Up {
		t.Errorf("%+v", s.Clusters)
	}
	if got := r.metrics.Status().Orphans; len(got) > 0 {
		t.Errorf("a member that may be configured is an orphan: %+v", got)
	}
	for _, word := range []string{"clustersFrom.secrets", "namespace own", "it hangs", "grant list and watch"} {
		if !strings.Contains(s.Config.Error, word) {
			t.Errorf("%q lacks %q", s.Config.Error, word)
		}
	}
	read := loadedWith(t, f.access("good"), noMembers+"clustersFrom: {secrets: {namespace: own}}\n")
	r.edit(read)
	if s := r.status(); len(s.Clusters) != 0 || s.Config.Error != "" {
		t.Errorf("once they are read: %+v, %s", s.Clusters, s.Config.Error)
	}
	// Its Secret was deleted, say: it is no member, and its endpoints stay.
	until(t, "it is shown as an orphan", func() bool {
		orphans := r.metrics.Status().Orphans
		return len(orphans) == 1 && orphans[0].Cluster == "b" && orphans[0].Replicas == 1 && orphans[0].Endpoints > 0
	})
}

// TestRefusedSettingsAreShown: beside the state of the member.
func TestRefusedSettingsAreShown(t *testing.T) {
	loaded := loadedWith(t, config.Access{}, noMembers)
	loaded.SecretFaults = config.Faults{{File: "Secret own/b", Field: "tributary.dev/drian", Message: "unknown field"}}
	r := New(loaded, Options{Path: "f", Logger: slog.New(slog.DiscardHandler)})
	if got := r.status().Config.Error; got != loaded.SecretFaults.Error() {
		t.Errorf("%q", got)
	}
	loaded.Metrics.Err = config.Faults{{File: "f", Field: "metricsTLS.certFile", Message: "no such file"}}
	if got := r.status().Config.Error; got != loaded.SecretFaults.Error()+"\n"+loaded.Metrics.Err.Error() {
		t.Errorf("with the certificate of metricsListen: %q", got)
	}
}

// TestAbsentSecretIsAskedFor: a list is soft evidence. A member goes when its Secret is told to be deleted, or is not
// found or not selected when it is asked for.
func TestAbsentSecretIsAskedFor(t *testing.T) {
	a, b := config.Secret{Name: "idc-a"}, config.Secret{Name: "idc-b"}
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "idc-b", nil)
	older := kube.Replacement{Older: true}
	for name, test := range map[string]struct {
		found   bool
		err     error
		tell    func(*secretHandler)
		want    []string
		relists int
	}{
		"it is gone":      {false, nil, func(h *secretHandler) { h.Replaced([]config.Secret{a}, kube.Replacement{}) }, []string{"idc-a"}, 0},
		"the list lied":   {true, nil, func(h *secretHandler) { h.Replaced(nil, kube.Replacement{}) }, []string{"idc-a", "idc-b"}, 0},
		"no answer":       {false, errors.New("it hangs"), func(h *secretHandler) { h.Replaced([]config.Secret{a}, kube.Replacement{}) }, []string{"idc-a", "idc-b"}, 1},
		"no right to get": {false, forbidden, func(h *secretHandler) { h.Replaced([]config.Secret{a}, kube.Replacement{}) }, []string{"idc-a", "idc-b"}, 0},
		"an older list":   {false, nil, func(h *secretHandler) { h.Replaced(nil, older) }, []string{"idc-a", "idc-b"}, 0},
		"a list after an older one": {false, nil, func(h *secretHandler) {
			h.Replaced([]config.Secret{a}, older)
			h.Replaced([]config.Secret{a}, kube.Replacement{})
		}, []string{"idc-a", "idc-b"}, 0},
		"made again and taken away after an older one": {false, nil, func(h *secretHandler) {
			h.Replaced([]config.Secret{a}, older)
			h.Upserted(b, kube.EventMeta{})
			h.Replaced([]config.Secret{a}, kube.Replacement{})
		}, []string{"idc-a"}, 0},
		"it is told": {true, nil, func(h *secretHandler) { h.Deleted(b, kube.EventMeta{}) }, []string{"idc-a"}, 0},
	} {
		var offered []string
		relists := 0
		h := &secretHandler{
			m: &secretMembers{logger: slog.New(slog.DiscardHandler), offer: func(all []config.Secret) {
				offered = nil
				for _, s := range all {
					offered = append(offered, s.Name)
				}
			}},
			standing: map[string]config.Secret{}, lost: map[string]bool{}, relist: func() { relists++ },
			read: func(name string) (config.Secret, bool, error) { return config.Secret{Name: name}, test.found, test.err },
		}
		h.Replaced([]config.Secret{a, b}, kube.Replacement{})
		test.tell(h)
		slices.Sort(offered)
		if !slices.Equal(offered, test.want) || !slices.Equal(slices.Sorted(maps.Keys(h.standing)), test.want) || relists != test.relists {
			t.Errorf("%s: members %v, standing %v, %d relists; want %v, %d", name, offered, h.standing, relists, test.want, test.relists)
		}
	}
}

// TestSecretThatIsNotSelectedIsNoMember.
func TestSecretThatIsNotSelectedIsNoMember(t *testing.T) {
	secrets := fake.NewClientset(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "in", Labels: map[string]string{"member": "true"}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "out"}},
	).CoreV1().Secrets("own")
	for name, want := range map[string]bool{"in": true, "out": false, "none": false} {
		if s, found, err := readSecret(t.Context(), secrets, name, "member=true"); found != want || err != nil || found && s.Name != name {
			t.Errorf("%s: %v, %v, %v", name, s, found, err)
		}
	}
}

// TestForbiddenSecretsAreToldOnce: not at each retry, between which the loop lists; again after they could be read.
func TestForbiddenSecretsAreToldOnce(t *testing.T) {
	var log strings.Builder
	h := &secretHandler{m: &secretMembers{logger: slog.New(slog.NewTextHandler(&log, nil)), unread: func(error) {}}}
	forbidden := kube.State{Phase: kube.Forbidden, Err: errors.New("no")}
	for _, step := range []struct {
		state kube.State
		lines int
	}{
		{forbidden, 1}, {kube.State{Phase: kube.Listing}, 1}, {forbidden, 1}, {kube.State{Phase: kube.Following}, 1}, {forbidden, 2},
	} {
		h.Changed(step.state)
		if got := strings.Count(log.String(), "ERROR"); got != step.lines {
			t.Fatalf("%d lines after %+v:\n%s", got, step.state, &log)
		}
	}
}
