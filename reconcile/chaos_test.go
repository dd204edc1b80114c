// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// chaos is members that change, a server that fails now and then, and people
// who edit what they should not, all drawn from one seed.
type chaos struct {
	*ground
	rand *rand.Rand
	// wanted are the ready addresses by replica and member.
	wanted map[syncer.Key]map[string][]string
}

func TestEverythingConvergesWhateverFails(t *testing.T) {
	for seed := range dice.Seeds(t, 6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			c := &chaos{newGround(t, "a", "b"), dice.From(seed, 1), map[syncer.Key]map[string][]string{}}
			c.start()
			c.fail()
			for range 150 {
				c.step()
			}
			c.server.Intercept(nil)
			for _, resource := range []string{"services", "endpoints", "endpointslices"} {
				c.server.ThawWatches(resource)
			}
			c.wait("the ingress cluster is as the members demand", func() bool {
				return len(c.rec.Queue().OldestArrivals()) == 0 && c.difference() == ""
			})
			c.settle()
			c.writes()
			c.rec.Resync("", "resync")
			c.settle()
			c.expectWrites()
			if d := c.difference(); d != "" {
				t.Error(d)
			}
		})
	}
}

// fail makes a fifth of the writes fail, each in one of the usual ways.
func (c *chaos) fail() {
	faults := []apitest.Fault{
		{Status: http.StatusInternalServerError}, {Status: http.StatusServiceUnavailable}, {Status: http.StatusConflict},
		{Cut: true}, {Do: true, Cut: true}, {Do: true, Status: http.StatusGatewayTimeout},
	}
	var mu sync.Mutex
	random := dice.From(c.rand.Uint64(), 2)
	c.server.Intercept(func(r apitest.Request) *apitest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.UserAgent != product || r.Verb == "watch" || r.Verb == "list" || random.IntN(5) > 0 {
			return nil
		}
		return &faults[random.IntN(len(faults))]
	})
}

func (c *chaos) step() {
	key := syncer.Key{Namespace: "shop", Name: "web-" + strconv.Itoa(c.rand.IntN(5))}
	cluster := []string{"a", "b"}[c.rand.IntN(2)]
	switch c.rand.IntN(12) {
	case 0:
		c.damage(key)
	case 1:
		c.server.FreezeWatches([]string{"services", "endpoints", "endpointslices"}[c.rand.IntN(3)])
	case 2:
		c.server.ThawWatches([]string{"services", "endpoints", "endpointslices"}[c.rand.IntN(3)])
	case 3:
		c.server.DropWatches()
	case 4:
		c.settle()
	case 5:
		if c.rand.IntN(4) == 0 { // a restart
			c.stop()
			c.server.ThawWatches("services")
			c.server.ThawWatches("endpoints")
			c.server.ThawWatches("endpointslices")
			c.start()
		}
	case 6:
		c.want(key, cluster, nil)
		c.unset(cluster, key)
	default:
		var pods []*syncer.Pod
		var ips []string
		for range 1 + c.rand.IntN(4) {
			ip := fmt.Sprintf("10.%d.0.%d", strings.Index("ab", cluster), 1+c.rand.IntN(20))
			if !slices.Contains(ips, ip) {
				ips = append(ips, ip)
				pods = append(pods, pod(key, ip, true))
			}
		}
		c.want(key, cluster, ips)
		c.set(cluster, service(key, 1, 8080), pods...)
	}
}

func (c *chaos) want(key syncer.Key, cluster string, ips []string) {
	if c.wanted[key] == nil {
		c.wanted[key] = map[string][]string{}
	}
	c.wanted[key][cluster] = ips
}

// damage edits or deletes one object of a replica behind the product's back.
func (c *chaos) damage(key syncer.Key) {
	switch c.rand.IntN(3) {
	case 0:
		if _, ok := apitest.Get[*corev1.Endpoints](c.server, key.Namespace, key.Name); ok {
			_ = c.server.Client(c.t, "somebody").CoreV1().Endpoints(key.Namespace).Delete(c.t.Context(), key.Name, metav1.DeleteOptions{})
		}
	case 1:
		_ = c.server.Client(c.t, "somebody").CoreV1().Services(key.Namespace).Delete(c.t.Context(), key.Name, metav1.DeleteOptions{})
	default:
		for _, es := range apitest.List[*discoveryv1.EndpointSlice](c.server, key.Namespace) {
			if strings.HasPrefix(es.Name, key.Name) {
				_ = c.server.Client(c.t, "somebody").DiscoveryV1().EndpointSlices(key.Namespace).Delete(c.t.Context(), es.Name, metav1.DeleteOptions{})
				return
			}
		}
	}
}

// difference tells the first replica that is not as demanded.
func (c *chaos) difference() string {
	for _, key := range slices.SortedFunc(maps.Keys(c.wanted), syncer.Key.Compare) {
		var want []string
		for _, ips := range c.wanted[key] {
			want = append(want, ips...)
		}
		slices.Sort(want)
		endpoints, sliced := c.addresses(key)
		if !slices.Equal(endpoints, want) || !slices.Equal(sliced, want) {
			return fmt.Sprintf("%s has Endpoints %v and slices %v, want %v", key, endpoints, sliced, want)
		}
	}
	return ""
}
