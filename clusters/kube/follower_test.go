// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/internal/memnet"
)

func some(m *model) {
	m.set("a", "1")
	m.set("b", "1")
}

func TestFollows(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			play(t, http2, some, func(s *scene) {
				s.wantTold("listed map[a:1 b:1]")
				s.set("a", "2")
				s.remove("b")
				s.set("c", "1")
				s.wantTold("seen a=2", "gone b", "seen c=1")
				s.wantPhases("following")
				s.remove("c")
				s.wantTold("gone c")
				s.pass(time.Hour)
				s.wantTold() // renewals of the watch bring nothing
				s.wantCount("list", 1)
				s.set("a", "3")
				s.wantTold("seen a=3")
				s.wantPhases("following")
				s.wantPicture()
			})
		})
	}
}

func TestListsInPages(t *testing.T) {
	many := func(m *model) {
		for i := range 1700 {
			m.set(fmt.Sprintf("p%04d", i), "1")
		}
	}
	play(t, false, many, func(s *scene) {
		s.wantTold("listed 1700")
		s.wantCount("page", 3)
	})
	t.Run("a token that expires", func(t *testing.T) {
		play(t, false, func(m *model) {
			many(m)
			m.slow = time.Second
		}, func(s *scene) {
			s.pass(1500 * time.Millisecond) // the second page is being read
			s.set("p0000", "2")
			s.expire()
			s.pass(10 * time.Second)
			s.wantTold("listed 1700")
			s.wantCount("list", 2)
			s.wantPicture()
		})
	})
	t.Run("pages that are too large", func(t *testing.T) {
		large := strings.Repeat("x", 40<<10)
		play(t, false, func(m *model) {
			for i := range 300 {
				m.set(fmt.Sprintf("p%04d", i), large)
			}
		}, func(s *scene) {
			s.wantTold("listed 300")
			s.wantPicture()
			s.wantPhases("following")
		})
	})
	t.Run("a server that is busy", func(t *testing.T) {
		play(t, false, func(m *model) {
			many(m)
			m.answer = func(_ *http.Request, verb string) *metav1.Status {
				if verb == "page" && m.count("page") == 2 {
					return statusOf(apierrors.NewTooManyRequests("busy", 3))
				}
				return nil
			}
		}, func(s *scene) {
			s.pass(2900 * time.Millisecond)
			s.wantTold()
			s.pass(time.Second)
			s.wantTold("listed 1700")
			s.wantCount("list", 1)
		})
	})
}

// A proxy may hold a connection open whose other end is gone. The next watch uses another one.
func TestFrozenWatchIsFound(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			play(t, http2, some, func(s *scene) {
				s.told()
				s.pass(time.Minute + 100*time.Millisecond) // a watch has just begun
				closed := s.net.Dials() - s.net.Open()
				s.freeze()
				s.set("a", "2")
				s.remove("b")
				s.pass(22 * time.Second)
				s.wantTold()
				s.pass(3 * time.Second)
				s.wantTold("seen a=2", "gone b")
				if again := s.net.Dials() - s.net.Open(); again == closed {
					t.Error("the connection over which the watch had frozen is still open")
				}
				s.wantCount("list", 1)
				s.wantPhases("following", "failing", "following")
			})
		})
	}
}

func TestWatchThatIsNotAccepted(t *testing.T) {
	play(t, true, func(m *model) {
		some(m)
		m.raw = func(_ http.ResponseWriter, r *http.Request, verb string) bool {
			if verb == "watch" && m.count("watch") == 1 {
				<-r.Context().Done()
			}
			return false
		}
	}, func(s *scene) {
		s.told()
		dials := s.net.Dials()
		s.pass(acceptTime + time.Second)
		s.wantPhases("failing", "following")
		if s.net.Dials() == dials {
			t.Error("the next one goes over the same connection")
		}
		s.wantPicture()
	})
}

// A stream that continues past its end is not cut.
func TestWatchThatHasMuchToTell(t *testing.T) {
	play(t, false, func(m *model) {
		m.raw = func(w http.ResponseWriter, r *http.Request, verb string) bool {
			if verb != "watch" || m.count("watch") > 1 {
				return false
			}
			w.WriteHeader(http.StatusOK)
			for range 20 { // for 40 s
				m.do(func() { m.rv++ })
				p := &corev1.Pod{TypeMeta: podType, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", ResourceVersion: strconv.FormatUint(m.rv, 10)}}
				_ = json.NewEncoder(w).Encode(map[string]any{"type": watch.Modified, "object": p})
				w.(http.Flusher).Flush()
				time.Sleep(2 * time.Second)
			}
			return true
		}
	}, func(s *scene) {
		s.pass(39 * time.Second)
		s.wantCount("watch", 1)
		s.pass(2 * time.Second)
		s.wantCount("watch", 2)
	})
}

// Whole connections freeze, new ones included, as a stopped server does.
func TestFrozenServer(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			play(t, http2, some, func(s *scene) {
				s.told()
				s.net.Freeze()
				s.pass(time.Minute)
				s.wantPhases("following", "failing")
				s.net.Thaw()
				s.set("a", "2")
				s.pass(20 * time.Second)
				s.wantTold("seen a=2")
				s.wantPhases("following", "failing", "following")
				s.wantCount("list", 1)
			})
		})
	}
}

func TestHowStreamsEnd(t *testing.T) {
	t.Run("cut connections are resumed at once", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			s.pass(time.Second)
			s.told()
			s.net.Cut()
			s.set("a", "2")
			s.pass(time.Millisecond)
			s.wantTold("seen a=2")
			s.wantPhases("following")
			s.wantCount("list", 1)
		})
	})
	t.Run("ended again and again", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			s.told()
			for range 600 {
				s.drop()
				s.pass(100 * time.Millisecond)
			}
			s.drop()
			s.pass(0)
			s.wantPhase("failing") // what depends on it waits until it is open again
			if n := s.count("watch"); n > 150 {
				t.Errorf("%d watches in a minute", n)
			}
			s.set("a", "2")
			s.pass(briefWait)
			s.wantTold("seen a=2")
			s.wantPhase("following")
		})
	})
	t.Run("410 has it list", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			s.told()
			s.pass(time.Second)
			s.net.Lead(memnet.Nobody)
			s.net.Cut()
			s.set("a", "2")
			s.remove("b")
			s.expire()
			s.pass(time.Minute)
			s.wantTold()
			s.wantPhases("following", "failing")
			s.net.Lead(memnet.Open)
			s.pass(12 * time.Second)
			s.wantTold("listed map[a:2]")
			s.wantPhases("following", "failing", "following", "listing", "following")
		})
	})
	t.Run("410, and nothing is followed until it lists", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			s.told()
			s.pass(time.Second)
			s.net.Lead(memnet.Nobody)
			s.net.Cut()
			s.set("a", "2")
			s.expire()
			s.pass(time.Millisecond)
			s.net.Lead(memnet.Open)
			s.pass(retryBase + 5*time.Millisecond)
			s.wantTold()
			s.wantPhases("following", "failing", "following", "listing")
			s.pass(time.Second)
			s.wantTold("listed map[a:2 b:1]")
			s.wantPhase("following")
		})
	})
	t.Run("410 to each watch", func(t *testing.T) {
		play(t, false, func(m *model) {
			m.answer = func(_ *http.Request, verb string) *metav1.Status {
				if verb == "watch" {
					return statusOf(apierrors.NewResourceExpired("too old"))
				}
				return nil
			}
		}, func(s *scene) {
			s.pass(10 * time.Minute)
			if n := s.count("list"); n > 250 {
				t.Errorf("%d lists in ten minutes", n)
			}
		})
	})
}

func TestRefusals(t *testing.T) {
	for name, status := range map[string]*metav1.Status{
		"401": statusOf(apierrors.NewUnauthorized("who are you")), "403": forbidden(),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, false, some, func(s *scene) {
				s.wantTold("listed map[a:1 b:1]")
				s.do(func() { s.answer = func(*http.Request, string) *metav1.Status { return status } })
				s.pass(time.Minute)
				s.wantTold() // nothing is gone
				s.wantPhases("following", "refused")
				if !NotAllowed(s.lastError()) {
					t.Errorf("error %v", s.lastError())
				}
				s.do(func() { s.answer = nil })
				s.set("a", "2")
				s.pass(5 * time.Second)
				s.wantTold("seen a=2")
				s.wantPhases("following", "refused", "following")
				s.wantCount("list", 1)
			})
		})
	}
	t.Run("of the list", func(t *testing.T) {
		play(t, false, func(m *model) {
			some(m)
			m.answer = func(_ *http.Request, verb string) *metav1.Status {
				if verb == "list" {
					return forbidden()
				}
				return nil
			}
		}, func(s *scene) {
			s.pass(time.Minute)
			s.wantTold()
			s.wantPhases("refused")
			if n := s.count("list"); n < 10 || n > 40 {
				t.Errorf("%d lists in a minute", n)
			}
		})
	})
	t.Run("Retry-After", func(t *testing.T) {
		play(t, false, func(m *model) {
			m.answer = func(_ *http.Request, verb string) *metav1.Status {
				if verb == "watch" {
					return statusOf(apierrors.NewTooManyRequests("busy", 30))
				}
				return nil
			}
		}, func(s *scene) {
			s.pass(59 * time.Second)
			s.wantCount("watch", 2)
			s.wantPhases("failing")
		})
	})
}

func TestStoreThatWentBack(t *testing.T) {
	t.Run("to lower revisions", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			restore := s.snapshot()
			for i := range 50 {
				s.set("a", strconv.Itoa(i))
			}
			s.set("c", "1")
			s.told()
			restore(0)
			s.pass(12 * time.Second)
			s.wantTold("went back", "listed map[a:1 b:1]")
			s.set("b", "2")
			s.wantTold("seen b=2")
			s.pass(time.Hour)
			s.wantTold()
			s.wantCount("list", 2)
		})
	})
	t.Run("to higher revisions", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			restore := s.snapshot()
			s.set("c", "1")
			s.remove("b")
			s.told()
			restore(1 << 30)
			s.drop()
			s.pass(2 * time.Second)
			s.wantTold("listed map[a:1 b:1]")
			s.pass(time.Minute)
			s.wantTold()
		})
	})
	t.Run("while it was away", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			restore := s.snapshot()
			s.set("c", "1")
			s.told()
			s.net.Lead(memnet.Nobody)
			s.net.Cut()
			s.pass(time.Minute)
			restore(0)
			s.net.Lead(memnet.Open)
			s.pass(16 * time.Second)
			s.set("c", "2") // at the revision that another state had
			s.pass(2 * time.Second)
			s.wantTold("went back", "listed map[a:1 b:1]", "seen c=2")
		})
	})
}

func TestRelist(t *testing.T) {
	t.Run("quiet", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			s.told()
			s.follower.Relist()
			s.wantTold("listed map[a:1 b:1]")
			s.wantPhases("following")
			s.set("a", "2")
			s.wantTold("seen a=2")
		})
	})
	t.Run("while much happens", func(t *testing.T) {
		play(t, false, func(m *model) {
			for i := range 1200 {
				m.set(fmt.Sprintf("p%04d", i), "1")
			}
		}, func(s *scene) {
			s.told()
			s.do(func() { s.slow = time.Second })
			s.follower.Relist()
			s.set("p0000", "2")
			s.pass(100 * time.Millisecond)
			if now := s.sink.of("p0000"); now.Value != "2" || now.by != 0 {
				t.Errorf("the stream continues with %+v", now)
			}
			for i := range 40 {
				s.set(fmt.Sprintf("p%04d", i*30), "2")
				s.remove(fmt.Sprintf("p%04d", i*30+1))
				s.set("new", strconv.Itoa(i))
				s.pass(100 * time.Millisecond)
				s.wantPicture() // the stream continues meanwhile, and nothing comes back
			}
			if lists := slices.DeleteFunc(s.told(), func(line string) bool { return !strings.HasPrefix(line, "listed") }); len(lists) != 1 {
				t.Errorf("lists were reported: %q", lists)
			}
			for _, name := range []string{"p0000", "p0030", "p0002", "new"} { // also what the stream brought meanwhile
				if now := s.sink.of(name); now.by != 1 {
					t.Errorf("%s is converted as for the list before", name)
				}
			}
			s.wantCount("list", 2)
			s.wantPhases("following")
			s.pass(time.Minute)
			s.wantCount("list", 2)
		})
	})
	t.Run("while the stream is frozen", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			s.told()
			s.freeze()
			s.remove("b")
			s.follower.Relist()
			s.wantTold("listed map[a:1]")
			s.pass(25 * time.Second)
			s.wantTold()
			s.set("a", "2")
			s.wantTold("seen a=2")
		})
	})
	t.Run("that fails is begun again", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			s.told()
			s.do(func() {
				s.answer = func(_ *http.Request, verb string) *metav1.Status {
					if verb == "list" && s.count("list") < 4 {
						return statusOf(apierrors.NewInternalError(errors.New("etcd is away")))
					}
					return nil
				}
			})
			s.follower.Relist()
			s.pass(10 * time.Second)
			s.wantTold("listed map[a:1 b:1]")
			s.wantPhases("following")
		})
	})
	t.Run("each day", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			s.pass(48 * time.Hour)
			if n := s.count("list"); n != 3 {
				t.Errorf("%d lists in two days", n)
			}
		})
	})
}

func TestUndecodableObjects(t *testing.T) {
	play(t, false, func(m *model) {
		some(m)
		m.set("x", "bad")
	}, func(s *scene) {
		s.wantTold("listed map[a:1 b:1]")
		s.set("a", "bad")
		s.set("b", "2")
		s.wantTold("seen b=2") // and a is unchanged
		s.do(func() {
			p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Nonsense"}, ObjectMeta: metav1.ObjectMeta{Name: "y"}}
			s.rv++
			s.history = append(s.history, change{watch.Added, p, s.rv}, change{"STRANGE", s.pods["ns/b"], s.rv})
		})
		s.set("b", "3")
		s.wantTold("seen b=3")
		s.sink.mu.Lock()
		defer s.sink.mu.Unlock()
		if len(s.sink.faults) != 4 {
			t.Errorf("faults %q", s.sink.faults)
		}
	})
}
