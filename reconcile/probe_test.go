// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/internal/memnet"
	"tributary.dev/tributary/reconcile/lanes"
)

// silent answers no request and shows nothing to watches that are open, as a server
// that is stopped where it is; the function lets it go on.
func (g *ground) silent() (goOn func()) {
	resources := []string{"namespaces", "services", "endpoints", "endpointslices"}
	for _, r := range resources {
		g.server.FreezeWatches(r)
	}
	g.faulty(apitest.Fault{Hang: true})
	return func() {
		g.server.Intercept(nil)
		for _, r := range resources {
			g.server.ThawWatches(r)
		}
	}
}

// faulty lets a fault happen to every request.
func (g *ground) faulty(fault apitest.Fault) {
	g.server.Intercept(func(apitest.Request) *apitest.Fault { return &fault })
}

// until returns how long it takes until the trouble is there, or gone.
func (g *ground) until(there bool, limit time.Duration) time.Duration {
	g.t.Helper()
	start := time.Now()
	for (g.rec.Trouble() != nil) != there {
		if time.Since(start) > limit {
			g.t.Fatalf("after %v the trouble is %v", limit, g.rec.Trouble())
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	return time.Since(start)
}

// The ingress cluster of a fleet on which nothing happens goes away in every way
// there is. That is known within 10 s, what happened is named, and it is over soon
// after the first answer.
func TestQuietIngressClusterThatGoesAwayIsNoticed(t *testing.T) {
	tests := []struct {
		name string
		away func(*ground) (back func())
		want string
	}{
		{"frozen", (*ground).silent, "deadline exceeded"},
		{"connections closed at once", func(g *ground) func() {
			g.server.Lead(memnet.Closing)
			return func() { g.server.Lead(memnet.Open) }
		}, "EOF|closed"},
		{"connections refused", func(g *ground) func() {
			g.server.Lead(memnet.Nobody)
			return func() { g.server.Lead(memnet.Open) }
		}, "connection refused"},
		{"credential expired", func(g *ground) func() {
			g.faulty(apitest.Fault{Status: http.StatusUnauthorized})
			return func() { g.server.Intercept(nil) }
		}, "fault"},
		{"a balancer answers in its place", func(g *ground) func() {
			g.faulty(apitest.Fault{Status: http.StatusServiceUnavailable})
			g.server.DropWatches()
			return func() { g.server.Intercept(nil) }
		}, "fault"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, log := pipedGround(t)
				time.Sleep(5 * time.Minute) // nothing happens
				if err := g.rec.Trouble(); err != nil {
					t.Fatal(err)
				}
				if age := time.Since(g.rec.LastContact()); age > probeEvery {
					t.Errorf("the last contact was %v ago, want it within %v", age, probeEvery)
				}
				back := test.away(g)
				g.until(true, 10*time.Second)
				if err := g.rec.Trouble(); !regexp.MustCompile(test.want).MatchString(err.Error()) {
					t.Errorf("trouble %q, want it to match %q", err, test.want)
				}
				for range 600 { // it stays known
					time.Sleep(100 * time.Millisecond)
					if g.rec.Trouble() == nil {
						t.Fatal("the trouble was over although nothing had answered")
					}
				}
				back()
				g.until(false, 7*time.Second) // the watches wait for up to 5 s and a fifth
				time.Sleep(time.Minute)
				g.stop()
				for _, line := range []string{"gives no usable answer", "answers again"} {
					if n := strings.Count(log.String(), line); n != 1 {
						t.Errorf("%q was logged %d times:\n%s", line, n, log)
					}
				}
			})
		})
	}
}

// pipedGround is a ground in a synctest bubble, with the log.
func pipedGround(t *testing.T) (*ground, *said) {
	t.Helper()
	g := newGroundOn(t, apitest.NewInMemory(t), "a")
	log := &said{}
	g.options.Logger = slog.New(slog.NewTextHandler(log, nil))
	g.start()
	return g, log
}

// said is a log that can be read while it is written.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(line)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A stream that client-go returns for a watch without an answer is none.
func TestWatchWithoutAnAnswerIsNotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log := pipedGround(t)
		g.server.Lead(memnet.Closing)
		time.Sleep(time.Minute)
		if err := g.rec.observer.trouble(); err == nil {
			t.Error("the watches count as up")
		}
		if strings.Contains(log.String(), "is back") {
			t.Errorf("the log says that a watch is back:\n%s", log)
		}
		g.server.Lead(memnet.Open)
		time.Sleep(time.Minute)
		if err := g.rec.observer.trouble(); err != nil {
			t.Errorf("the watches stay down: %v\n%s", err, log)
		}
		g.stop()
	})
}

// What a watch shows is a contact too: on a connection of its own it may be all that
// still comes.
func TestWhatAWatchShowsIsAContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := pipedGround(t)
		g.faulty(apitest.Fault{Hang: true})
		const silence = 20 * time.Second // a stream that is silent for longer is not believed
		time.Sleep(silence)
		if age := time.Since(g.rec.LastContact()); age < silence-probeEvery {
			t.Errorf("the last contact was %v ago although nothing answered", age)
		}
		g.server.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
		synctest.Wait()
		if age := time.Since(g.rec.LastContact()); age > 0 {
			t.Errorf("the last contact was %v ago, want it at the event", age)
		}
		if g.rec.Trouble() == nil {
			t.Error("an event counts as the answer to a probe")
		}
		g.stop()
	})
}

// Changes that wait are written soon after the ingress cluster answers: the answered
// probe lets the next key through.
func TestChangeThatWaitedIsWrittenSoonAfterTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := pipedGround(t)
		goOn := g.silent()
		for i := range 2 * breakerFailures {
			g.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.0.0.1", true))
		}
		time.Sleep(3 * time.Minute)
		if !g.rec.breaker.isOpen() {
			t.Fatal("the breaker is closed")
		}
		goOn()
		g.until(false, 15*time.Second) // a write and its reading that hang, and a probe
		time.Sleep(breakerMax)
		if g.rec.breaker.isOpen() {
			t.Error("the breaker stays open")
		}
		g.settle()
		g.stop()
	})
}

// A breaker that was opened by a request which turned out to need no second one is closed
// by a probe: no key will come to do it.
func TestBreakerBeforeAnEmptyQueueIsClosedByAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := pipedGround(t)
		g.rec.breaker.answer(fmt.Errorf("dial: %w", syscall.ECONNREFUSED))
		if g.rec.Trouble() == nil {
			t.Error("an open breaker is no trouble")
		}
		g.until(false, probeEvery+probeTimeout)
		if g.rec.breaker.isOpen() {
			t.Error("the breaker stays open")
		}
		g.stop()
	})
}

// That the ingress cluster is back is told by its first answer, also when the keys
// that would close the breaker are in a long backoff.
func TestAnswerEndsTheTroubleBeforeTheBreakerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroundOn(t, apitest.NewInMemory(t), "a")
		g.options.Queue = lanes.Options{Backoff: lanes.Backoff{Base: time.Minute, Max: time.Hour}}
		g.start()
		g.server.Lead(memnet.Nobody)
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		synctest.Wait()
		if !g.rec.breaker.isOpen() || g.rec.Trouble() == nil {
			t.Errorf("breaker open: %v, trouble %v", g.rec.breaker.isOpen(), g.rec.Trouble())
		}
		g.server.Lead(memnet.Open)
		g.until(false, 7*time.Second)
		g.stop()
	})
}
