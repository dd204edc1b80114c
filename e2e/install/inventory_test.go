// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"tributary.dev/tributary/e2e/fleet"
)

// item names an object of any kind.
type item struct{ resource, namespace, name string }

func (i item) String() string {
	return i.resource + " " + strings.TrimPrefix(i.namespace+"/"+i.name, "/")
}

// inventory is every object of a cluster, of every kind that its API server lists.
type inventory map[item]metav1.ObjectMeta

// inventory lists a cluster. It omits Events, which expire, and component statuses, which are not stored.
func (s *site) inventory(of *fleet.Site) inventory {
	s.Helper()
	config := of.AdminConfig()
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	s.must(err)
	client, all := metadata.NewForConfigOrDie(config), inventory{}
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		s.must(err)
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") || kind.Name == "events" || kind.Name == "componentstatuses" {
				continue
			}
			list, err := client.Resource(version.WithResource(kind.Name)).List(s.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // a kind that has just gone
			}
			s.must(err)
			for _, object := range list.Items {
				all[item{kind.Name, object.Namespace, object.Name}] = object.ObjectMeta
			}
		}
	}
	return all
}

// left lists objects that exist after an uninstallation and did not before, except the operator's, and all that have a
// mark of Tributary. Objects in a terminating namespace do not count.
func left(before, after inventory, theirs func(item) bool) (all []string) {
	for i, meta := range after {
		_, was := before[i]
		namespace := after[item{"namespaces", "", i.namespace}]
		switch {
		case meta.DeletionTimestamp != nil, namespace.DeletionTimestamp != nil:
		case !was && !theirs(i), marked(meta):
			all = append(all, i.String())
		}
	}
	slices.Sort(all)
	return all
}

// marked reports whether an object has a label or an annotation of Tributary's.
func marked(meta metav1.ObjectMeta) bool {
	for _, texts := range []map[string]string{meta.Labels, meta.Annotations} {
		for key, value := range texts {
			if strings.HasPrefix(key, "tributary.dev/") || strings.HasPrefix(value, "tributary") {
				return true
			}
		}
	}
	return false
}

// theirs returns what the test creates in a cluster as its owner.
func (s *site) theirs(of *fleet.Site) func(item) bool {
	resources := []string{"pods", "services", "endpoints", "endpointslices", "ipaddresses"}
	if of == s.fleet.Ingress {
		resources = []string{"ingresses", "httproutes", "customresourcedefinitions", "apiservices"}
	}
	return func(i item) bool {
		return slices.Contains(resources, i.resource) || i.resource == "namespaces" && slices.Contains([]string{"shop", "stock"}, i.name)
	}
}

// nothingIsLeft checks that nothing of ours remains in any cluster, but marked namespaces that were created for replicas.
func (s *site) nothingIsLeft() {
	s.Helper()
	for of, before := range s.before {
		after := s.inventory(of)
		if of == s.fleet.Ingress {
			for _, name := range []string{"shop", "stock"} {
				namespace := item{"namespaces", "", name}
				if labels := after[namespace].Labels; labels["app.kubernetes.io/managed-by"] != "tributary" || labels["tributary.dev/instance"] != "default" {
					s.Errorf("namespace %s was made by Tributary and has labels %v", name, labels)
				}
				delete(after, namespace)
			}
		}
		if all := left(before, after, s.theirs(of)); len(all) > 0 {
			s.Errorf("%s still has:\n%s", of.Name(), strings.Join(all, "\n"))
		}
	}
}

func TestLeft(t *testing.T) {
	going := metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}
	before := inventory{
		{"nodes", "", "n"}:        {},
		{"services", "shop", "s"}: {},
	}
	after := maps.Clone(before)
	maps.Copy(after, inventory{
		{"namespaces", "", "going"}:      going,
		{"leases", "going", "l"}:         {},
		{"secrets", "shop", "x"}:         {},
		{"pods", "shop", "theirs"}:       {},
		{"pods", "shop", "ours"}:         {Labels: map[string]string{"app.kubernetes.io/managed-by": "tributary"}},
		{"services", "shop", "s"}:        {Annotations: map[string]string{"tributary.dev/sources": "{}"}},
		{"endpointslices", "shop", "sl"}: {Labels: map[string]string{"endpointslice.kubernetes.io/managed-by": "tributary.dev"}},
	})
	got := left(before, after, func(i item) bool { return i.resource == "pods" || i.resource == "endpointslices" })
	if want := []string{"endpointslices shop/sl", "pods shop/ours", "secrets shop/x", "services shop/s"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
