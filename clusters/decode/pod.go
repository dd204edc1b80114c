// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/wire"
	"tributary.dev/tributary/syncer"
)

// Pod converts a pod.
func (d *Decoder) Pod(pod *corev1.Pod) store.Versioned[syncer.Pod] {
	raw, _ := pod.Marshal() // it writes to memory
	v, _ := d.ReadPod(raw)
	return v
}

// ReadPod reads a pod in protobuf. Of its kilobytes the rules look at some hundred bytes, and nearly
// no event changes these: a corev1.Pod is made for rules of the configuration alone.
func (d *Decoder) ReadPod(content []byte) (v store.Versioned[syncer.Pod], err error) {
	p := &v.Object
	if d.options.Match != nil {
		var pod corev1.Pod
		if err := pod.Unmarshal(content); err != nil {
			return v, err
		}
		p.Matches = d.options.Match(&pod)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.scratch
	defer s.reset()
	err = wire.Walk(content, func(at wire.Path, number uint64, value []byte) bool {
		return d.metadata(at, number, value, &v) || d.spec(at, number, value, p) || s.status(at, number, value, p)
	})
	if p.IPs == nil && len(s.ip) > 0 { // a server that is older than dual stack left podIPs empty
		p.IPs = []syncer.PodIP{parseIP(s.ip)}
	}
	p.Labels = d.labels()
	p.Ports = d.sharedPorts(s.namedPorts())
	if ready := s.condition(corev1.PodReady); ready != nil {
		p.Ready, p.ReadySince = ready.is(corev1.ConditionTrue), unixSeconds(ready.since)
		p.NodeSilent = s.nodeSilent(ready)
	}
	return v, err
}

// scratch is what is collected of a pod before it can be interpreted.
type scratch struct {
	ip, text   []byte
	pairs      []pair
	containers []container
	ports      []syncer.ContainerPort // of all
	named      []syncer.ContainerPort
	conditions []condition
	gates      [][]byte
}

// container is where the ports of one begin.
type container struct {
	ports         int
	init, sidecar bool
}

type condition struct {
	kind, status, reason []byte
	since                int64
}

// reset drops the pod, and retains the memory.
func (s *scratch) reset() {
	clear(s.pairs)
	clear(s.conditions)
	clear(s.gates)
	s.ip, s.text, s.pairs, s.containers = nil, s.text[:0], s.pairs[:0], s.containers[:0]
	s.ports, s.conditions, s.gates = s.ports[:0], s.conditions[:0], s.gates[:0]
}

// metadata, spec and status read the fields of these, by their numbers in k8s.io/api/core/v1.
// They report which fields to descend into.
func (d *Decoder) metadata(at wire.Path, number uint64, value []byte, v *store.Versioned[syncer.Pod]) (into bool) {
	p, s := &v.Object, &d.scratch
	switch at {
	case 0x01, 0x0111, 0x011104: // metadata; its managedFields, with a time each
		return true
	case 0x01110401: // its seconds; servers set it since 1.18
		v.Written = max(v.Written, int64(number))
	case 0x0101:
		p.Name = string(value)
	case 0x0103:
		p.Namespace = d.bytes(value)
	case 0x0105:
		p.UID = string(value)
	case 0x0106:
		v.Revision = kube.Revision(string(value))
	case 0x0109: // deletionTimestamp
		p.Terminating = true
	case 0x010b: // labels, a map of entries
		s.pairs = append(s.pairs, pair{})
		return true
	case 0x010b01:
		s.pairs[len(s.pairs)-1].key = value
	case 0x010b02:
		s.pairs[len(s.pairs)-1].value = value
	}
	return false
}
func (d *Decoder) spec(at wire.Path, number uint64, value []byte, p *syncer.Pod) (into bool) {
	s := &d.scratch
	switch at {
	case 0x02: // spec
		return true
	case 0x0202, 0x0214: // containers, initContainers
		s.containers = append(s.containers, container{ports: len(s.ports), init: at == 0x0214})
		return true
	case 0x021418: // restartPolicy
		s.containers[len(s.containers)-1].sidecar = string(value) == string(corev1.ContainerRestartPolicyAlways)
	case 0x020206, 0x021406: // ports
		s.ports = append(s.ports, syncer.ContainerPort{Protocol: syncer.TCP}) // the API's default
		return true
	case 0x02020601, 0x02140601: // name
		s.ports[len(s.ports)-1].Name = d.bytes(value)
	case 0x02020603, 0x02140603: // containerPort
		s.ports[len(s.ports)-1].Port = int32(number)
	case 0x02020604, 0x02140604: // protocol
		s.ports[len(s.ports)-1].Protocol = protocol(corev1.Protocol(d.bytes(value)))
	case 0x020a:
		p.NodeName = d.bytes(value)
	case 0x020b:
		p.HostNetwork = number != 0
	case 0x0210:
		p.Hostname = string(value)
	case 0x0211:
		p.Subdomain = d.bytes(value)
	case 0x021c: // readinessGates
		s.gates = append(s.gates, nil)
		return true
	case 0x021c01: // conditionType
		s.gates[len(s.gates)-1] = value
	}
	return false
}

// namedPorts lists what a string targetPort may resolve to, in the order of the
// search: containers, then sidecars (init containers that are restarted always).
func (s *scratch) namedPorts() []syncer.ContainerPort {
	s.named = s.named[:0]
	for _, init := range []bool{false, true} {
		for i, c := range s.containers {
			end := len(s.ports)
			if i+1 < len(s.containers) {
				end = s.containers[i+1].ports
			}
			for _, port := range s.ports[c.ports:end] {
				if port.Name != "" && c.init == init && c.sidecar == init {
					s.named = append(s.named, port)
				}
			}
		}
	}
	return s.named
}

func (s *scratch) status(at wire.Path, number uint64, value []byte, p *syncer.Pod) (into bool) {
	last := len(s.conditions) - 1
	switch at {
	case 0x03: // status
		return true
	case 0x0301: // phase
		p.Terminal = string(value) == string(corev1.PodFailed) || string(value) == string(corev1.PodSucceeded)
	case 0x0302: // conditions
		s.conditions = append(s.conditions, condition{})
		return true
	case 0x030201:
		s.conditions[last].kind = value
	case 0x030202:
		s.conditions[last].status = value
	case 0x030204: // lastTransitionTime
		s.conditions[last].since = 0
		return true
	case 0x03020401: // its seconds
		s.conditions[last].since = int64(number)
	case 0x030205:
		s.conditions[last].reason = value
	case 0x0306: // podIP
		s.ip = value
	case 0x030c: // podIPs
		p.IPs = append(p.IPs, syncer.PodIP{})
		return true
	case 0x030c01: // ip
		p.IPs[len(p.IPs)-1] = parseIP(value)
	}
	return false
}

// condition returns the first condition of a type, as upstream's helpers do.
func (s *scratch) condition(kind corev1.PodConditionType) *condition {
	i := slices.IndexFunc(s.conditions, func(c condition) bool { return string(c.kind) == string(kind) })
	if i < 0 {
		return nil
	}
	return &s.conditions[i]
}

func (c *condition) is(status corev1.ConditionStatus) bool {
	return c != nil && string(c.status) == string(status)
}

// nodeSilent tells the node lifecycle controller's NotReady from the kubelet's.
// That controller changes only the status of the Ready condition: the reason stays
// as it was, empty for a pod that was ready, and ContainersReady stays True
// (pkg/controller/util/node, MarkPodsNotReady). A kubelet that changes Ready
// sets a reason, except that old ones set none for a readiness gate.
func (s *scratch) nodeSilent(ready *condition) bool {
	return ready.is(corev1.ConditionFalse) && len(ready.reason) == 0 && s.condition(corev1.ContainersReady).is(corev1.ConditionTrue) &&
		!slices.ContainsFunc(s.gates, func(gate []byte) bool {
			return !s.condition(corev1.PodConditionType(gate)).is(corev1.ConditionTrue)
		})
}
