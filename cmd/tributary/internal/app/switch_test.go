// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	noMembers = "clusters: []\n"
	kinds     = 4 // that are watched
)

// While the ingress cluster is being opened the file may be edited: what it said then
// must not count, neither where to write nor what.
func TestConfigurationEditedWhileTheIngressClusterIsOpened(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines string
		moved bool // to another ingress cluster
	}{
		{"another ingress cluster", noMembers, true},
		{"orphans are to go", noMembers + "replicas: {orphans: delete}\n", false},
		{"both", noMembers + "replicas: {orphans: delete}\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			former, latter := newFront(t), newFront(t)
			asked, edited := make(chan struct{}), make(chan struct{})
			var once sync.Once
			former.atVersion = func() { once.Do(func() { close(asked); <-edited }) }
			used := former
			if c.moved {
				used = latter
			}
			former.left(t, "left", "gone")
			latter.left(t, "left", "gone")

			r := replicating(t, loadedWith(t, former.access("good"), noMembers))
			<-asked
			r.edit(loadedWith(t, used.access("good"), c.lines))
			close(edited)
			until(t, "it is ready", func() bool { return len(r.notReady()) == 0 })
			if got := r.ingress.Load().write.Host(); got != used.http.URL {
				t.Errorf("%s is written to, the configuration says %s", got, used.http.URL)
			}
			used.orphan(t, "orphan")
			if strings.Contains(c.lines, "delete") {
				until(t, "what is left of nobody goes", func() bool { return !used.stands("left") })
			} else if !used.stands("left") {
				t.Error("what is left of nobody is gone")
			}
			if c.moved && (len(former.writers) > 0 || former.open("good") > 0) {
				t.Errorf("the former ingress cluster is still in use: writes %q, %d watches", former.writers, former.open("good"))
			}
		})
	}
}

// A new kubeconfig of the ingress cluster takes nothing from the one in use before it
// has proven that it can be read with: until then the former writes, from then on the
// new one alone.
func TestIngressClusterIsReachedAnewOnceThatWorks(t *testing.T) {
	for name, refuse := range map[string]func(f *front, token string){
		"at once":               nil,
		"a token is refused":    func(f *front, token string) { f.refused = token },
		"nothing may be listed": func(f *front, token string) { f.unlisting = token },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t)
			first := loadedWith(t, f.access("first"), noMembers)
			r := replicating(t, first)
			until(t, "it watches", func() bool { return r.begun.Load() && f.open("first") == kinds })
			if refuse != nil {
				f.with(func() { refuse(f, "second") })
			}
			r.edit(loadedWith(t, f.access("second"), noMembers))
			if refuse != nil {
				f.servedBy(t, r, "first", "the former connection stays")
				r.edit(first) // and back
				f.servedBy(t, r, "first", "")
				r.edit(loadedWith(t, f.access("second"), noMembers))
				f.servedBy(t, r, "first", "the former connection stays")
				f.with(func() { refuse(f, "") })
			}
			until(t, "the new connection serves alone", func() bool { return f.open("first") == 0 && f.open("second") == kinds })
			f.servedBy(t, r, "second", "")
		})
	}
}

// servedBy waits until the status tells this error of the configuration, and demands
// that all is watched and written with one token.
func (f *front) servedBy(t *testing.T, r *App, token, trouble string) {
	t.Helper()
	until(t, "the status tells: "+trouble, func() bool {
		s := r.status()
		return strings.Contains(s.Config.Error, trouble) && (trouble != "") == (s.Config.Error != "") && s.Config.Error == s.Ingress.LastError
	})
	if s := r.status().Ingress; !s.Up || s.State != "live" {
		t.Errorf("the ingress cluster is %+v", s)
	}
	if got := f.open(token); got != kinds {
		t.Errorf("%d watches are open with the token %s, want %d", got, token, kinds)
	}
	if by := f.orphan(t, "orphan"); !slices.Equal(by, []string{token}) {
		t.Errorf("written with the tokens %q, want %s", by, token)
	}
}

// Settings that are edited while another side is being proven count for it, too.
func TestSettingsEditedWhileTheIngressClusterIsReachedAnew(t *testing.T) {
	f := newFront(t)
	f.left(t, "left", "gone")
	r := replicating(t, loadedWith(t, f.access("first"), noMembers))
	until(t, "it watches", func() bool { return r.begun.Load() && f.open("first") == kinds })
	f.with(func() { f.unlisting = "second" })
	r.edit(loadedWith(t, f.access("second"), noMembers))
	f.servedBy(t, r, "first", "the former connection stays")
	r.edit(loadedWith(t, f.access("second"), noMembers+"replicas: {orphans: delete}\n"))
	until(t, "what is left of nobody goes", func() bool { return !f.stands("left") })
	f.with(func() { f.unlisting = "" })
	until(t, "the former connection ends", func() bool { return f.open("first") == 0 })
	f.left(t, "again", "gone")
	until(t, "what is left of nobody goes", func() bool { return !f.stands("again") })
}
