// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	upstream "k8s.io/endpointslice/util"

	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/syncer"
)

// Cluster is a member with its controllers and kubelets. Each of their actions is scheduled with
// a delay, and performed if it still makes sense by then.
type Cluster struct {
	*model.Server
	backup *model.Backup // what it can be restored to; nil if there is none
	saved  []workload    // belong to it
	store  int           // how often it was, began the revision with which it began again
	began  uint64
	*schedule
	rng
	name      string
	skew      time.Duration              // how far its clock is ahead
	services  map[syncer.Key]*lastChange // all that ever existed
	workloads []*workload
	// lastIP is the last address assigned, of few, so that addresses are soon reused. No kubelet
	// reports the pods of silentNode. lies is the percentage that lists lack, lacked are the UIDs.
	subnet, lastIP, serialPod, lies int
	silentNode, lacked              map[string]bool
}

// The size of a member.
const (
	addresses = 24
	nodes     = 3
)

// workload is a Deployment or a StatefulSet.
type workload struct {
	namespace, name   string
	app, color        string // labels of its pods
	stateful          bool
	replicas, version int
	broken            bool // its new pods do not become ready
	slow              bool
}

func newCluster(w *world, number int, name string, skew time.Duration) *Cluster {
	c := &Cluster{schedule: &w.schedule, rng: newRNG(w.seed, name), name: name, skew: skew, subnet: number, silentNode: map[string]bool{}, lacked: map[string]bool{}, services: map[syncer.Key]*lastChange{}}
	c.Server = model.NewServer(number, func() time.Time { return w.time().Add(skew) })
	return c
}

func (c *Cluster) ensureNamespace(name string) {
	_, _ = c.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// live returns the pods in a namespace, or in all, that have not finished, pods those of a workload.
func (c *Cluster) live(namespace string) (out []*corev1.Pod) {
	for _, o := range c.All(model.Pods, namespace) {
		if pod := o.(*corev1.Pod); !finished(pod) {
			out = append(out, pod)
		}
	}
	return out
}
func (c *Cluster) pods(w *workload) []*corev1.Pod {
	return slices.DeleteFunc(c.live(w.namespace), func(pod *corev1.Pod) bool { return pod.Labels["workload"] != w.name })
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	return first(pod.Status.Conditions, func(o corev1.PodCondition) bool { return o.Type == kind })
}

// soon schedules a reconcile of a workload, which may be nil.
func (c *Cluster) soon(w *workload) {
	if w != nil {
		c.after(c.within(time.Millisecond, 300*time.Millisecond), func() { c.reconcile(w) })
	}
}

// reconcile is one pass of the controller of a workload: it makes or stops one pod. Those of a
// StatefulSet have fixed names, and change one after the other.
func (c *Cluster) reconcile(w *workload) {
	var all, former []*corev1.Pod // but those that are being stopped
	ready, stops, name := 0, false, ""
	for _, pod := range c.pods(w) {
		if pod.DeletionTimestamp != nil {
			stops = true
			continue
		}
		if all = append(all, pod); pod.Labels["version"] != version(w) {
			former = append(former, pod)
		} else if upstream.IsPodReady(pod) {
			ready++
		}
	}
	current := len(all) - len(former)
	for i := 0; w.stateful && i < w.replicas && name == ""; i++ {
		if pod := c.Find(model.Pods.ID(w.namespace, fmt.Sprintf("%s-%d", w.name, i))); pod == nil {
			name = fmt.Sprintf("%s-%d", w.name, i)
		} else if finished(pod.(*corev1.Pod)) { // replaced by one of its name
			c.Remove(pod)
			name = pod.GetName()
		}
	}
	if !w.stateful && current < w.replicas && len(all) < w.replicas+min(1, len(former)) {
		c.serialPod++
		name = w.name + "-" + strconv.Itoa(c.serialPod)
	}
	switch {
	case name != "":
		c.makePod(w, name)
		c.soon(w)
	case w.stateful && (stops || ready < current):
	case len(all) > w.replicas && (w.stateful || len(former) == 0):
		c.stopPod(all[len(all)-1], false)
	case len(former) > 0 && (w.stateful || ready > w.replicas-len(former) || !upstream.IsPodReady(former[len(former)-1])):
		c.stopPod(former[len(former)-1], false)
	}
}

func version(w *workload) string { return "v" + strconv.Itoa(w.version) }

// workloadOf returns the workload of a pod, nil if it has none.
func (c *Cluster) workloadOf(pod model.Object) *workload {
	return first(c.workloads, func(w *workload) bool {
		return w.namespace == pod.GetNamespace() && w.name == pod.GetLabels()["workload"]
	})
}

// makePod creates a pod, which its kubelet starts.
func (c *Cluster) makePod(w *workload, name string) {
	pod, err := c.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{
			"app": w.app, "workload": w.name, "version": version(w), "color": w.color, "tier": "all"}},
		Spec: corev1.PodSpec{NodeName: "node-" + strconv.Itoa(c.IntN(nodes)), Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8080 + int32(w.version%2), Protocol: corev1.ProtocolTCP}, {Name: "admin", ContainerPort: 9090, Protocol: corev1.ProtocolTCP}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	})
	if err != nil {
		return
	}
	start := c.within(time.Millisecond, 2*time.Second)
	if w.slow {
		start *= 10
	}
	c.later(pod, start, func() { c.startPod(pod) })
}

// later schedules work on an object, which is skipped if the object no longer exists.
func (c *Cluster) later(pod model.Object, d time.Duration, do func()) {
	c.after(d, func() {
		if now := c.Find(model.IDOf(pod)); now != nil && now.GetUID() == pod.GetUID() {
			do()
		}
	})
}

// startPod assigns an address to a pod, which becomes ready some time later.
func (c *Cluster) startPod(pod model.Object) {
	c.move(pod)
	model.Edit(c.Server, model.IDOf(pod), func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		c.ready(pod, false)
	})
	c.later(pod, c.within(time.Millisecond, 2*time.Second), func() {
		if w := c.workloadOf(pod); w == nil || !w.broken {
			c.report(pod, true)
		}
	})
}

// move assigns another address to a pod, one that no live pod has. Those of dead pods are soon reused.
func (c *Cluster) move(pod model.Object) {
	used, ip := map[string]bool{}, ""
	for _, pod := range c.live("") {
		used[pod.Status.PodIP] = true
	}
	if c.chance(50) {
		c.lastIP = 0 // as often as not, start with the lowest free one
	}
	for ip == "" || used[ip] {
		c.lastIP++
		ip = fmt.Sprintf("10.%d.%d.%d", c.subnet, c.lastIP/(4*addresses), 1+c.lastIP%addresses)
	}
	model.Edit(c.Server, model.IDOf(pod), func(pod *corev1.Pod) { pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}} })
}

// ready sets both conditions as a kubelet does, with a reason.
func (c *Cluster) ready(pod *corev1.Pod, is bool) {
	status, reason := corev1.ConditionFalse, "ContainersNotReady"
	if is {
		status, reason = corev1.ConditionTrue, ""
	}
	c.set(pod, corev1.ContainersReady, status, reason)
	c.set(pod, corev1.PodReady, status, reason)
}

func (c *Cluster) set(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) {
	is := condition(pod, kind)
	if is.Status != status {
		is.LastTransitionTime = c.Stamp()
	}
	is.Type, is.Status, is.Reason = kind, status, reason
	all := slices.DeleteFunc(pod.Status.Conditions, func(o corev1.PodCondition) bool { return o.Type == kind })
	pod.Status.Conditions = append(all, is)
}

// report has the kubelet report whether a pod is ready, unless its node is silent.
func (c *Cluster) report(pod model.Object, is bool) {
	now := model.Of[*corev1.Pod](c.Server, model.IDOf(pod))
	if now == nil || c.silentNode[now.Spec.NodeName] || finished(now) || now.Status.PodIP == "" || is && now.DeletionTimestamp != nil {
		return
	}
	model.Edit(c.Server, model.IDOf(pod), func(pod *corev1.Pod) { c.ready(pod, is) })
	c.soon(c.workloadOf(pod))
}

// stopPod deletes a pod, at once or after its grace period.
func (c *Cluster) stopPod(pod model.Object, force bool) {
	grace, w := c.within(time.Millisecond, 3*time.Second), c.workloadOf(pod)
	gone := func() {
		c.Remove(pod)
		c.soon(w)
	}
	if force {
		gone()
		return
	}
	model.Edit(c.Server, model.IDOf(pod), func(o model.Object) { o.SetDeletionTimestamp(new(c.Stamp())) })
	if c.chance(50) {
		c.later(pod, grace/2, func() { c.report(pod, false) })
	}
	c.later(pod, grace, gone)
	c.soon(w)
}

// hear silences a node, or ends its silence: then its kubelet reports its pods.
func (c *Cluster) hear(node string, heard bool) {
	c.silentNode[node] = !heard
	for _, pod := range c.live("") {
		model.Edit(c.Server, model.IDOf(pod), func(pod *corev1.Pod) {
			switch {
			case pod.Spec.NodeName != node:
			case heard:
				c.ready(pod, condition(pod, corev1.ContainersReady).Status == corev1.ConditionTrue)
			case upstream.IsPodReady(pod):
				c.set(pod, corev1.PodReady, corev1.ConditionFalse, "")
			}
		})
	}
}

// release starts the workload of the other color, has the Service select its pods when they are
// ready, and scales the former workload down some time later.
func (c *Cluster) release(l *workload, overlap time.Duration) {
	next := first(c.workloads, func(o *workload) bool { return o.namespace == l.namespace && o.app == l.app && o.color != l.color })
	if next == nil {
		next = new(*l)
		next.name, next.color, next.version, next.stateful = l.app+"-green", "green", l.version+1, false
		c.workloads = append(c.workloads, next)
	}
	next.replicas = max(1, l.replicas)
	c.soon(next)
	c.after(c.within(8*time.Second, 12*time.Second), func() {
		model.Edit(c.Server, model.Services.ID(l.namespace, l.app), func(svc *corev1.Service) {
			if svc.Spec.Selector != nil {
				svc.Spec.Selector["color"] = next.color
			}
		})
		c.after(overlap, func() {
			l.replicas = 0
			c.soon(l)
		})
	})
}

// service creates a Service, and its namespace.
func (c *Cluster) service(namespace, name string, selector map[string]string) {
	c.ensureNamespace(namespace)
	_, _ = c.Create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"team": "a"}},
		Spec: corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("http")}}},
	})
}

// revive is what kubelets and controllers do after a restore: pods that do not run are deleted,
// and the others are reported.
func (c *Cluster) revive() {
	for _, pod := range c.live("") {
		switch {
		case pod.DeletionTimestamp != nil || c.workloadOf(pod) == nil || c.chance(30):
			c.later(pod, c.within(time.Second, 20*time.Second), func() { c.Remove(pod) })
		case pod.Status.PodIP == "":
			c.later(pod, c.within(time.Second, 5*time.Second), func() { c.startPod(pod) })
		default:
			c.later(pod, c.within(time.Second, 10*time.Second), func() { c.report(pod, true) })
		}
	}
	for _, l := range c.workloads {
		c.after(c.within(10*time.Second, 25*time.Second), func() { c.reconcile(l) })
	}
}

// mirror is a pass of the controller that mirrors Endpoints of a Service without a selector into a slice.
func (c *Cluster) mirror(id model.ID) {
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name + "-mirrored",
		Labels: map[string]string{syncer.LabelServiceName: id.Name, syncer.LabelSliceManagedBy: syncer.SliceMirrored}}}
	c.Remove(slice)
	written, svc := model.Of[*corev1.Endpoints](c.Server, id), model.Of[*corev1.Service](c.Server, model.Services.ID(id.Namespace, id.Name))
	if written == nil || written.Labels[syncer.LabelSkipMirror] == "true" || svc == nil || svc.Spec.Selector != nil {
		return
	}
	for _, subset := range written.Subsets {
		for _, address := range subset.Addresses {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address.IP}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
		}
		for _, port := range subset.Ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &port.Port, Protocol: &port.Protocol})
		}
	}
	_, _ = c.Create(slice)
}

// lie drops from a list what it is to lack.
func (c *Cluster) lie(items []model.Object) []model.Object {
	if c.lies == 0 {
		return items
	}
	return slices.DeleteFunc(slices.Clone(items), func(o model.Object) bool {
		lacks := c.chance(c.lies)
		c.lacked[string(o.GetUID())] = lacks || c.lacked[string(o.GetUID())]
		return lacks
	})
}
