// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/next/clusters/kube"
	"tributary.dev/tributary/next/syncer"
)

// IdentitiesPrefix begins the name of the ConfigMap; that of the installation follows.
const IdentitiesPrefix = "tributary-identities."

const (
	// identitiesEvery is the time between two looks at the record, identitiesTimeout bounds one.
	identitiesEvery   = 10 * time.Second
	identitiesTimeout = 5 * time.Second
)

// Identities is the record of which cluster each member is, by the UID of its namespace
// kube-system: one ConfigMap of the installation with a line for each member. Whoever takes a
// line out accepts the cluster that is found next. A record that cannot be read or written
// only means that a start believes what it finds. All methods are safe for concurrent use.
type Identities struct {
	access             *kube.Access
	permit             Permit
	namespace, name    string
	labels             map[string]string
	changed            func(member string)
	logger             *slog.Logger
	readOnce, failOnce sync.Once
	read               chan struct{}
	wake               chan struct{}

	mu sync.Mutex
	// known is as it was last read or written, found what is to be added.
	known, found map[string]string
}

// NewIdentities returns the record of an installation in its own namespace, not read yet.
// changed is told of a member whose line was taken out, or is another one: it is to be
// followed anew.
func NewIdentities(access *kube.Access, permit Permit, namespace, instance string, changed func(member string), logger *slog.Logger) *Identities {
	return &Identities{
		access: access, permit: permit, namespace: namespace, name: IdentitiesPrefix + instance, changed: changed, logger: logger,
		labels: map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: instance},
		read:   make(chan struct{}), wake: make(chan struct{}, 1), known: map[string]string{}, found: map[string]string{},
	}
}

// Of returns the UID by which a member is known, "" if by none. It waits until the record was
// read; the error is ctx's.
func (i *Identities) Of(ctx context.Context, member string) (uid string, err error) {
	select {
	case <-i.read:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if uid, known := i.known[member]; known {
		return uid, nil
	}
	return i.found[member], nil
}

// Found notes which cluster a member was found to be, where that was not known. The leader
// puts it on record.
func (i *Identities) Found(member, uid string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known := i.known[member]; known || uid == "" || i.found[member] == uid {
		return
	}
	i.found[member] = uid
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// Run looks at the record until ctx is done.
func (i *Identities) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := i.look(ctx)
		pause := identitiesEvery
		switch {
		case err == nil || apierrors.IsForbidden(err):
			i.readOnce.Do(func() { close(i.read) })
		default:
			pause = time.Second
		}
		if err != nil && ctx.Err() == nil {
			i.failOnce.Do(func() {
				i.logger.Warn("which cluster each member is cannot be kept on record: a start believes what it finds", "configmap", i.namespace+"/"+i.name, "error", err)
			})
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-i.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// look reads the record and, where this process leads, adds what was found.
func (i *Identities) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, identitiesTimeout)
	defer cancel()
	session, err := i.access.Get(ctx)
	if err != nil {
		return err
	}
	records := session.Clientset().CoreV1().ConfigMaps(i.namespace)
	record, err := records.Get(ctx, i.name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if missing {
		record = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: i.name, Labels: i.labels}}
	} else if err != nil {
		return err
	}
	news := i.take(record.Data)
	bounded, release, held := i.permit.Hold(ctx)
	if len(news) == 0 || !held {
		return nil
	}
	defer release()
	if record.Data == nil {
		record.Data = map[string]string{}
	}
	maps.Copy(record.Data, news)
	if missing {
		_, err = records.Create(bounded, record, metav1.CreateOptions{})
	} else {
		_, err = records.Update(bounded, record, metav1.UpdateOptions{})
	}
	if err == nil {
		i.take(record.Data)
	}
	return err
}

// take takes in what is on record, and returns what is to be added to it.
func (i *Identities) take(record map[string]string) (news map[string]string) {
	i.mu.Lock()
	var others []string
	for member, uid := range i.known {
		if record[member] != uid {
			others = append(others, member)
			delete(i.found, member)
		}
	}
	i.known = maps.Clone(record)
	for member := range record {
		delete(i.found, member)
	}
	news = maps.Clone(i.found)
	i.mu.Unlock()
	for _, member := range others {
		i.logger.Info("the record of a member's cluster was changed: what is found now is accepted", "cluster", member)
		i.changed(member)
	}
	return news
}
