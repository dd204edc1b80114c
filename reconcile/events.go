// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Events of conflicts, as `kubectl describe service` shows them. They are for
// people: whether one can be posted changes nothing else.
const (
	EventConflict = "TributaryConflict"
	EventCleared  = "TributaryConflictCleared"
	// eventComponent is the source of the events.
	eventComponent = "tributary"
)

// Bounds of what a day of conflicts everywhere costs the ingress cluster: a burst,
// then some each second, and what waits for longer is left out.
const (
	eventsBurst     = 30
	eventsPerSecond = 10
	eventsWaiting   = 1000
	// eventText is the longest message; the API's own limit is 1024 bytes.
	eventText = 1000
	// calmLooks in a row find nothing to do before old conflicts are compared with
	// those of today: a member is synced a moment before its Services are queued.
	calmLooks = 3
)

// events posts a Kubernetes Event when a conflict appears, and one when it is gone.
// A nil *events posts nothing.
//
// What was told is remembered in the ingress cluster: the name of an Event follows
// from its conflict, and one that stands and was not cleared since is not told
// again. So a restart posts nothing, for as long as the cluster keeps its Events;
// what was mended meanwhile is called cleared.
type events struct {
	client  kubernetes.Interface
	uid     func(replica syncer.Key) string
	timeout time.Duration
	logger  *slog.Logger
	limit   flowcontrol.RateLimiter
	queue   chan notice
	// settled reports whether every member was seen and nothing is left to look at;
	// run asks each time every has passed until it has recalled what was told.
	settled func() bool
	every   time.Duration
	// refused latches when the cluster has refused an Event; only run looks at it.
	refused bool

	mu sync.Mutex
	// posting is true while run runs; what is reported otherwise is told when it begins.
	posting bool
	// known holds the conflicts of each replica that has any, with their messages;
	// until the told ones are recalled, also the replicas that have none.
	known map[syncer.Key]map[conflictID]string
}

// conflictID tells the conflicts of one replica apart.
type conflictID struct {
	reason  plan.ConflictReason
	cluster string
}

// notice is one change to be told.
type notice struct {
	replica syncer.Key
	id      conflictID
	message string
	cleared bool
}

func newEvents(client kubernetes.Interface, uid func(syncer.Key) string, settled func() bool, timeout time.Duration, logger *slog.Logger) *events {
	return &events{
		client: client, uid: uid, settled: settled, every: time.Second, timeout: timeout, logger: logger, known: map[syncer.Key]map[conflictID]string{},
		limit: flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventsBurst), queue: make(chan notice, eventsWaiting),
	}
}

// report takes the conflicts of a replica after a pass over it. It does not wait.
// The usual case, none before and none now, costs one lookup.
func (e *events) report(replica syncer.Key, conflicts []plan.Conflict) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.known[replica]
	if len(before) == 0 && len(conflicts) == 0 {
		return
	}
	now := map[conflictID]string{}
	for _, c := range conflicts {
		id := conflictID{c.Reason, c.Cluster}
		if text, more := now[id]; more {
			now[id] = text + "; " + c.Message
		} else {
			now[id] = c.Message
		}
	}
	for id, message := range now {
		if _, told := before[id]; !told {
			e.lockedTell(notice{replica, id, message, false})
		}
	}
	for id, message := range before {
		if _, stays := now[id]; !stays {
			e.lockedTell(notice{replica, id, message, true})
		}
	}
	if e.known[replica] = now; len(now) == 0 {
		delete(e.known, replica)
	}
}

// setPosting begins or ends the time in which conflicts are told: of one that another
// process has told, post finds that out.
func (e *events) setPosting(posting bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.posting = posting
	if !posting {
		return
	}
	for replica, conflicts := range e.known {
		for id, message := range conflicts {
			e.lockedTell(notice{replica, id, message, false})
		}
	}
}

func (e *events) lockedTell(n notice) {
	if !e.posting {
		return
	}
	select {
	case e.queue <- n:
	default: // the status page and the metrics have it all
	}
}

// run posts until ctx is done. A nil *events returns at once.
func (e *events) run(ctx context.Context) {
	if e == nil {
		return
	}
	e.setPosting(true)
	defer e.setPosting(false)
	look := time.NewTicker(e.every)
	defer look.Stop()
	calm := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			if calm++; !e.settled() {
				calm = 0
			}
			if calm == calmLooks {
				look.Stop()
				e.recall(ctx)
			}
		case n := <-e.queue:
			if e.limit.Wait(ctx) == nil {
				e.tell(ctx, n)
			}
		}
	}
}

// tell posts one notice; what goes wrong is logged.
func (e *events) tell(ctx context.Context, n notice) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	err := e.post(ctx, n)
	switch {
	case err == nil, ctx.Err() != nil, apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Without its namespace the replica is not there either.
	case apierrors.IsForbidden(err) && !e.refused:
		e.refused = true
		e.logger.Warn("conflicts are not shown as Kubernetes Events: grant get, create and update on events", "error", err)
	default:
		e.logger.Debug("a conflict could not be shown as a Kubernetes Event", "replica", n.replica.String(), "error", err)
	}
}

func (e *events) post(ctx context.Context, n notice) error {
	client := e.client.CoreV1().Events(n.replica.Namespace)
	standing, err := client.Get(ctx, n.name(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		event := n.event(e.uid(n.replica))
		if _, err = client.Create(ctx, event, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	case err != nil:
		return err
	}
	if !n.cleared {
		end := notice{replica: n.replica, id: n.id, cleared: true}
		cleared, err := client.Get(ctx, end.name(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && cleared.LastTimestamp.Before(&standing.LastTimestamp) {
			return nil // told already, before this process began
		}
		if err != nil {
			return err
		}
	}
	again := n.event(e.uid(n.replica))
	again.ResourceVersion, again.FirstTimestamp, again.Count = standing.ResourceVersion, standing.FirstTimestamp, standing.Count+1
	_, err = client.Update(ctx, again, metav1.UpdateOptions{})
	return err
}

// name is the same for the same conflict, whoever tells it and when.
func (n *notice) name() string {
	sum := sha256.Sum256(fmt.Append(nil, n.replica, "\x00", n.id.reason, "\x00", n.id.cluster, "\x00", n.cleared))
	return n.replica.Name + "." + hex.EncodeToString(sum[:8])
}

func (n *notice) event(uid string) *corev1.Event {
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.replica.Namespace, Name: n.name(), Annotations: n.annotations()},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Service", Namespace: n.replica.Namespace, Name: n.replica.Name, UID: types.UID(uid),
		},
		Type: corev1.EventTypeWarning, Reason: EventConflict, Message: shortText(string(n.id.reason) + ": " + n.message),
		Source: corev1.EventSource{Component: eventComponent}, ReportingController: eventComponent,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if n.cleared {
		event.Type, event.Reason = corev1.EventTypeNormal, EventCleared
		event.Message = shortText("no longer: " + event.Message)
	}
	return event
}

func shortText(s string) string {
	if len(s) <= eventText {
		return s
	}
	return strings.ToValidUTF8(s[:eventText], "") + "…"
}
