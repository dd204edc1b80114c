// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/syncer"
)

// What a Lease of ours carries.
const (
	prefix = "tributary-"
	// defaultInstance is in the name of no Lease, and its label is missing on those of a
	// former version.
	defaultInstance = "default"
	// AnnotationState says how the member stood when the Lease was last written.
	AnnotationState = "tributary.dev/state"
	// AnnotationIdentity is the UID of the member's kube-system namespace, by which
	// it is recognised after a restart.
	AnnotationIdentity = "tributary.dev/identity"
)

// Name is that of the Lease of a member. No leader's Lease is named so.
func Name(instance, cluster string) string {
	if instance == defaultInstance {
		return prefix + cluster
	}
	return prefix + "member." + instance + "." + cluster
}

// Every is the time between two renewals, Duration after which a Lease that was
// not renewed has run out: what a kubelet's are.
const (
	Every    = 10 * time.Second
	Duration = 40 * time.Second
	// look is the time between two looks at the members: what a Lease says of one, its
	// identity above all, is written as soon as it is known.
	look = time.Second
	// refusedPause is how long nothing is tried after a refusal.
	refusedPause = 5 * time.Minute
	timeout      = 5 * time.Second
)

// Member is a member as its Lease shows it.
type Member struct {
	Cluster string
	// Fresh is whether the member is seen: its Lease is renewed then, and only then.
	Fresh bool
	// Seen is when it was last heard of.
	Seen time.Time
	// State is a word for people.
	State string
	// Identity is the UID of its kube-system namespace; "" when it is not known.
	Identity string
}

// API is the part of client-go's LeaseInterface that is used.
type API interface {
	List(ctx context.Context, opts metav1.ListOptions) (*coordinationv1.LeaseList, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Renewer keeps the Leases. All fields must be set.
type Renewer struct {
	// Leases returns the Leases of a namespace.
	Leases func(namespace string) API
	// Namespace returns where they are now, or "" for nowhere: none is written then,
	// and those that are there run out.
	Namespace func() string
	// Members returns every configured member. It must not block.
	Members func() []Member
	// Instance names the installation, Holder this process.
	Instance, Holder string
	Logger           *slog.Logger

	namespace string
	// known are the Leases as they stand, by name; nil when they must be listed.
	known map[string]*coordinationv1.Lease
	// due is when each is to be renewed, by name.
	due    map[string]time.Time
	pause  time.Time
	failed bool
}

// Run keeps the Leases until ctx ends. They are left to run out.
func (r *Renewer) Run(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		r.renew(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// renew writes what is due, and says once when that fails.
func (r *Renewer) renew(ctx context.Context, now time.Time) {
	namespace := r.Namespace()
	if namespace != r.namespace {
		r.namespace, r.known, r.due, r.pause = namespace, nil, map[string]time.Time{}, time.Time{}
	}
	if namespace == "" || now.Before(r.pause) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := r.renewAll(ctx, now)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		r.known = nil // somebody else wrote; look again
	case err != nil:
		r.known, r.pause = nil, now.Add(Every)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			r.pause = now.Add(refusedPause)
		}
		if !r.failed {
			r.Logger.Warn("the freshness of members cannot be shown as Leases", "namespace", namespace, "error", err)
		}
		r.failed = true
	case r.failed:
		r.failed = false
		r.Logger.Info("the freshness of members is shown as Leases again", "namespace", namespace)
	}
}

func (r *Renewer) renewAll(ctx context.Context, now time.Time) error {
	api := r.Leases(r.namespace)
	if err := r.list(ctx, api); err != nil {
		return err
	}
	members := r.Members()
	wanted := map[string]bool{}
	for _, m := range members {
		wanted[Name(r.Instance, m.Cluster)] = true
		if err := r.keep(ctx, api, m, now); err != nil {
			return fmt.Errorf("lease %s/%s: %w", r.namespace, Name(r.Instance, m.Cluster), err)
		}
	}
	for name, lease := range r.known {
		if wanted[name] || !ours(lease, r.Instance) {
			continue
		}
		// The member left the configuration: a Lease that runs out would raise alarm.
		if err := api.Delete(ctx, name, *metav1.NewRVDeletionPrecondition(lease.ResourceVersion)); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete lease %s/%s: %w", r.namespace, name, err)
		}
		delete(r.known, name)
	}
	return nil
}

// list reads what stands, once.
func (r *Renewer) list(ctx context.Context, api API) error {
	if r.known != nil {
		return nil
	}
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list leases of namespace %s: %w", r.namespace, err)
	}
	r.known = map[string]*coordinationv1.Lease{}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, prefix) {
			r.known[list.Items[i].Name] = &list.Items[i]
		}
	}
	return nil
}

// Identities reads by which identity an installation knew each member last.
func Identities(ctx context.Context, api API, instance string) (map[string]string, error) {
	list, err := api.List(ctx, metav1.ListOptions{LabelSelector: syncer.LabelManagedBy + "=" + syncer.ManagedBy})
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	identities := map[string]string{}
	for i := range list.Items {
		lease := &list.Items[i]
		if uid := lease.Annotations[AnnotationIdentity]; uid != "" && ours(lease, instance) {
			identities[lease.Labels[syncer.LabelSourceCluster]] = uid
		}
	}
	return identities, nil
}

func ours(lease *coordinationv1.Lease, instance string) bool {
	return lease.Labels[syncer.LabelManagedBy] == syncer.ManagedBy && lease.Labels[syncer.LabelSourceCluster] != "" &&
		cmp.Or(lease.Labels[syncer.LabelInstance], defaultInstance) == instance
}

// keep renews the Lease of a member that is seen.
func (r *Renewer) keep(ctx context.Context, api API, m Member, now time.Time) error {
	standing := r.known[Name(r.Instance, m.Cluster)]
	if !m.Fresh || standing != nil && !ours(standing, r.Instance) {
		return nil
	}
	wanted := r.lease(m, standing)
	var err error
	switch {
	case standing == nil:
		wanted.Spec.AcquireTime = &metav1.MicroTime{Time: now}
		standing, err = api.Create(ctx, wanted, metav1.CreateOptions{})
	case now.Before(r.due[wanted.Name]) && maps.Equal(standing.Annotations, wanted.Annotations):
		return nil
	default:
		standing, err = api.Update(ctx, wanted, metav1.UpdateOptions{})
	}
	if err == nil {
		r.known[wanted.Name], r.due[wanted.Name] = standing, now.Add(Every)
	}
	return err
}

// lease is what the Lease of a member is to be.
func (r *Renewer) lease(m Member, standing *coordinationv1.Lease) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: Name(r.Instance, m.Cluster)}}
	if standing != nil {
		lease = standing.DeepCopy()
	}
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Labels[syncer.LabelManagedBy], lease.Labels[syncer.LabelSourceCluster], lease.Labels[syncer.LabelInstance] = syncer.ManagedBy, m.Cluster, r.Instance
	lease.Annotations[AnnotationState] = m.State
	if m.Identity != "" {
		lease.Annotations[AnnotationIdentity] = m.Identity
	}
	lease.Spec.HolderIdentity = &r.Holder
	lease.Spec.LeaseDurationSeconds = new(int32(Duration / time.Second))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: m.Seen}
	return lease
}
