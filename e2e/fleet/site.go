// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/e2e/cluster"
)

// ProductUser is tributary's identity in every cluster, a service account as far as authorization and priority levels
// go. Its token is the apiserver's own, so that it outlives whatever a test does to the data.
const ProductUser = "system:serviceaccount:tributary-system:tributary"

// MemberRules is all that tributary may do in a member: read.
func MemberRules() []rbacv1.PolicyRule {
	read := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "pods", "namespaces", "endpoints"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
	}
}

// IngressRules is all that tributary may do in the ingress cluster.
func IngressRules() []rbacv1.PolicyRule {
	write := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "endpoints"}, Verbs: write},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: write},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch", "create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: write},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "update"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"get", "list", "create", "patch", "update"}},
	}
}

// Site is one cluster of a fleet. Its methods may be called from any goroutine.
type Site struct {
	*cluster.Cluster
	// Client is the administrator's: no client-side limit, protobuf, no warnings.
	Client kubernetes.Interface
	// Kubeconfig is the file with which tributary reaches this cluster as ProductUser: everything inline.
	Kubeconfig string
	// Product is that identity, for kubeconfigs to other addresses of the same cluster.
	Product cluster.User
	// PodCIDR is where the addresses of this site's pods come from.
	PodCIDR netip.Prefix

	rules     []rbacv1.PolicyRule // what tributary may do here
	addresses atomic.Uint32
}

func (f *Fleet) startSite(ctx context.Context, name string, number int) (*Site, error) {
	product := cluster.TokenUser(ProductUser, "system:serviceaccounts", "system:serviceaccounts:tributary-system")
	o := cluster.Options{
		Name: name, Dir: filepath.Join(f.Dir, name), Audit: f.options.Audit,
		Tokens: []cluster.User{product},
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("site %s: %w", name, err)
	}
	if f.options.Adjust != nil {
		f.options.Adjust(name, &o)
	}
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Site{
		Cluster: c, Client: c.Client(), Product: product, PodCIDR: podRange(number),
		Kubeconfig: filepath.Join(f.Dir, name+".kubeconfig"), rules: MemberRules(),
	}
	if name == IngressName {
		s.rules = IngressRules()
	}
	if err := s.admitProduct(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("site %s: %w", name, err)
	}
	return s, nil
}

// Reset makes the site one that has just started, whatever became of its servers, its objects, tributary's rights and
// Kubeconfig. Addresses of pods are not given out again.
func (s *Site) Reset(ctx context.Context) error {
	if err := s.Cluster.Reset(ctx); err != nil {
		return err
	}
	return s.admitProduct(ctx)
}

func (s *Site) admitProduct(ctx context.Context) error {
	if err := s.Grant(ctx, ProductUser, s.rules...); err != nil {
		return err
	}
	text, err := s.Cluster.Kubeconfig(s.Product)
	if err != nil {
		return err
	}
	return replaceFile(s.Kubeconfig, text)
}

// PlayVersion puts a front before this cluster that answers as a server of that version does ("1.17" or "1.20"), and
// rewrites the file Kubeconfig to point there. Client still talks to the real server. Close the front when done.
func (s *Site) PlayVersion(version string) (*cluster.OldFront, error) {
	front, err := cluster.StartOldFront(s.Cluster, version)
	if err != nil {
		return nil, err
	}
	text, err := front.Kubeconfig(s.Product)
	if err == nil {
		err = replaceFile(s.Kubeconfig, text)
	}
	if err != nil {
		front.Close()
		return nil, fmt.Errorf("site %s as %s: %w", s.Name(), version, err)
	}
	return front, nil
}

// NextIP returns a pod address of this site that was not given out before.
func (s *Site) NextIP() netip.Addr {
	base := s.PodCIDR.Addr().As4()
	n := binary.BigEndian.Uint32(base[:]) + s.addresses.Add(1)
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}
