// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/syncer"
)

const (
	// eventLength is the longest message that the API accepts, eventTimeout bounds a request.
	eventLength  = 1024
	eventTimeout = 5 * time.Second
	// eventRate and eventBurst bound how many are posted: the rest is left out.
	eventRate, eventBurst = 5, 200
)

// announcer posts Kubernetes Events about what is wrong with replicas, for people: whether one
// can be posted changes nothing else, and is not logged.
type announcer struct {
	client func() kubernetes.Interface
	events chan *corev1.Event // to be posted
	// Of the goroutine that announces; said is what the last Event about a replica was about.
	limiter *rate.Limiter
	said    map[syncer.Key]string
}

func newAnnouncer(client func() kubernetes.Interface) *announcer {
	return &announcer{
		client: client, limiter: rate.NewLimiter(eventRate, eventBurst), events: make(chan *corev1.Event, eventBurst), said: map[syncer.Key]string{},
	}
}

// run posts until ctx is done.
func (a *announcer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-a.events:
			if client := a.client(); client != nil {
				posting, cancel := context.WithTimeout(ctx, eventTimeout)
				_, _ = client.CoreV1().Events(e.Namespace).Create(posting, e, metav1.CreateOptions{})
				cancel()
			}
		}
	}
}

// announce has an Event posted about a replica when what is wrong with it changes. A namespace
// that may not be written to gets none.
func (a *announcer) announce(c *Comparison) {
	var reasons, messages []string
	for _, one := range c.trouble.Conflicts {
		reasons, messages = append(reasons, one.Reason+" "+one.Cluster), append(messages, one.Reason+": "+one.Message)
	}
	now, was := strings.Join(reasons, "; "), a.said[c.Replica]
	if c.Excluded || now == was || !a.limiter.Allow() {
		return
	}
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: c.Replica.Namespace, GenerateName: c.Replica.Name + "."},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: c.Replica.Namespace, Name: c.Replica.Name},
		Type:           corev1.EventTypeWarning, Reason: "TributaryConflict", Message: strings.Join(messages, "; "),
		Source: corev1.EventSource{Component: syncer.ManagedBy}, Count: 1, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
	}
	if c.Now.Service != nil {
		e.InvolvedObject.UID = types.UID(c.Now.Service.UID) // by which people's tools find it
	}
	a.said[c.Replica] = now
	if now == "" {
		delete(a.said, c.Replica)
		e.Type, e.Reason, e.Message = corev1.EventTypeNormal, "TributaryConflictCleared", "no longer: "+was
	}
	e.Message = e.Message[:min(len(e.Message), eventLength)]
	select {
	case a.events <- e:
	default: // nobody posts for a while
	}
}
