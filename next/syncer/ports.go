// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// Compare orders ports by name, protocol, number and application protocol.
func (p Port) Compare(o Port) int {
	return cmp.Or(strings.Compare(p.Name, o.Name), strings.Compare(p.Protocol, o.Protocol),
		cmp.Compare(p.Number, o.Number), strings.Compare(p.AppProtocol.Value, o.AppProtocol.Value),
		cmp.Compare(boolRank(p.AppProtocol.Set), boolRank(o.AppProtocol.Set)))
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// String renders a port as "name:number/protocol", for messages.
func (p Port) String() string {
	return p.Name + ":" + strconv.Itoa(int(p.Number)) + "/" + p.Protocol
}

// portListOf identifies a list of ports that endpoints share.
type portListOf struct {
	first *Port
	len   int
}

func listOf(ports []Port) portListOf {
	if len(ports) == 0 {
		return portListOf{}
	}
	return portListOf{&ports[0], len(ports)}
}

// valid reports whether an API server would accept the port in Endpoints.
func (p Port) valid() bool {
	return p.Number >= 1 && p.Number <= 65535 && p.describable()
}

// describable is valid without the number, which a named target lacks.
func (p Port) describable() bool {
	return (p.Name == "" || IsLabel(p.Name)) &&
		(p.Protocol == TCP || p.Protocol == UDP || p.Protocol == SCTP) &&
		(!p.AppProtocol.Set || IsQualifiedName(p.AppProtocol.Value))
}

// portResolver finds the ports of pods behind one Service. Pods made from one
// template resolve equally, so results are computed once and shared.
//
// Rule source: FindPort in k8s.io/endpointslice and section 2.8 of the rules:
// a numeric target is taken as it is, a named one is the first container port
// with that name and the Service port's protocol, containers before sidecars.
type portResolver struct {
	// portless is true for a headless Service without ports, whose endpoints
	// have none; another Service without ports has no endpoints.
	portless bool
	none     bool
	specs    []portSpec
	// fixed is the answer for every pod; nil when some target is a name.
	fixed    []Port
	byList   map[portList][]Port
	distinct map[string][]Port
	key      []byte
	rejected []Rejection
}

type portSpec struct {
	Port
	target string
}

// portList identifies a pod's interned list of container ports.
type portList struct {
	first *ContainerPort
	len   int
}

func newPortResolver(svc *Service) *portResolver {
	r := &portResolver{portless: len(svc.Ports) == 0 && svc.Headless()}
	object := TargetRef{Kind: "Service", Key: svc.Key, UID: svc.UID}
	named := false
	for i := range svc.Ports {
		spec := specOf(&svc.Ports[i])
		unnamed := spec.Name == "" && len(svc.Ports) > 1
		taken := slices.ContainsFunc(r.specs, func(s portSpec) bool { return s.Name == spec.Name })
		if unnamed || taken || !spec.describable() || spec.target == "" && !spec.valid() {
			r.reject(object, spec.Port)
			continue
		}
		named = named || spec.target != ""
		r.specs = append(r.specs, spec)
	}
	r.none = len(r.specs) == 0 && !r.portless
	if !named && !r.none {
		r.fixed = make([]Port, len(r.specs))
		for i, spec := range r.specs {
			r.fixed[i] = spec.Port
		}
	}
	return r
}

func specOf(p *ServicePort) portSpec {
	spec := portSpec{Port: Port{Name: p.Name, Protocol: cmp.Or(p.Protocol, TCP)}, target: p.Target.Name}
	if spec.target == "" {
		spec.Number = p.Target.Number
	}
	if p.AppProtocol != nil {
		spec.AppProtocol = AppProtocol{Value: *p.AppProtocol, Set: true}
	}
	return spec
}

// resolve returns the ports of a pod; ok is false for a pod that has none of
// the Service's ports and so does not belong to it.
func (r *portResolver) resolve(pod *Pod) (ports []Port, ok bool) {
	switch {
	case r.none:
		return nil, false
	case r.portless:
		return nil, true
	case r.fixed != nil:
		return r.fixed, true
	}
	var list portList
	if len(pod.Ports) > 0 {
		list = portList{&pod.Ports[0], len(pod.Ports)}
	}
	ports, known := r.byList[list]
	if !known {
		ports = r.lookUp(pod)
		if r.byList == nil {
			r.byList = map[portList][]Port{}
		}
		r.byList[list] = ports
	}
	return ports, len(ports) > 0
}

// lookUp resolves without the per-list memory, and shares equal answers of
// different lists.
func (r *portResolver) lookUp(pod *Pod) []Port {
	ports := make([]Port, 0, len(r.specs))
	r.key = r.key[:0]
	for _, spec := range r.specs {
		port := spec.Port
		if spec.target != "" {
			port.Number = namedPort(pod, spec.target, spec.Protocol)
		}
		if port.Number != 0 && !port.valid() {
			r.reject(TargetRef{Kind: "Pod", Key: pod.Key, UID: pod.UID}, port)
			port.Number = 0
		}
		r.key = binary.BigEndian.AppendUint32(r.key, uint32(port.Number))
		if port.Number != 0 {
			ports = append(ports, port)
		}
	}
	if len(ports) == 0 {
		return nil
	}
	if shared, known := r.distinct[string(r.key)]; known {
		return shared
	}
	if r.distinct == nil {
		r.distinct = map[string][]Port{}
	}
	r.distinct[string(r.key)] = ports
	return ports
}

// namedPort returns the number of the first container port with that name and
// protocol, 0 when there is none.
func namedPort(pod *Pod, name, protocol string) int32 {
	for i := range pod.Ports {
		if p := &pod.Ports[i]; p.Name == name && cmp.Or(p.Protocol, TCP) == protocol {
			return p.Port
		}
	}
	return 0
}

func (r *portResolver) reject(object TargetRef, port Port) {
	r.rejected = append(r.rejected, Rejection{Object: object, Address: port.String(), Reason: RejectPort})
}
