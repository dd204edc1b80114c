// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
)

// SliceOracle runs upstream's EndpointSlice reconciler. It is not safe for concurrent use.
type SliceOracle struct {
	client     *fake.Clientset
	reconciler *endpointslice.Reconciler
	created    []*discoveryv1.EndpointSlice
}

// NewSliceOracle returns an oracle with slices of at most 100 endpoints.
func NewSliceOracle() *SliceOracle {
	client := fake.NewSimpleClientset()
	o := &SliceOracle{client: client}
	client.PrependReactor("create", "endpointslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		slice := a.(clienttesting.CreateAction).GetObject().(*discoveryv1.EndpointSlice).DeepCopy()
		slice.Name = fmt.Sprintf("%s%d", slice.GenerateName, len(o.created))
		o.created = append(o.created, slice)
		return true, slice, nil
	})
	o.reconciler = endpointslice.NewReconciler(client, everyNode{}, 100, endpointsliceutil.NewEndpointSliceTracker(), nil,
		record.NewFakeRecorder(0), "endpointslice-controller.k8s.io")
	return o
}

// Slices returns what upstream creates for a case that no slices exist for.
func (o *SliceOracle) Slices(c *Case) ([]*discoveryv1.EndpointSlice, error) {
	o.created = nil
	o.client.ClearActions() // the fake remembers every call
	if !hasController(c.Service) {
		return nil, nil
	}
	err := o.reconciler.Reconcile(klog.Background(), c.Service, c.selected(), nil, time.Time{})
	return o.created, err
}

// selected returns the pods that the Service selects.
func (c *Case) selected() []*corev1.Pod {
	selector := labels.Set(c.Service.Spec.Selector).AsSelectorPreValidated()
	var pods []*corev1.Pod
	for _, p := range c.Pods {
		if selector.Matches(labels.Set(p.Labels)) {
			pods = append(pods, p)
		}
	}
	return pods
}

// everyNode has a Node of every name, even of "": upstream omits a pod whose Node is
// missing, which we do not (docs/semantics.md).
type everyNode struct{}

func (everyNode) List(labels.Selector) ([]*corev1.Node, error) { return nil, nil }

func (everyNode) Get(name string) (*corev1.Node, error) {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zoneOf(name)}}}, nil
}

// zoneOf returns the zone of a node.
func zoneOf(node string) string {
	switch node {
	case "node-1":
		return "zone-a"
	case "node-2":
		return "zone-b"
	}
	return ""
}
