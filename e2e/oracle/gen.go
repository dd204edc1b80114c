// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Case is one Service with the pods of its namespace, selected or not.
type Case struct {
	Seed, Number uint64
	Service      *corev1.Service
	Pods         []*corev1.Pod
}

// Name is the namespace of the case, so that many cases fit into one cluster.
func (c *Case) Name() string { return fmt.Sprintf("case-%d", c.Number) }

// NewCase draws a case. It depends only on seed and number.
func NewCase(seed, number uint64) *Case {
	g := newGenerator(seed, number)
	c := &Case{Seed: seed, Number: number}
	c.Service = g.service(c.Name())
	templates := make([]*corev1.PodSpec, 1+g.IntN(3))
	for i := range templates {
		templates[i] = g.podSpec()
	}
	n := g.podCount()
	crowded := g.chance(15)
	for i := range n {
		p := g.pod(c.Name(), i, crowded, templates[g.IntN(len(templates))])
		if n > 900 {
			g.makeCount(p, i)
		}
		c.Pods = append(c.Pods, p)
	}
	return c
}

// generator draws the parts of a case. Every part has ordinary values most of
// the time, so that cases get past the first rule, and ugly ones sometimes.
type generator struct{ *rand.Rand }

func newGenerator(seed, number uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, number))}
}

// chance is true with a probability in percent.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

// podCount is small nearly always; now and then a slice fills, and rarely
// Endpoints overflow.
func (g *generator) podCount() int {
	switch n := g.IntN(10_000); {
	case n < 800:
		return 0
	case n < 8000:
		return 1 + g.IntN(4)
	case n < 9900:
		return 5 + g.IntN(8)
	case n < 9992:
		return 90 + g.IntN(30)
	case n < 9996:
		return 995 + g.IntN(11)
	case n < 9999 || g.chance(80):
		return 1001 + g.IntN(1000)
	default:
		return 5000
	}
}

// makeCount makes a pod of a big Service an endpoint, so that the capacity of 1000
// is really reached. Readiness and ports remain random.
func (g *generator) makeCount(p *corev1.Pod, i int) {
	p.Labels["app"], p.Labels["tier"] = "web", "front"
	p.Status.Phase = corev1.PodRunning
	if g.chance(98) {
		p.DeletionTimestamp = nil
	}
	p.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprintf("10.%d.%d.%d", g.IntN(2), i/250, i%250+1)}, {IP: fmt.Sprintf("fd00::%x", i+1)}}
	p.Status.PodIP = p.Status.PodIPs[0].IP
}

// second returns a time in whole seconds, as the API stores times.
func (g *generator) second() metav1.Time {
	return metav1.NewTime(time.Unix(1_700_000_000+g.Int64N(1000), 0))
}

func (g *generator) service(namespace string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pick(g, "web", "web", "a", "db-0"), UID: "service-uid",
			Labels: g.serviceLabels(), CreationTimestamp: g.second()},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, PublishNotReadyAddresses: g.chance(25),
			Selector: g.selector(), ClusterIP: g.clusterIP(), IPFamilies: g.families()},
	}
	if g.chance(2) {
		s.Spec.Type = corev1.ServiceTypeExternalName
	}
	if g.chance(5) {
		s.Annotations = map[string]string{"service.alpha.kubernetes.io/tolerate-unready-endpoints": "true"}
	}
	s.Spec.Ports = g.servicePorts()
	return s
}

func (g *generator) selector() map[string]string {
	switch n := g.IntN(100); {
	case n < 80:
		return map[string]string{"app": "web"}
	case n < 90:
		return map[string]string{"app": "web", "tier": "front"}
	case n < 97:
		return map[string]string{}
	}
	return nil
}

func (g *generator) serviceLabels() map[string]string {
	if g.chance(40) {
		return nil
	}
	labels := map[string]string{}
	for range g.IntN(4) {
		labels[pick(g, "app", "team", "service.kubernetes.io/headless", "endpoints.kubernetes.io/managed-by",
			"kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by")] = pick(g, "", "x", "y")
	}
	return labels
}

func (g *generator) clusterIP() string {
	switch n := g.IntN(100); {
	case n < 35:
		return corev1.ClusterIPNone
	case n < 40:
		return ""
	case n < 85:
		return "10.96.0.10"
	}
	return "fd00:96::10"
}

func (g *generator) families() []corev1.IPFamily {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	return pick(g, []corev1.IPFamily{v4}, []corev1.IPFamily{v4}, []corev1.IPFamily{v4}, []corev1.IPFamily{v6},
		[]corev1.IPFamily{v4, v6}, []corev1.IPFamily{v6, v4}, nil)
}

// servicePorts have distinct names and distinct (protocol, port), as the API
// demands; the rest is free.
func (g *generator) servicePorts() []corev1.ServicePort {
	n := pick(g, 0, 1, 1, 1, 2, 2, 3, 4)
	ports := make([]corev1.ServicePort, n)
	for i := range ports {
		p := corev1.ServicePort{Name: []string{"http", "metrics", "grpc", "dns"}[i], Protocol: g.protocol(), Port: int32(80 + i)}
		if n == 1 && g.chance(40) {
			p.Name = ""
		}
		if g.chance(55) {
			p.TargetPort.IntVal = pick[int32](g, 8080, 8080, 9090, 53)
		} else {
			p.TargetPort.Type, p.TargetPort.StrVal = 1, g.portName()
		}
		if g.chance(20) {
			p.AppProtocol = new(pick(g, "http", "kubernetes.io/h2c", "example.com/x"))
		}
		ports[i] = p
	}
	return ports
}

func (g *generator) protocol() corev1.Protocol {
	return pick(g, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
}

func (g *generator) portName() string { return pick(g, "web", "web", "admin", "side", "nowhere") }

// podSpec is a template: containers, sidecars and plain init containers with
// ports whose names, protocols and numbers collide now and then.
func (g *generator) podSpec() *corev1.PodSpec {
	spec := &corev1.PodSpec{}
	for range 1 + g.IntN(2) {
		spec.Containers = append(spec.Containers, corev1.Container{Name: "c", Ports: g.containerPorts()})
	}
	for range pick(g, 0, 0, 1, 2) {
		init := corev1.Container{Name: "i", Ports: g.containerPorts()}
		if g.chance(60) {
			init.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		spec.InitContainers = append(spec.InitContainers, init)
	}
	if g.chance(20) {
		spec.Hostname = pick(g, "db-0", "db-1", "Upper", "dot.ted")
		spec.Subdomain = pick(g, "web", "web", "a", "other", "")
	}
	return spec
}

func (g *generator) containerPorts() []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for range pick(g, 0, 1, 1, 2, 3) {
		p := corev1.ContainerPort{Name: pick(g, "", "web", "web", "admin", "side"), Protocol: g.protocol(),
			ContainerPort: pick[int32](g, 8080, 8081, 9090, 53)}
		if g.chance(10) {
			p.HostPort, p.HostIP = 30000, "10.1.1.1"
		}
		if g.chance(1) {
			p.ContainerPort = pick[int32](g, 0, -1, 65535, 65536)
		}
		ports = append(ports, p)
	}
	return ports
}

func (g *generator) pod(namespace string, i int, crowded bool, template *corev1.PodSpec) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pod-%d", i), UID: types.UID(fmt.Sprintf("uid-%d", g.IntN(1_000_000)*10_000+i)),
			ResourceVersion: fmt.Sprint(i + 1), Labels: map[string]string{"app": "web", "tier": pick(g, "front", "front", "back")}},
		Spec:   *template.DeepCopy(),
		Status: corev1.PodStatus{Phase: g.phase(), Conditions: g.conditions()},
	}
	if g.chance(8) {
		p.Labels["app"] = "other"
	}
	if g.chance(12) {
		p.DeletionTimestamp = new(g.second())
	}
	if g.chance(90) {
		p.Spec.NodeName = pick(g, "node-1", "node-2", "node-3.example.com")
	} else if g.chance(5) {
		p.Spec.NodeName = "Node_Bad"
	}
	for range g.ipCount() {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: g.ip(i, crowded)})
	}
	if len(p.Status.PodIPs) > 0 {
		p.Status.PodIP = p.Status.PodIPs[0].IP
	}
	return p
}

func (g *generator) phase() corev1.PodPhase {
	return pick(g, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning,
		corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded, corev1.PodUnknown, "")
}

func (g *generator) conditions() []corev1.PodCondition {
	var conditions []corev1.PodCondition
	if g.chance(50) {
		conditions = append(conditions, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue})
	}
	if g.chance(92) {
		ready := corev1.PodCondition{Type: corev1.PodReady, Status: pick(g, corev1.ConditionTrue, corev1.ConditionTrue,
			corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown)}
		if g.chance(95) {
			ready.LastTransitionTime = g.second()
		}
		conditions = append(conditions, ready)
	}
	return conditions
}

func (g *generator) ipCount() int { return pick(g, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3) }

// ip returns an address of either family; in a crowded namespace pods share some.
func (g *generator) ip(i int, crowded bool) string {
	if g.chance(4) {
		return pick(g, "127.0.0.1", "::1", "0.0.0.0", "::", "169.254.1.1", "fe80::1", "224.0.0.5", "ff02::5", "ff12::5", "garbage", "",
			"fe80::1%eth0", "10.0.0.256", "239.1.2.3", "255.255.255.255", "ff0e::5")
	}
	n := i
	if crowded {
		n = g.IntN(5)
	}
	if g.chance(60) {
		return fmt.Sprintf(pick(g, "10.%d.%d.%d", "10.%d.%d.%d", "10.%d.%d.%d", "10.%03d.%d.%02d", "::ffff:10.%d.%d.%d"), g.small(crowded), n/250, n%250+1)
	}
	return fmt.Sprintf(pick(g, "fd00::%d:%x:%x", "fd00::%d:%x:%x", "FD00:0:0:0:0:%d:%X:%x", "fd00:0::%04d:%04x:%x"), g.small(crowded), n/250, n%250+1)
}

func (g *generator) small(crowded bool) int {
	if crowded {
		return 0
	}
	return g.IntN(200)
}
