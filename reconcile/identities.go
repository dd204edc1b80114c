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
	"k8s.io/apimachinery/pkg/util/wait"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/syncer"
)

const (
	// identitiesEvery is the time between two looks at the record, identitiesTimeout bounds one.
	identitiesEvery, identitiesTimeout = 5 * time.Second, 5 * time.Second
)

// Identities is the record of which cluster each member is, by the UID of its namespace
// kube-system: one ConfigMap of the installation with a line for each member. Whoever removes a
// line accepts the cluster that is found next. A record that may not be read or written
// only means that a start believes what it finds. All methods are safe for concurrent use.
type Identities struct {
	access  *kube.Access
	permit  Permit
	meta    metav1.ObjectMeta
	changed func(member string)
	logger  *slog.Logger
	read    chan struct{} // closed once the record was read

	mu sync.Mutex
	// uids are those by which members are known, recorded those on record when that was last
	// read or written.
	uids, recorded map[string]string
}

// NewIdentities returns the record of an installation in its own namespace, not read yet.
// changed is called with a member whose line was removed or changed: it is to be followed
// anew.
func NewIdentities(access *kube.Access, permit Permit, namespace, instance string, changed func(member string), logger *slog.Logger) *Identities {
	return &Identities{
		access: access, permit: permit, meta: metav1.ObjectMeta{Namespace: namespace, Name: "tributary-identities." + instance, Labels: syncer.OwnLabels(instance)},
		changed: changed, logger: logger, read: make(chan struct{}), uids: map[string]string{},
	}
}

// Wait waits until the record was read. The error is ctx's.
func (i *Identities) Wait(ctx context.Context) error {
	select {
	case <-i.read:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Known returns the UID by which a member is known, "" if by none.
func (i *Identities) Known(member string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.uids[member]
}

// Found records which cluster a member was found to be, where that was not known. The leader
// soon writes it to the record.
func (i *Identities) Found(member, uid string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.uids[member] == "" && uid != "" {
		i.uids[member] = uid
	}
}

// Run looks at the record until ctx is done.
func (i *Identities) Run(ctx context.Context) {
	read, failing := sync.OnceFunc(func() { close(i.read) }), false
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := i.look(ctx)
		if err == nil || apierrors.IsForbidden(err) {
			read()
		}
		if err != nil && !failing && ctx.Err() == nil {
			i.logger.Warn("which cluster each member is cannot be kept on record: a start believes what it finds", "configmap", i.meta.Namespace+"/"+i.meta.Name, "error", err)
		}
		failing = err != nil
	}, identitiesEvery)
}

// look reads the record and, where this process leads, adds what was found.
func (i *Identities) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, identitiesTimeout)
	defer cancel()
	session, err := i.access.Get(ctx)
	if err != nil {
		return err
	}
	client := session.Clientset().CoreV1().ConfigMaps(i.meta.Namespace)
	record, err := client.Get(ctx, i.meta.Name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if missing {
		record = &corev1.ConfigMap{ObjectMeta: i.meta}
	} else if err != nil {
		return err
	}
	wanted := i.take(record.Data)
	if maps.Equal(wanted, record.Data) {
		return nil
	}
	bounded, release, held := i.permit.Hold(ctx)
	if !held {
		return nil
	}
	defer release()
	record.Data = wanted
	if missing {
		_, err = client.Create(bounded, record, metav1.CreateOptions{})
	} else {
		_, err = client.Update(bounded, record, metav1.UpdateOptions{})
	}
	if err == nil {
		i.take(record.Data)
	}
	return err
}

// take applies what is on record, and returns what is to be.
func (i *Identities) take(record map[string]string) (wanted map[string]string) {
	i.mu.Lock()
	var others []string
	for member, uid := range i.recorded {
		if record[member] != uid {
			others = append(others, member)
			delete(i.uids, member)
		}
	}
	i.recorded = maps.Clone(record)
	maps.Copy(i.uids, record)
	wanted = maps.Clone(i.uids)
	i.mu.Unlock()
	for _, member := range others {
		i.logger.Info("the record of a member's cluster was changed: what is found now is accepted", "cluster", member)
		i.changed(member)
	}
	return wanted
}
