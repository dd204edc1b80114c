// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics/record"
)

// One record a comparison, closed by its last acknowledgement: with its earliest cause, what
// both writes changed, once, and the time that each step took.
func TestRecordOfOneChange(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1,2")
		g.expect(web, "1,2", 50*time.Millisecond)
		g.pass(time.Second)
		if c := g.seen.last(); c.Writes != 4 || c.Cause.Kind != "Pod" {
			t.Errorf("the first of a replica: %+v", c)
		}
		if told := g.seen.told(); !slices.Equal(told, []string{"written +1 +2"}) {
			t.Errorf("told %q", told)
		}
		g.fault(func(r apitest.Request) *apitest.Fault {
			if r.Resource == "endpoints" {
				time.Sleep(300 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		g.set(web, "a", "(1),3")
		g.pass(200 * time.Millisecond)
		if told := g.seen.told(); len(told) > 0 {
			t.Errorf("closed before its last acknowledgement: %q", told)
		}
		g.pass(300 * time.Millisecond)
		c := g.seen.last()
		if told := g.seen.told(); !slices.Equal(told, []string{"written +3 -2 v1"}) {
			t.Fatalf("told %q", told)
		}
		if c.Cluster != "a" || c.Cause.Kind != "Pod" || c.Causes != 1 || c.Writes != 2 || c.Lane != "removal" || c.Attempt != 0 || c.Error != "" {
			t.Errorf("%+v", c)
		}
		s := c.Stages
		if s.WriteSlices < 100*time.Millisecond || s.WriteSlices > 150*time.Millisecond || s.WriteEndpoints < 400*time.Millisecond || s.Total != s.Queue+s.Compute+s.WriteEndpoints {
			t.Errorf("%+v", s)
		}
		g.settled()
	})
}

// News that comes while a change is written is a change of its own; what failed retains its cause
// until it is written, and counts as one more attempt each time.
func TestRecordsOfFailures(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1,2")
		g.expect(web, "1,2", 50*time.Millisecond)
		g.pass(time.Second)
		g.seen.told()
		g.fault(func(apitest.Request) *apitest.Fault { return &apitest.Fault{Status: http.StatusInternalServerError} })
		g.set(web, "a", "1")
		began := time.Now()
		g.pass(3 * time.Second)
		g.r.add(web, record.Cause{Cluster: "a", Kind: "Pod", Event: "modified", Arrival: time.Now(), Live: true})
		g.pass(time.Second)
		if oldest := g.oldest()["a"]; !oldest.Equal(began) {
			t.Errorf("lag counts from %s, want %s", oldest, began)
		}
		g.fault(nil)
		g.expect(web, "1", 10*time.Second)
		attempts, writes := -1, 0
		for i, c := range g.seen.changes {
			if !c.Cause.Arrival.Equal(began) || c.Attempt < attempts || c.Attempt > attempts+1 {
				t.Errorf("%d: %+v", i, c)
			}
			switch attempts = c.Attempt; {
			case c.Result == record.Written && c.Causes == 2:
				writes += c.Writes
			case c.Result != record.Failed || c.Error == "" || c.Writes > 0:
				t.Errorf("%d: %+v", i, c)
			}
		}
		if attempts < 10 || attempts > 30 || writes != 2 {
			t.Errorf("%d attempts, %d writes", attempts, writes)
		}
		g.settled()
	})
}

// A live event without a difference is on record, and so is what blocks one.
func TestRecordsWithoutWrites(t *testing.T) {
	play(t, func(g *ground) {
		g.set(web, "a", "1,2")
		g.expect(web, "1,2", 50*time.Millisecond)
		g.pass(time.Second)
		g.seen.told()
		g.set(web, "a", "1,2")
		g.pass(time.Second)
		if told := g.seen.told(); !slices.Equal(told, []string{"dropped"}) {
			t.Errorf("told %q", told)
		}
		other := web
		other.Name = "theirs"
		g.server.Create(t, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "theirs"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		})
		g.pass(time.Second)
		g.seen.told()
		g.set(other, "a", "1")
		g.pass(time.Second)
		c := g.seen.last()
		if told := g.seen.told(); !slices.Equal(told, []string{"blocked"}) || !strings.Contains(c.Error, "theirs") && c.Error == "" {
			t.Errorf("told %q, %q", told, c.Error)
		}
		if len(g.seen.reasons(other)) == 0 {
			t.Error("no conflict is reported")
		}
		g.quiet(time.Minute)
	})
}
