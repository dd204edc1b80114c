// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"tributary.dev/tributary/syncer"
)

// with opens a session to a model in a bubble.
func with(t *testing.T, http2 bool, o Options, prepare func(*model), script func(m *model, s *Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t)
		if prepare != nil {
			prepare(m)
		}
		s, err := Open(t.Context(), m.start(t, http2), o)
		if err != nil {
			t.Fatal(err)
		}
		script(m, s)
		s.Close()
		s.Close()
		synctest.Wait()
		if open := m.net.Open(); open != 0 {
			t.Errorf("%d connections are open at the end", open)
		}
	})
}

var podA = syncer.Key{Namespace: "ns", Name: "a"}

func TestOtherClusterIsNotHeard(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			play(t, http2, some, func(s *scene) {
				s.told()
				s.do(func() { s.uid, s.pods, s.history = "uid-b", nil, nil })
				s.net.Cut()
				before := s.requestLog()
				s.pass(time.Minute)
				s.wantTold()
				s.wantPhases("following", "failing")
				if err := s.lastError(); !errors.Is(err, ErrOtherCluster) || !strings.Contains(err.Error(), "uid-b") {
					t.Errorf("error %v", err)
				}
				if log := s.requestLog(); !slices.Equal(log, before) {
					t.Errorf("the other cluster was asked: %q", log[len(before):])
				}
				s.do(func() { s.uid = "uid-a" })
				s.pass(6 * time.Second)
				s.wantPhases("following", "failing", "following")
			})
		})
	}
	t.Run("from the start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, err := Open(t.Context(), newModel(t).start(t, false), Options{Pin: NewPin("uid-z")})
			if !errors.Is(err, ErrOtherCluster) {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("behind a connection that a proxy holds open", func(t *testing.T) {
		play(t, true, some, func(s *scene) {
			s.pass(time.Minute + 5*time.Second) // the last proof is older than justProved
			s.told()
			s.do(func() {
				s.uid, s.pods, s.history = "uid-b", nil, nil
				s.rv += 1000
				s.oldest = s.rv
				s.dropped++
			})
			s.pass(time.Minute)
			s.wantTold()
		})
	})
	t.Run("behind such a connection, and it knows the revision", func(t *testing.T) {
		play(t, true, some, func(s *scene) {
			s.pass(time.Minute + 5*time.Second)
			s.told()
			s.do(func() { s.uid = "uid-b" })
			s.drop()
			s.set("foreign", "1")
			s.pass(30 * time.Second)
			s.wantTold()
		})
	})
	t.Run("behind such a connection, and is asked", func(t *testing.T) {
		with(t, true, Options{}, some, func(m *model, s *Session) {
			if o, err := s.Ask(m.ctx, Pods, podA); o == nil || err != nil {
				t.Fatal(o, err)
			}
			time.Sleep(5 * time.Second)
			m.do(func() { m.uid, m.pods, m.history = "uid-b", nil, nil })
			if o, err := s.Ask(m.ctx, Pods, podA); !errors.Is(err, ErrOtherCluster) {
				t.Errorf("the other cluster answers: %v, %v", o, err)
			}
		})
	})
}

// A cluster that has withdrawn the right to its identity is not asked again at each watch, which would take seconds.
func TestIdentityIsWithheld(t *testing.T) {
	play(t, true, func(m *model) {
		some(m)
		m.answer = func(_ *http.Request, verb string) *metav1.Status {
			if verb == "identity" && m.count("identity") > 1 {
				return forbidden()
			}
			return nil
		}
	}, func(s *scene) {
		s.net.Cut()
		s.pass(time.Minute)
		s.told()
		asked := s.count("identity")
		for range 60 {
			s.set("a", "2")
			s.pass(time.Second)
			s.wantTold("seen a=2")
		}
		if n := s.count("identity"); n != asked {
			t.Errorf("asked %d times more", n-asked)
		}
	})
}

// Nothing is sent over a connection that has not proved itself, a write least of all.
func TestEachConnectionProvesItself(t *testing.T) {
	proved := map[string]bool{}
	var mu sync.Mutex
	prepare := func(m *model) {
		some(m)
		m.slow = time.Second
		m.raw = func(_ http.ResponseWriter, r *http.Request, verb string) bool {
			mu.Lock()
			defer mu.Unlock()
			if verb == "identity" {
				proved[r.Context().Value(connection{}).(string)] = true
			} else if !proved[r.Context().Value(connection{}).(string)] {
				t.Errorf("%s over a connection that was not asked for its identity", verb)
			}
			return false
		}
	}
	with(t, false, Options{}, prepare, func(m *model, s *Session) {
		var asks sync.WaitGroup
		for range 20 {
			asks.Go(func() {
				if _, err := s.List(m.ctx, Query{Resource: Pods}); err != nil {
					t.Error(err)
				}
			})
		}
		asks.Wait()
		if dials := m.net.Dials(); dials != 20 || m.count("identity") != dials {
			t.Errorf("%d connections and %d questions for the identity", dials, m.count("identity"))
		}
	})
	clear(proved)
	with(t, true, Options{}, prepare, func(m *model, s *Session) {
		var asks sync.WaitGroup
		for range 90 {
			asks.Go(func() { _, _ = s.List(m.ctx, Query{Resource: Pods}) })
		}
		asks.Wait()
		if dials := m.net.Dials(); dials != 1 || m.count("identity") != 1 {
			t.Errorf("%d connections and %d questions for the identity", dials, m.count("identity"))
		}
	})
}

func TestIdentityThatIsHidden(t *testing.T) {
	for name, tc := range map[string]struct {
		status *metav1.Status
		opens  bool
	}{
		"403": {forbidden(), true},
		"404": {statusOf(apierrors.NewNotFound(Namespaces.GroupResource(), "kube-system")), false},
		"401": {statusOf(apierrors.NewUnauthorized("")), false},
		"500": {statusOf(apierrors.NewInternalError(errors.New("x"))), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t)
				m.answer = func(_ *http.Request, verb string) *metav1.Status {
					if verb == "identity" {
						return tc.status
					}
					return nil
				}
				s, err := Open(t.Context(), m.start(t, false), Options{Pin: NewPin("uid-z")})
				if (err == nil) != tc.opens {
					t.Errorf("error %v", err)
				}
				if err == nil {
					s.Close()
				}
			})
		})
	}
}

// An API server refuses everybody until it has read its roles: another cluster that answers is not
// believed in that moment.
func TestAnotherClusterThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, begun := newModel(t), time.Now()
		m.answer = func(*http.Request, string) *metav1.Status {
			if time.Since(begun) < starting/2 {
				return forbidden()
			}
			return nil
		}
		if _, err := Open(t.Context(), m.start(t, false), Options{Pin: NewPin("uid-z")}); !errors.Is(err, ErrOtherCluster) {
			t.Errorf("error %v", err)
		}
	})
}

func TestSession(t *testing.T) {
	pin := NewPin("")
	with(t, false, Options{Version: "v9", Pin: pin}, func(m *model) {
		m.skew = 10 * time.Minute
		m.raw = func(_ http.ResponseWriter, r *http.Request, _ string) bool {
			if r.UserAgent() != "tributary/v9" || !strings.HasPrefix(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf,") && r.URL.Path != "/version" {
				t.Errorf("%s by %s, accepting %s", r.URL, r.UserAgent(), r.Header.Get("Accept"))
			}
			return false
		}
	}, func(m *model, s *Session) {
		if s.Identity() != "uid-a" || pin.Known() != "uid-a" {
			t.Errorf("identity %q, pin %q", s.Identity(), pin.Known())
		}
		if v := s.Version(); v != "v1.36.3-test" {
			t.Errorf("version %q", v)
		}
		if off := s.ClockOffset() - 10*time.Minute; off.Abs() > time.Second {
			t.Errorf("clock offset %v", s.ClockOffset())
		}
		if !s.LastContact().Equal(time.Now()) {
			t.Errorf("last contact %v", s.LastContact())
		}
		time.Sleep(time.Minute)
		m.do(func() { m.skew = -24 * time.Hour })
		if since := time.Since(s.LastContact()); since != time.Minute {
			t.Errorf("last contact %v ago", since)
		}
		if _, err := s.askVersion(m.ctx); err != nil || s.ClockOffset() != -time.Hour {
			t.Errorf("clock offset %v, %v", s.ClockOffset(), err)
		}
		s.Close()
		if _, err := s.askVersion(m.ctx); !errors.Is(err, errNoSession) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestAnswersAreBounded(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		with(t, http2, Options{}, func(m *model) {
			m.raw = func(w http.ResponseWriter, r *http.Request, verb string) bool {
				if verb == "get" {
					for w.Header().Set("Content-Type", "application/json"); r.Context().Err() == nil; {
						if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<16)); err != nil {
							return true
						}
					}
				}
				return verb == "get"
			}
		}, func(m *model, s *Session) {
			answer, err := s.Ask(m.ctx, Pods, podA)
			if _, tooLarge := errors.AsType[*http.MaxBytesError](err); !tooLarge || answer != nil {
				t.Errorf("%s: %v, %v", name, answer, err)
			}
		})
	}
}

func TestRequestsEnd(t *testing.T) {
	with(t, false, Options{}, func(m *model) {
		m.raw = func(_ http.ResponseWriter, r *http.Request, verb string) bool {
			if verb == "get" || verb == "list" {
				<-r.Context().Done()
			}
			return false
		}
	}, func(m *model, s *Session) {
		begun := time.Now()
		if _, err := s.Ask(m.ctx, Pods, podA); !TimedOut(err) || time.Since(begun) != askTimeout {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		begun = time.Now()
		if _, err := s.List(m.ctx, Query{Resource: Pods}); !TimedOut(err) || time.Since(begun) != pageTimeout {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestRedirectionsAreNotFollowed(t *testing.T) {
	with(t, false, Options{}, func(m *model) {
		m.raw = func(w http.ResponseWriter, r *http.Request, verb string) bool {
			if verb == "get" {
				http.Redirect(w, r, "http://elsewhere/version", http.StatusFound)
			}
			return verb == "get"
		}
	}, func(m *model, s *Session) {
		if answer, err := s.Ask(m.ctx, Pods, podA); err == nil || !strings.Contains(err.Error(), "redirects") {
			t.Errorf("%v, %v", answer, err)
		}
	})
}

// A server may close an idle connection: the request is sent again over another one.
func TestIdleConnectionThatIsClosed(t *testing.T) {
	with(t, false, Options{}, some, func(m *model, s *Session) {
		for range 10 {
			m.net.Cut()
			if answer, err := s.Ask(m.ctx, Pods, podA); err != nil || answer == nil {
				t.Fatalf("%v, %v", answer, err)
			}
		}
	})
}

// renew has the access switch to another credential.
func (s *scene) renew() (former *Session) {
	former = s.access.Current()
	s.access.Renew()
	synctest.Wait()
	return former
}

func TestRenew(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			play(t, http2, some, func(s *scene) {
				s.pass(time.Second)
				s.told()
				for i := range 3 {
					former := s.renew()
					s.set("a", string(rune('5'+i)))
					s.wantTold("seen a=" + string(rune('5'+i)))
					if got, err := s.access.Get(s.ctx); got == former || err != nil {
						t.Errorf("the session is %p as before: %v", got, err)
					}
					s.pass(watchTime) // the watch runs to its end, and the next one is of the new session
					if open := s.net.Open(); open > 2 {
						t.Errorf("%d connections are open", open)
					}
				}
				s.wantCount("list", 1)
				s.wantPhases("following")
				s.wantPicture()
			})
		})
	}
	t.Run("after a refusal", func(t *testing.T) {
		play(t, false, some, func(s *scene) {
			s.do(func() {
				s.answer = func(*http.Request, string) *metav1.Status { return statusOf(apierrors.NewUnauthorized("")) }
			})
			s.pass(90 * time.Second)
			s.do(func() { s.answer = nil })
			s.told()
			s.set("a", "2")
			s.renew()
			s.pass(retryLimit)
			s.wantTold("seen a=2")
		})
	})
	t.Run("lets requests of the former session end", func(t *testing.T) {
		with(t, false, Options{}, func(m *model) {
			some(m)
			m.slow = 10 * time.Second
		}, func(m *model, s *Session) {
			var list sync.WaitGroup
			list.Go(func() {
				if pods, err := s.List(m.ctx, Query{Resource: Pods}); err != nil || len(pods) != 2 {
					t.Errorf("%d pods, %v", len(pods), err)
				}
			})
			synctest.Wait()
			s.retire(0)
			list.Wait()
			synctest.Wait()
			if open := m.net.Open(); open != 0 {
				t.Errorf("%d connections are open", open)
			}
		})
	})
}

func TestAccessOpensOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		wrong := errors.New("no")
		access := NewAccess(func(context.Context) (*Session, error) {
			opened++
			time.Sleep(time.Second)
			return nil, wrong
		})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := access.Get(t.Context()); !errors.Is(err, wrong) {
					t.Errorf("error %v", err)
				}
			})
		}
		all.Wait()
		if opened != 1 || access.Current() != nil {
			t.Errorf("opened %d times", opened)
		}
		access.Close()
	})
}

// A caller that gives up does not end the opening for the next one.
func TestAccessWhoseOpenerGivesUp(t *testing.T) {
	with(t, false, Options{}, nil, func(m *model, s *Session) {
		access := NewAccess(func(ctx context.Context) (*Session, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return s, nil
			}
		})
		ctx, cancel := context.WithCancel(m.ctx)
		var both sync.WaitGroup
		both.Go(func() { _, _ = access.Get(ctx) })
		synctest.Wait()
		both.Go(func() {
			if got, err := access.Get(m.ctx); got != s {
				t.Errorf("error %v", err)
			}
		})
		cancel()
		both.Wait()
	})
}

// plugin is a credential plugin that hangs. It counts who waits for it.
type plugin struct {
	waiting, most atomic.Int64
	hangs         chan struct{} // closed: it does not
	rest.AuthProvider
}

// using is the plugin that a configuration with AuthProvider uses.
var using atomic.Pointer[plugin]

func init() {
	_ = rest.RegisterAuthProviderPlugin("test", func(string, map[string]string, rest.AuthProviderConfigPersister) (rest.AuthProvider, error) {
		return using.Load(), nil
	})
}

func (p *plugin) WrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		p.most.Store(max(p.most.Load(), p.waiting.Add(1)))
		<-p.hangs
		p.waiting.Add(-1)
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// However often a session is opened, and asked, while a plugin hangs: only so many requests are left behind, and a
// credential with another plugin works at once.
func TestPluginThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &plugin{hangs: make(chan struct{})}, &plugin{hangs: make(chan struct{})}
		close(good.hangs)
		using.Store(bad)
		m := newModel(t)
		cfg := m.start(t, false)
		cfg.AuthProvider = &api.AuthProviderConfig{Name: "test"}
		access := NewAccess(func(ctx context.Context) (*Session, error) { return Open(ctx, cfg, Options{}) })
		for range mostDetached + 100 {
			if _, err := access.Get(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("error %v", err)
			}
		}
		if most := bad.most.Load(); most != mostDetached {
			t.Errorf("%d requests were left behind", most)
		}
		using.Store(good)
		access.Renew()
		time.Sleep(connectTimeout + renewalRetry)
		if access.Current() == nil {
			t.Error("the new credential is not in use")
		}
		access.Current().retire(0) // as many requests wait for the proof of one connection
		var requests sync.WaitGroup
		for range mostDetached + 100 {
			requests.Go(func() {
				if _, err := access.Current().get(t.Context(), Namespaces, syncer.Key{Name: "kube-system"}); err != nil {
					t.Errorf("error %v", err)
				}
			})
		}
		requests.Wait()
		close(bad.hangs)
		synctest.Wait()
		if waiting := bad.waiting.Load(); waiting != 0 {
			t.Errorf("%d requests wait", waiting)
		}
		access.Close()
	})
}

func TestAsk(t *testing.T) {
	there := &corev1.Pod{TypeMeta: podType, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7"}}
	but := func(change func(*corev1.Pod)) *corev1.Pod {
		p := there.DeepCopy()
		change(p)
		return p
	}
	notFound := func(change func(*metav1.Status)) *metav1.Status {
		status := statusOf(apierrors.NewNotFound(Pods.GroupResource(), "a"))
		change(status)
		return status
	}
	html := func(code int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, "<h1>no</h1>", code) }
	}
	for name, tc := range map[string]struct {
		answer any    // an object, a status, or a function
		want   string // empty: it cannot be told
	}{
		"there":                        {there, "there"},
		"another object":               {but(func(p *corev1.Pod) { p.Name = "b" }), ""},
		"in another namespace":         {but(func(p *corev1.Pod) { p.Namespace = "b" }), ""},
		"without a UID":                {but(func(p *corev1.Pod) { p.UID = "" }), ""},
		"without a revision":           {but(func(p *corev1.Pod) { p.ResourceVersion = "x" }), ""},
		"another kind":                 {&corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: there.ObjectMeta}, ""},
		"nothing":                      {func(http.ResponseWriter) {}, ""},
		"not there":                    {notFound(func(*metav1.Status) {}), "not there"},
		"another is not there":         {notFound(func(s *metav1.Status) { s.Details.Name = "b" }), ""},
		"another kind is not there":    {notFound(func(s *metav1.Status) { s.Details.Kind = "services" }), ""},
		"something is not there":       {notFound(func(s *metav1.Status) { s.Details = nil }), ""},
		"a page says 404":              {html(404), ""},
		"unauthorized":                 {statusOf(apierrors.NewUnauthorized("")), ""},
		"410":                          {statusOf(apierrors.NewResourceExpired("")), ""},
		"an error":                     {statusOf(apierrors.NewInternalError(io.EOF)), ""},
		"a status that says not found": {func(w http.ResponseWriter) { respond(w, notFound(func(*metav1.Status) {})) }, "not there"},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, false, Options{}, func(m *model) {
				m.raw = func(w http.ResponseWriter, r *http.Request, verb string) bool {
					if verb != "get" {
						return false
					}
					if r.URL.Query().Has("resourceVersion") {
						t.Error("the question may be answered from a cache")
					}
					switch answer := tc.answer.(type) {
					case *metav1.Status:
						fail(w, answer)
					case func(http.ResponseWriter):
						answer(w)
					default:
						respond(w, answer)
					}
					return true
				}
			}, func(m *model, s *Session) {
				answer, err := s.Ask(m.ctx, Pods, podA)
				if (err == nil) != (tc.want != "") || (answer != nil) != (tc.want == "there") {
					t.Errorf("%v, %v", answer, err)
				}
			})
		})
	}
}

func TestAskWithoutTheRightToGet(t *testing.T) {
	with(t, false, Options{}, func(m *model) {
		some(m)
		m.answer = func(_ *http.Request, verb string) *metav1.Status {
			if verb == "get" {
				return forbidden()
			}
			return nil
		}
	}, func(m *model, s *Session) {
		if answer, err := s.Ask(m.ctx, Pods, podA); err != nil || answer == nil {
			t.Errorf("%v, %v", answer, err)
		}
		if answer, err := s.Ask(m.ctx, Pods, syncer.Key{Namespace: "ns", Name: "z"}); err != nil || answer != nil {
			t.Errorf("%v, %v", answer, err)
		}
		if pods, err := s.List(m.ctx, Query{Resource: Pods, Namespace: "ns", Labels: "value=1"}); err != nil || len(pods) != 2 {
			t.Errorf("%d pods, %v", len(pods), err)
		}
		if pods, err := s.List(m.ctx, Query{Resource: Pods, Namespace: "ns", Labels: "value=2"}); err != nil || len(pods) != 0 {
			t.Errorf("%d pods, %v", len(pods), err)
		}
		m.do(func() { m.answer = func(*http.Request, string) *metav1.Status { return forbidden() } })
		if answer, err := s.Ask(m.ctx, Pods, podA); !NotAllowed(err) || answer != nil {
			t.Errorf("%v, %v", answer, err)
		}
		m.do(func() {
			m.answer = func(*http.Request, string) *metav1.Status { return statusOf(apierrors.NewTooManyRequests("busy", 7)) }
		})
		if _, err := s.Ask(m.ctx, Pods, podA); RetryAfter(err) != 7*time.Second {
			t.Errorf("%v", err)
		}
	})
}

// protobufStream renders events as an API server does.
func protobufStream(t *testing.T, events ...watch.Event) []byte {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	var out bytes.Buffer
	frames := streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(&out), scheme.Codecs.WithoutConversion().EncoderForVersion(info.StreamSerializer.Serializer, metav1.SchemeGroupVersion))
	for _, e := range events {
		raw, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), e.Object)
		if err != nil {
			t.Fatal(err)
		}
		if err := frames.Encode(&metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: raw}}); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestStreams(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "107"}}
	whole := protobufStream(t, watch.Event{Type: watch.Added, Object: pod})
	text, _ := json.Marshal(map[string]any{"type": "ADDED", "object": &corev1.Pod{TypeMeta: podType, ObjectMeta: pod.ObjectMeta}})
	broken := protobufStream(t, watch.Event{Type: watch.Added, Object: pod})
	for i := 40; i < len(broken)-20; i++ {
		broken[i] = 0xff
	}
	for name, tc := range map[string]struct {
		body           []byte
		events, faults int
		ends           bool // in order
	}{
		"protobuf":       {whole, 1, 0, true},
		"JSON":           {text, 1, 0, true},
		"nothing":        {nil, 0, 0, true},
		"half a frame":   {whole[:len(whole)-3], 0, 0, false},
		"half an object": {text[:40], 0, 0, false},
		"garbage":        {[]byte("\xff\xff\xff\xff garbage"), 0, 0, false},
		"a page":         {[]byte("<html>"), 0, 0, false},
		"an object that cannot be decoded, then one that can": {append(slices.Clone(broken), whole...), 2, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, false, Options{}, func(m *model) {
				m.raw = func(w http.ResponseWriter, _ *http.Request, verb string) bool {
					if verb == "watch" {
						_, _ = w.Write(tc.body)
					}
					return verb == "watch"
				}
			}, func(m *model, s *Session) {
				opens, events, faults := 0, 0, 0
				err := s.watch(m.ctx, Query{Resource: Pods}, 5, func(e event) {
					switch p := new(corev1.Pod); {
					case e.kind == opened:
						opens++
						return
					case e.err != nil:
						faults++
					case p.Unmarshal(e.content) != nil:
						faults++
					case p.Name != "a" || !e.arrived.Equal(time.Now()):
						t.Errorf("event %v", e)
					}
					events++
				})
				if opens != 1 {
					t.Fatal(err)
				}
				if events != tc.events || faults != tc.faults || (err == nil) != tc.ends {
					t.Errorf("%d events, %d faults, then %v", events, faults, err)
				}
			})
		})
	}
}

// Whatever a server answers in place of an object is an error.
func TestAnswersThatAreNoObjects(t *testing.T) {
	for _, text := range []string{
		"", "null", "{}", "[]", "<html>", "k8s\x00", "k8s\x00\x0a\x7f", "k8s\x00\x12\x01\xff",
		`{"apiVersion":"v1","kind":"Node"}`, `{"apiVersion":"v1","kind":"PodList"}`, `{"apiVersion":"v1","kind":"Table"}`,
		`{"apiVersion":"__internal","kind":"WatchEvent"}`, `{"apiVersion":"v1","kind":"Pod","metadata":7}`,
	} {
		if content, err := Pods.content([]byte(text), ""); !errors.Is(err, ErrUndecodable) {
			t.Errorf("%q is read as %q, with the error %v", text, content, err)
		}
	}
}
