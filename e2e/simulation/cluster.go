// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Cluster is a member with its controllers and kubelets, who are all one: what they do is
// planned with a delay and done if it still makes sense then.
type Cluster struct {
	*Server
	*schedule
	rng
	name string
	// skew is how far its clock is ahead.
	skew      time.Duration
	workloads []*workload
	// lastIP is that which was given last, of few, so that they come back soon. broken pods
	// never turn ready, and pods of silent nodes have nobody who speaks for them.
	subnet, lastIP int
	silentNode     map[string]bool
	serialPod      int
	// lies is how much in a hundred its lists lack, lied when they last did.
	lies int
	lied time.Duration
	// saved is when the store was last saved, restored when it was last restored.
	saved, restored time.Duration
}

// The size of a member's small world.
const (
	addresses = 24
	nodes     = 3
)

// workload is a Deployment or a StatefulSet.
type workload struct {
	namespace, name string
	app, color      string // labels of its pods
	stateful        bool
	replicas        int
	version         int
	broken          bool // its new pods do not turn ready
	slow            bool
}

func newCluster(s *schedule, seed uint64, number int, name string, skew time.Duration) *Cluster {
	c := &Cluster{schedule: s, rng: newRNG(seed, name), name: name, skew: skew, subnet: number, silentNode: map[string]bool{}}
	c.Server = NewServer(number, func() time.Time { return s.time().Add(skew) })
	c.must(c.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}))
	return c
}

// must is for what a model asks of itself and cannot fail.
func (c *Cluster) must(o Object, err error) Object {
	if err != nil {
		panic(err)
	}
	return o
}

func (c *Cluster) ensureNamespace(name string) {
	if c.get(ID{Kind: Namespaces, Name: name}) == nil {
		c.must(c.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
}

// pods are those of a workload that have not finished, by name.
func (c *Cluster) pods(w *workload) (out []*corev1.Pod) {
	for _, o := range c.all(Pods, w.namespace) {
		if pod := o.(*corev1.Pod); pod.Labels["workload"] == w.name && !finished(pod) {
			out = append(out, pod)
		}
	}
	return out
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func isReady(pod *corev1.Pod) bool {
	return condition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) (none corev1.PodCondition) {
	if at := slices.IndexFunc(pod.Status.Conditions, func(o corev1.PodCondition) bool { return o.Type == kind }); at >= 0 {
		return pod.Status.Conditions[at]
	}
	return none
}

// soon has a controller look at a workload.
func (c *Cluster) soon(w *workload) {
	c.after(c.within(time.Millisecond, 300*time.Millisecond), func() { c.reconcile(w) })
}

// reconcile is what the controller of a workload does.
func (c *Cluster) reconcile(w *workload) {
	if w.stateful {
		c.reconcileSet(w)
		return
	}
	var current, former []*corev1.Pod
	ready := 0
	for _, pod := range c.pods(w) {
		switch {
		case pod.DeletionTimestamp != nil:
		case pod.Labels["version"] == version(w.version):
			if current = append(current, pod); isReady(pod) {
				ready++
			}
		default:
			former = append(former, pod)
		}
	}
	surge := 0
	if len(former) > 0 {
		surge = 1
	}
	switch total := len(current) + len(former); {
	case len(current) < w.replicas && total < w.replicas+surge:
		c.serialPod++
		c.makePod(w, w.name+"-"+strconv.Itoa(c.serialPod))
		c.soon(w)
	case len(former) > 0 && (ready > w.replicas-len(former) || !isReady(former[0])):
		c.stopPod(former[0], false)
	case len(former) == 0 && total > w.replicas:
		c.stopPod(current[len(current)-1], false)
		c.soon(w)
	}
}

// reconcileSet replaces pods one after the other, the last first, each by one of its name.
func (c *Cluster) reconcileSet(w *workload) {
	for i := range w.replicas {
		name := fmt.Sprintf("%s-%d", w.name, i)
		pod, _ := c.get(ID{Pods, w.namespace, name}).(*corev1.Pod)
		switch {
		case pod == nil:
			c.makePod(w, name)
			return
		case finished(pod):
			c.remove(pod)
			c.soon(w)
			return
		case pod.DeletionTimestamp != nil:
			return
		}
	}
	pods := c.pods(w)
	for i, pod := range slices.Backward(pods) {
		switch {
		case pod.DeletionTimestamp != nil:
			return
		case i >= w.replicas, pod.Labels["version"] != version(w.version):
			c.stopPod(pod, false)
			return
		case !isReady(pod):
			return
		}
	}
}

func version(n int) string { return "v" + strconv.Itoa(n) }

// workloadOf finds whose pod one is.
func (c *Cluster) workloadOf(pod *corev1.Pod) *workload {
	for _, w := range c.workloads {
		if w.namespace == pod.Namespace && w.name == pod.Labels["workload"] {
			return w
		}
	}
	return nil
}

// makePod makes a pod, which its kubelet starts.
func (c *Cluster) makePod(w *workload, name string) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{
			"app": w.app, "workload": w.name, "version": version(w.version), "color": w.color, "tier": "all"}},
		Spec: corev1.PodSpec{NodeName: "node-" + strconv.Itoa(c.IntN(nodes)), Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8080 + int32(w.version%2), Protocol: corev1.ProtocolTCP}, {Name: "admin", ContainerPort: 9090, Protocol: corev1.ProtocolTCP}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if made, err := c.Create(pod); err == nil {
		start := c.within(time.Millisecond, 2*time.Second)
		if w.slow {
			start *= 10
		}
		c.later(made, start, func() { c.startPod(w, made) })
	}
}

// later has the kubelet of a pod do something, if that still exists.
func (c *Cluster) later(pod Object, d time.Duration, do func()) {
	c.after(d, func() {
		if now := c.get(idOf(pod)); now != nil && now.GetUID() == pod.GetUID() {
			do()
		}
	})
}

// startPod gives a pod its address, and has it turn ready some time later.
func (c *Cluster) startPod(w *workload, pod Object) {
	ip := c.freeIP()
	c.status(pod, func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
		c.ready(pod, false, "ContainersNotReady")
	})
	c.later(pod, c.within(time.Millisecond, 2*time.Second), func() {
		if !w.broken {
			c.turn(pod, true)
		}
	})
}

// freeIP is an address that no live pod has. Those of the dead come back soon.
func (c *Cluster) freeIP() string {
	used := map[string]bool{}
	for _, o := range c.all(Pods, "") {
		if pod := o.(*corev1.Pod); !finished(pod) {
			used[pod.Status.PodIP] = true
		}
	}
	if c.chance(50) {
		c.lastIP = 0 // the one that came free last, as often as not
	}
	for range 4 * addresses {
		c.lastIP++
		if ip := fmt.Sprintf("10.%d.0.%d", c.subnet, 1+c.lastIP%addresses); !used[ip] {
			return ip
		}
	}
	return fmt.Sprintf("10.%d.1.%d", c.subnet, c.lastIP%250)
}

// status writes a pod's status.
func (c *Cluster) status(pod Object, change func(*corev1.Pod)) {
	c.edit(idOf(pod), func(o Object) { change(o.(*corev1.Pod)) })
}

// ready sets the conditions as a kubelet does: both, with a reason.
func (c *Cluster) ready(pod *corev1.Pod, is bool, reason string) {
	status := corev1.ConditionFalse
	if is {
		status, reason = corev1.ConditionTrue, ""
	}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		c.set(pod, kind, status, reason)
	}
}

func (c *Cluster) set(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) {
	at := slices.IndexFunc(pod.Status.Conditions, func(o corev1.PodCondition) bool { return o.Type == kind })
	if at < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind})
		at = len(pod.Status.Conditions) - 1
	}
	if o := &pod.Status.Conditions[at]; o.Status != status {
		*o = corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(c.clock().Truncate(time.Second))}
	} else {
		o.Reason = reason
	}
}

// turn has the kubelet say whether a pod is ready, if its node is heard.
func (c *Cluster) turn(pod Object, is bool) {
	now, _ := c.get(idOf(pod)).(*corev1.Pod)
	if now == nil || c.silentNode[now.Spec.NodeName] || finished(now) || now.Status.PodIP == "" || is && now.DeletionTimestamp != nil {
		return
	}
	c.status(pod, func(pod *corev1.Pod) { c.ready(pod, is, "ContainersNotReady") })
	if w := c.workloadOf(now); w != nil {
		c.soon(w)
	}
}

// stopPod deletes a pod: at once, or after its grace.
func (c *Cluster) stopPod(pod *corev1.Pod, force bool) {
	grace := c.within(time.Millisecond, 3*time.Second)
	w := c.workloadOf(pod)
	gone := func() {
		if now := c.get(idOf(pod)); now != nil {
			c.remove(now)
		}
		if w != nil {
			c.soon(w)
		}
	}
	if force {
		gone()
		return
	}
	c.edit(idOf(pod), func(o Object) { o.SetDeletionTimestamp(new(metav1.NewTime(c.clock().Truncate(time.Second)))) })
	if c.chance(50) {
		c.later(pod, grace/2, func() { c.turn(pod, false) })
	}
	c.later(pod, grace, gone)
	if w != nil {
		c.soon(w)
	}
}

// hear has a node fall silent, or be heard again: its kubelet says then how its pods are.
func (c *Cluster) hear(node string, heard bool) {
	c.silentNode[node] = !heard
	for _, o := range c.all(Pods, "") {
		pod := o.(*corev1.Pod)
		if pod.Spec.NodeName != node || finished(pod) {
			continue
		}
		c.status(pod, func(pod *corev1.Pod) {
			if heard {
				c.ready(pod, condition(pod, corev1.ContainersReady).Status == corev1.ConditionTrue, "ContainersNotReady")
			} else if isReady(pod) {
				c.set(pod, corev1.PodReady, corev1.ConditionFalse, "")
			}
		})
	}
}

// release makes the workload of the other color, has the Service choose its pods when they are
// ready, and ends the former some time later.
func (c *Cluster) release(l *workload, overlap time.Duration) {
	at := slices.IndexFunc(c.workloads, func(o *workload) bool { return o.namespace == l.namespace && o.app == l.app && o.color != l.color })
	if at < 0 {
		at = len(c.workloads)
		other := *l
		other.name, other.color, other.version, other.stateful = l.app+"-green", "green", l.version+1, false
		c.workloads = append(c.workloads, &other)
	}
	next := c.workloads[at]
	next.replicas = max(1, l.replicas)
	c.soon(next)
	c.after(c.within(8*time.Second, 12*time.Second), func() {
		c.edit(ID{Services, l.namespace, l.app}, func(o Object) {
			if svc := o.(*corev1.Service); svc.Spec.Selector != nil {
				svc.Spec.Selector["color"] = next.color
			}
		})
		c.after(overlap, func() {
			l.replicas = 0
			c.soon(l)
		})
	})
}

// service makes a Service in front of pods with a label.
func (c *Cluster) service(namespace, name string, selector map[string]string) {
	c.ensureNamespace(namespace)
	_, _ = c.Create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"team": "a"}},
		Spec: corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("http")}}},
	})
}

// revive has kubelets and controllers bring back, after the store was restored, what lives:
// pods that nobody runs are deleted, and all others say how they are.
func (c *Cluster) revive() {
	for _, o := range c.all(Pods, "") {
		pod := o.(*corev1.Pod)
		if finished(pod) {
			continue
		}
		if pod.DeletionTimestamp != nil || c.workloadOf(pod) == nil || c.chance(30) {
			c.later(pod, c.within(time.Second, 20*time.Second), func() { c.remove(c.get(idOf(pod))) })
		} else if pod.Status.PodIP == "" {
			c.later(pod, c.within(time.Second, 5*time.Second), func() { c.startPod(c.workloadOf(pod), pod) })
		} else {
			c.later(pod, c.within(time.Second, 10*time.Second), func() { c.turn(pod, true) })
		}
	}
	for _, l := range c.workloads {
		c.after(c.within(10*time.Second, 25*time.Second), func() { c.reconcile(l) })
	}
}

// lie leaves out of a list what is not to be seen in it.
func (c *Cluster) lie(items []Object) []Object {
	if c.lies == 0 || len(items) == 0 {
		return items
	}
	return slices.DeleteFunc(slices.Clone(items), func(Object) bool { return c.chance(c.lies) })
}
