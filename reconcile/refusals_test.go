// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// server is an API server that refuses what the real one of today takes.
type refuser func(apitest.Object) (field.ErrorList, error)

// refuseAddress refuses an address with the field where it stands.
func refuseAddress(bad ...string) refuser {
	return func(obj apitest.Object) (errs field.ErrorList, err error) {
		switch o := obj.(type) {
		case *corev1.Endpoints:
			for i, s := range o.Subsets {
				for j, a := range s.Addresses {
					if slices.Contains(bad, a.IP) {
						errs = append(errs, field.Invalid(field.NewPath("subsets").Index(i).Child("addresses").Index(j).Child("ip"), a.IP, "not here"))
					}
				}
			}
		case *discoveryv1.EndpointSlice:
			for i, e := range o.Endpoints {
				if slices.Contains(bad, e.Addresses[0]) {
					errs = append(errs, field.Invalid(field.NewPath("endpoints").Index(i).Child("addresses").Index(0), e.Addresses[0], "not here"))
				}
			}
		}
		return errs, nil
	}
}

func refuseLabel(obj apitest.Object) (field.ErrorList, error) {
	if v, has := obj.GetLabels()["odd"]; has {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "labels"), v, "no such value")}, nil
	}
	return nil, nil
}

// refuseLarge is etcd behind an API server, for Endpoints of more than n addresses.
func refuseLarge(n int) refuser {
	return func(obj apitest.Object) (field.ErrorList, error) {
		if o, ok := obj.(*corev1.Endpoints); ok && countOf(o) > n {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "etcdserver: request is too large"}}
		}
		return nil, nil
	}
}

func countOf(o *corev1.Endpoints) (n int) {
	for _, s := range o.Subsets {
		n += len(s.Addresses) + len(s.NotReadyAddresses)
	}
	return n
}

func refuseName(obj apitest.Object) (field.ErrorList, error) {
	if strings.HasPrefix(obj.GetName(), "1") {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), obj.GetName(), "a DNS-1035 label must start with a letter")}, nil
	}
	return nil, nil
}

func refuseSlicesOf(cluster string) refuser {
	return func(obj apitest.Object) (field.ErrorList, error) {
		if o, ok := obj.(*discoveryv1.EndpointSlice); ok && o.Labels[plan.LabelSourceCluster] == cluster && len(o.Endpoints) > 1 {
			return field.ErrorList{field.TooMany(field.NewPath("endpoints"), len(o.Endpoints), 1)}, nil
		}
		return nil, nil
	}
}

// Whatever the server refuses of one member, the other's endpoints are written,
// what stands of the first stays, and its removals go through.
func TestRefusedWriteHarmsNobodyElse(t *testing.T) {
	tests := []struct {
		name   string
		refuse refuser
		// bad is what member a brings that is refused.
		bad func(svc *syncer.Service) []string
		// endpoints and sliced are what stands after that, removed after 10.0.0.1 left.
		endpoints, sliced, removed []string
		reason                     string
	}{
		{"an address", refuseAddress("10.0.0.66"), func(*syncer.Service) []string { return []string{"10.0.0.1", "10.0.0.2", "10.0.0.66"} },
			[]string{"10.0.0.1", "10.0.0.2", "10.1.0.9"}, []string{"10.0.0.1", "10.0.0.2", "10.1.0.9"}, []string{"10.0.0.2", "10.1.0.9"}, "address"},
		{"a label", refuseLabel, func(svc *syncer.Service) []string {
			svc.Labels = map[string]string{"odd": "x"}
			return []string{"10.0.0.1", "10.0.0.2"}
		},
			[]string{"10.0.0.1", "10.1.0.9"}, []string{"10.0.0.1", "10.1.0.9"}, []string{"10.1.0.9"}, "every change of a"},
		{"an object too large", refuseLarge(3), func(*syncer.Service) []string { return []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} },
			[]string{"10.0.0.1", "10.1.0.9"}, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.1.0.9"}, []string{"10.1.0.9"}, "every change of a"},
		{"slices of one member", refuseSlicesOf("a"), func(*syncer.Service) []string { return []string{"10.0.0.1", "10.0.0.2"} },
			[]string{"10.0.0.1", "10.0.0.2", "10.1.0.9"}, []string{"10.0.0.1", "10.1.0.9"}, []string{"10.0.0.2", "10.1.0.9"}, "every change of a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := newGround(t, "a", "b")
			g.options.RefusalPause = time.Hour
			g.start()
			g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
			g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
			g.settle()
			g.server.Refuse(test.refuse)
			svc := service(web, 1, 8080)
			ips := test.bad(svc)
			g.source.set("b", service(web, 2, 8080), pod(web, "10.1.0.9", true))
			g.set("a", svc, podsOf(ips)...)
			g.settle()
			endpoints, sliced := g.addresses(web)
			if !slices.Equal(endpoints, test.endpoints) || !slices.Equal(sliced, test.sliced) {
				t.Errorf("Endpoints %v, slices %v; want %v and %v", endpoints, sliced, test.endpoints, test.sliced)
			}
			trouble := g.seen.trouble(web)
			told := len(trouble.Rejected) == 1 && trouble.Rejected[0].Reason == string(syncer.RejectRefused) && trouble.Rejected[0].Cluster == "a"
			for _, c := range trouble.Conflicts {
				told = told || c.Reason == string(plan.ConflictRefused) && c.Cluster == "a" && strings.Contains(c.Message, test.reason)
			}
			if !told {
				t.Errorf("not reported: %+v", trouble)
			}
			g.writes()
			g.set("a", svc, podsOf(slices.DeleteFunc(slices.Clone(ips), func(ip string) bool { return ip == "10.0.0.1" }))...)
			g.settle()
			if endpoints, _ := g.addresses(web); !slices.Contains(endpoints, "10.1.0.9") || slices.Contains(endpoints, "10.0.0.1") {
				t.Errorf("after the removal Endpoints are %v, want %v", endpoints, test.removed)
			}
			for _, w := range g.writes() {
				if !strings.HasSuffix(w, " 200") && !strings.HasSuffix(w, " 201") {
					t.Errorf("what is known to be refused was tried again: %s", w)
				}
			}
		})
	}
}

func podsOf(ips []string) []*syncer.Pod {
	var out []*syncer.Pod
	for _, ip := range ips {
		out = append(out, pod(web, ip, true))
	}
	return out
}

// When it is over, by the member or by the server, everything is written.
func TestRefusalEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		mend func(g *ground)
		want []string
	}{
		{"the server takes it", func(g *ground) { g.server.Refuse(nil) }, []string{"10.0.0.1", "10.0.0.66"}},
		{"the member mends it", func(g *ground) { g.set("a", service(web, 1, 8080), pod(web, "10.0.0.7", true)) }, []string{"10.0.0.7"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGround(t, "a")
			g.options.RefusalPause = 20 * time.Millisecond
			g.start()
			g.server.Refuse(refuseAddress("10.0.0.66"))
			g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.66", true))
			g.wait("the rest is written", func() bool { endpoints, _ := g.addresses(web); return slices.Equal(endpoints, []string{"10.0.0.1"}) })
			test.mend(g)
			g.wait("all is written and nothing reported", func() bool {
				endpoints, sliced := g.addresses(web)
				trouble := g.seen.trouble(web)
				return slices.Equal(endpoints, test.want) && slices.Equal(sliced, test.want) && len(trouble.Rejected)+len(trouble.Conflicts) == 0
			})
			g.wait("the memory is empty", func() bool {
				known, _ := g.rec.refusals.Known(web, true, false, time.Now())
				return len(known) == 0
			})
		})
	}
}

// A replica that cannot be written at all is reported and harms no other.
func TestReplicaThatIsRefusedAsAWhole(t *testing.T) {
	g := newGround(t, "a", "b")
	g.options.RefusalPause = time.Hour
	g.server.Refuse(refuseName)
	g.start()
	odd := syncer.Key{Namespace: "shop", Name: "1web"}
	g.set("a", service(odd, 1, 8080), pod(odd, "10.0.0.1", true))
	g.set("b", service(odd, 2, 8080), pod(odd, "10.1.0.1", true))
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle() // it is a conflict, and not a change that waits: nobody is paged for its lag
	g.expect(web, "10.0.0.1")
	if c := g.seen.trouble(odd).Conflicts; len(c) != 2 || c[0].Reason != string(plan.ConflictRefused) || !strings.Contains(c[0].Message, "DNS-1035") {
		t.Errorf("conflicts %+v", c)
	}
	refused := 0
	for _, w := range g.writes() {
		if strings.Contains(w, "1web 422") {
			refused++
		}
	}
	if refused > 4 {
		t.Errorf("%d refused writes", refused)
	}
}

// When the server does not say what it objects to, each member is tried, and the
// number of refused writes is bounded.
func TestSuspectIsFoundByTrial(t *testing.T) {
	clusters := []string{"a", "b", "c", "d"}
	g := newGround(t, clusters...)
	g.options.RefusalPause = time.Hour
	g.start()
	for i, c := range clusters {
		g.set(c, service(web, int64(i+1), 8080), pod(web, "10."+string(rune('0'+i))+".0.1", true))
	}
	g.settle()
	g.writes()
	g.server.Refuse(func(obj apitest.Object) (field.ErrorList, error) {
		o, ok := obj.(*corev1.Endpoints)
		if ok && slices.ContainsFunc(o.Subsets, func(s corev1.EndpointSubset) bool {
			return slices.ContainsFunc(s.Addresses, func(a corev1.EndpointAddress) bool { return a.IP == "10.2.0.66" })
		}) {
			return nil, apierrors.NewBadRequest("something is wrong")
		}
		return nil, nil
	})
	for i, c := range clusters {
		ip := "10." + string(rune('0'+i)) + ".0.66"
		g.source.set(c, service(web, int64(i+1), 8080), pod(web, ip, true), pod(web, "10."+string(rune('0'+i))+".0.1", true))
	}
	g.rec.Dirty(web, lanes.Addition, liveCause("a", web))
	g.settle()
	endpoints, _ := g.addresses(web)
	if want := []string{"10.0.0.1", "10.0.0.66", "10.1.0.1", "10.1.0.66", "10.2.0.1", "10.3.0.1", "10.3.0.66"}; !slices.Equal(endpoints, want) {
		t.Errorf("Endpoints %v, want %v", endpoints, want)
	}
	refused := 0
	for _, w := range g.writes() {
		if strings.HasSuffix(w, " 400") {
			refused++
		}
	}
	if refused != 3 { // all, without a, without b
		t.Errorf("%d refused writes, want 3", refused)
	}
	if c := g.seen.trouble(web).Conflicts; len(c) != 1 || c[0].Cluster != "c" {
		t.Errorf("conflicts %+v, want one of c", c)
	}
}

// Everything of b is left out, and the pause is long. Then a, of which all is that stands,
// ends: its addresses go at once, and b's come when they are taken.
func TestShareEndsBesideOneThatIsLeftOut(t *testing.T) {
	for _, removed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroundOn(t, apitest.NewInMemory(t), "a", "b")
			g.options.RefusalPause = time.Hour
			g.source.settings.DeleteRemoved = true
			g.start()
			g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
			g.settle()
			g.server.Refuse(func(apitest.Object) (field.ErrorList, error) {
				return nil, apierrors.NewForbidden(corev1.Resource("endpoints"), web.Name, errors.New("no changes in this namespace"))
			})
			g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
			time.Sleep(10 * time.Second)
			g.server.Refuse(nil)
			if removed {
				g.forget("a")
			}
			g.unset("a", web)
			time.Sleep(100 * time.Millisecond)
			g.expect(web, "10.1.0.1")
		})
	}
}

// What comes is denied, and the pause is long. Where the last of what stands goes, and nothing
// else would be ready, what comes is tried at once, and not without end where it is denied
// still.
func TestLastReadyGoesWhileOthersAreLeftOut(t *testing.T) {
	next := []string{"10.0.1.1", "10.0.1.2", "10.0.1.3"}
	for _, test := range []struct {
		name   string
		denies func(o apitest.Object) bool
		well   bool
	}{
		{"all is well again", func(o apitest.Object) bool { return true }, true},
		{"what comes is taken again", func(o apitest.Object) bool { return hasAny(o, next...) }, true},
		{"one of those is denied still", func(o apitest.Object) bool { return hasAny(o, next[2]) }, false},
		{"what comes is denied still", func(o apitest.Object) bool { return hasAny(o, next...) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroundOn(t, apitest.NewInMemory(t), "a")
				g.options.RefusalPause = time.Hour
				g.start()
				svc, old := service(web, 1, 8080), []string{"10.0.0.1", "10.0.0.2"}
				g.set("a", svc, podsOf(old)...)
				g.settle()
				g.server.Refuse(func(o apitest.Object) (field.ErrorList, error) {
					if _, service := o.(*corev1.Service); !service && test.denies(o) {
						return nil, apierrors.NewForbidden(corev1.Resource("endpoints"), web.Name, errors.New("not now"))
					}
					return nil, nil
				})
				g.set("a", svc, podsOf(append(next[:3:3], old...))...)
				time.Sleep(10 * time.Second)
				if test.well {
					g.server.Refuse(nil)
				}
				for range old {
					old = old[1:]
					g.source.set("a", svc, podsOf(append(next[:3:3], old...))...)
					g.rec.Dirty(web, lanes.Removal, liveCause("a", web))
					time.Sleep(100 * time.Millisecond)
				}
				var want []string
				for _, ip := range next {
					if test.well || !test.denies(endpointsOf(ip)) {
						want = append(want, ip)
					}
				}
				g.expect(web, want...)
				if n := len(g.writes()); n > 40 {
					t.Errorf("%d writes", n)
				}
			})
		})
	}
}

func endpointsOf(ip string) apitest.Object {
	return &corev1.Endpoints{Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: ip}}}}}
}

// hasAny reports whether Endpoints or a slice have one of some addresses.
func hasAny(obj apitest.Object, ips ...string) bool {
	errs, _ := refuseAddress(ips...)(obj)
	return len(errs) > 0
}
