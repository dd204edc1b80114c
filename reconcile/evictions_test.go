// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
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
)

// failsAtAddresses answers with a code wherever one of the addresses is in an object.
func failsAtAddresses(code int, message string, bad ...string) refuser {
	return func(obj apitest.Object) (field.ErrorList, error) {
		var has []string
		switch o := obj.(type) {
		case *corev1.Endpoints:
			for _, s := range o.Subsets {
				for _, a := range s.Addresses {
					has = append(has, a.IP)
				}
			}
		case *discoveryv1.EndpointSlice:
			for _, e := range o.Endpoints {
				has = append(has, e.Addresses[0])
			}
		}
		if slices.ContainsFunc(has, func(ip string) bool { return slices.Contains(bad, ip) }) {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: message}}
		}
		return nil, nil
	}
}

func addressesOf(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("10.0.0.", i+1))
	}
	return all
}

// An address that stands is denied by whatever code: what is dead beside it goes, and what
// lives beside it stays.
func TestStandingAddressIsEvictedWhateverTheCode(t *testing.T) {
	const decided, failed = `admission webhook "w" denied the request: bad`, "bad"
	for _, test := range []struct {
		code    int
		message string
		within  time.Duration
	}{
		{400, failed, time.Second}, {404, failed, time.Second}, {409, failed, time.Second}, {429, decided, time.Second}, {429, failed, time.Minute},
		{500, decided, time.Second}, {500, failed, time.Second}, {501, failed, time.Second}, {503, decided, time.Second}, {503, failed, time.Second}, {504, failed, time.Second},
	} {
		t.Run(fmt.Sprint(test.code, " ", test.message), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroundOn(t, apitest.NewInMemory(t), "a")
				g.options.Queue.Backoff = lanes.Backoff{}
				g.start()
				g.set("a", service(web, 1, 8080), podsOf(addressesOf(6))...)
				g.settle()
				g.server.Refuse(failsAtAddresses(test.code, test.message, "10.0.0.3"))
				g.set("a", service(web, 1, 8080), podsOf(addressesOf(6)[1:])...)
				time.Sleep(test.within)
				g.expect(web, "10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.6")
				if c := g.seen.trouble(web).Conflicts; len(c) != 1 {
					t.Errorf("conflicts %+v", c)
				}
				g.server.Refuse(nil)
				time.Sleep(10 * time.Minute)
				g.expect(web, addressesOf(6)[1:]...)
			})
		})
	}
}

// A server that fails at everything is asked little more than before.
func TestServerThatFailsAtEverythingIsNotSearched(t *testing.T) {
	for _, code := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroundOn(t, apitest.NewInMemory(t), "a")
			g.options.Queue.Backoff = lanes.Backoff{}
			g.start()
			g.set("a", service(web, 1, 8080), podsOf(addressesOf(6))...)
			g.settle()
			var writes, tried atomic.Int64
			g.server.Intercept(func(r apitest.Request) *apitest.Fault {
				switch {
				case r.Verb != "update":
					return nil
				case r.DryRun:
					tried.Add(1)
				default:
					writes.Add(1)
				}
				return &apitest.Fault{Status: code}
			})
			g.set("a", service(web, 1, 8080), podsOf(addressesOf(6)[1:])...)
			time.Sleep(10 * time.Minute)
			probes := int64(10 * time.Minute / breakerMax)
			if tried.Load() > writes.Load()+probes || writes.Load() > 1500 {
				t.Errorf("%d: %d writes, and %d that were tried", code, writes.Load(), tried.Load())
			}
			g.server.Intercept(nil)
			time.Sleep(time.Minute)
			g.expect(web, addressesOf(6)[1:]...)
		})
	}
}

// A webhook without dry runs denies addresses that stand: what is dead goes, and nothing that
// it takes is left out in the end.
func TestStandingAddressesAreEvictedWithoutDryRuns(t *testing.T) {
	for _, bad := range [][]string{{"10.0.0.3"}, {"10.0.0.3", "10.0.0.9"}, {"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8", "10.0.0.9"}} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroundOn(t, apitest.NewInMemory(t), "a")
			g.start()
			g.set("a", service(web, 1, 8080), podsOf(addressesOf(12))...)
			g.settle()
			g.server.Intercept(func(r apitest.Request) *apitest.Fault {
				if r.DryRun {
					return &apitest.Fault{Status: http.StatusBadRequest}
				}
				return nil
			})
			g.server.Refuse(failsAtAddresses(http.StatusForbidden, "bad", bad...))
			g.set("a", service(web, 1, 8080), podsOf(addressesOf(12)[1:])...)
			g.settle()
			want := []string{"10.0.0.10", "10.0.0.11", "10.0.0.12"}
			want = append(want, slices.DeleteFunc(addressesOf(9)[1:], func(ip string) bool { return slices.Contains(bad, ip) })...)
			time.Sleep(time.Minute)
			g.expect(web, want...)
		})
	}
}
