// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
)

// What is wrong with a replica is an Event when it changes.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			e := action.(clienttesting.CreateAction).GetObject().(*corev1.Event)
			e.Name = fmt.Sprint(e.GenerateName, time.Now().UnixNano())
			return false, nil, nil
		})
		a := newAnnouncer(func() kubernetes.Interface { return client })
		c := &Comparison{Replica: web, Now: plan.Current{Service: &plan.Service{Meta: plan.Meta{UID: "u"}}}}
		conflict := []metrics.Conflict{{Reason: "foreign", Message: strings.Repeat("x", 2*eventLength)}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.run(ctx) })
		synctest.Wait()
		for _, conflicts := range [][]metrics.Conflict{conflict, conflict, nil, nil} {
			c.trouble.Conflicts = conflicts
			a.announce(c)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		cancel()
		running.Wait()
		c.trouble.Conflicts = conflict
		a.announce(c)
		synctest.Wait()
		posted, err := client.CoreV1().Events(web.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range posted.Items {
			got = append(got, e.Type+" "+e.Reason)
			if e.InvolvedObject.Name != web.Name || e.InvolvedObject.UID != "u" || len(e.Message) > eventLength {
				t.Errorf("%+v", e)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{corev1.EventTypeNormal + " TributaryConflictCleared", corev1.EventTypeWarning + " TributaryConflict"}) {
			t.Errorf("posted %q", got)
		}
	})
}
