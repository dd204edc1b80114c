// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/config"
)

// process is one of several of an installation, as if on its own machine.
type process struct {
	*App
	end func()
}

func beside(t *testing.T, loaded *config.Loaded, address string) *process {
	t.Helper()
	r := New(loaded, Options{Path: "f", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)).With("process", address)})
	r.address = address
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()
	p := &process{App: r, end: sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.metrics.Flush()
	})}
	t.Cleanup(p.end)
	return p
}

func (p *process) in(state string) func() bool {
	return func() bool { return p.status().Leader.State == state }
}

// Of two processes one writes. The other is ready, follows, and takes over at once when
// the first ends; nothing is written for that.
func TestTwoProcessesOneWrites(t *testing.T) {
	f := newFront(t)
	f.left(t, "left", "gone")
	seen := make(chan struct{})
	f.atWrite = func(_ string, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/orphan") {
			select {
			case <-seen:
			case <-r.Context().Done():
			}
		}
	}
	loaded := func(token string) *config.Loaded { return loadedWith(t, f.access(token), noMembers) }
	first := beside(t, loaded("first"), "first:1")
	until(t, "the first leads, and has written what was left in the form of today", func() bool {
		return first.in("leading")() && len(first.metrics.Changes().All()) == 1
	})
	second := beside(t, loaded("second"), "second:1")
	until(t, "the second is ready", func() bool { return len(second.notReady()) == 0 })
	until(t, "the second stands by", func() bool {
		s := second.status().Leader
		return s.State == "standby" && s.Phase == "standby" && strings.HasSuffix(s.Holder, "first:1")
	})
	f.with(func() { f.writers = nil })
	f.unwanted(t, "orphan")
	follows := func(replicas int) func() bool {
		return func() bool { return second.ingress.Load().reconciler.Owned() == replicas }
	}
	until(t, "the second sees the orphan", follows(2))
	close(seen)
	until(t, "the second sees it go", follows(1))
	f.with(func() {
		if !slices.Equal(f.writers, []string{"first"}) {
			t.Errorf("written with %q", f.writers)
		}
		f.writers = nil
	})
	first.end()
	if holder := f.holds(); strings.HasSuffix(holder, "first:1") {
		t.Error("the first has ended, and holds the Lease")
	}
	until(t, "the second leads", second.in("leading"))
	f.with(func() {
		if len(f.writers) > 0 {
			t.Errorf("the takeover wrote: %q", f.writers)
		}
	})
	if by := f.orphan(t, "again"); !slices.Equal(by, []string{"second"}) {
		t.Errorf("written with %q", by)
	}
}

// The connection of the ingress cluster is exchanged without anybody else getting in,
// and without waiting for a write that hangs on the former one.
func TestExchangeKeepsTheLeaseAndWaitsForNoHangingWrite(t *testing.T) {
	f := newFront(t)
	hang, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	f.atWrite = func(token string, r *http.Request) {
		if token == "first" && r.Method == http.MethodDelete {
			close(hang)
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}
	leader := beside(t, loadedWith(t, f.access("first"), noMembers), "leader:1")
	until(t, "it leads", leader.in("leading"))
	other := beside(t, loadedWith(t, f.access("other"), noMembers), "other:1")
	until(t, "the other stands by", other.in("standby"))
	f.left(t, "orphan", "")
	<-hang
	began := time.Now()
	leader.edit(loadedWith(t, f.access("second"), noMembers))
	until(t, "it leads by the new connection", func() bool { return f.open("first") == 0 && leader.in("leading")() })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	until(t, "the write is done by the new connection", func() bool { return !f.stands("orphan") })
	f.with(func() {
		if i := slices.Index(f.writers, "other"); i >= 0 {
			t.Errorf("somebody else wrote meanwhile: %q", f.writers)
		}
	})
	if s := other.status().Leader; s.State != "standby" || !strings.HasSuffix(s.Holder, "leader:1") {
		t.Errorf("the other is %+v", s)
	}
}

// Each way to lead is an edit of the configuration away from another.
func TestElectionIsEdited(t *testing.T) {
	f := newFront(t)
	r := beside(t, loadedWith(t, f.access("good"), noMembers), "a:1")
	until(t, "it leads", r.in("leading"))
	if holder := f.holds(); !strings.HasSuffix(holder, "_a:1") {
		t.Errorf("held by %q", holder)
	}
	r.edit(loadedWith(t, f.access("good"), noMembers+"leaderElection: {enabled: false}\n"))
	until(t, "it writes alone, and has given up its Lease", func() bool { return r.in("alone")() && f.holds() == "" })
	if by := f.orphan(t, "orphan"); !slices.Equal(by, []string{"good"}) {
		t.Errorf("written with %q", by)
	}
	r.edit(loadedWith(t, f.access("good"), noMembers))
	until(t, "it holds it again", func() bool { return r.in("leading")() && f.holds() != "" })
}

func TestPodOfAToken(t *testing.T) {
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for text, want := range map[string]string{
		token(`{"kubernetes.io":{"namespace":"own","pod":{"name":"tributary-5d","uid":"u"}}}`) + "\n": "tributary-5d",
		token(`{"kubernetes.io":{"serviceaccount":{"name":"tributary"}}}`):                            "",
		token(`[]`):   "",
		"e30.%%%.c2l": "",
		"opaque":      "",
		"":            "",
	} {
		if got := podOf(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
