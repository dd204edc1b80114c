// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
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

// portList identifies a list of ports that endpoints, or pods, share.
type portList[P Port | ContainerPort] struct {
	first *P
	len   int
}

func listOf[P Port | ContainerPort](ports []P) portList[P] {
	if len(ports) == 0 {
		return portList[P]{}
	}
	return portList[P]{&ports[0], len(ports)}
}

// Valid reports whether an API server would accept the port in Endpoints.
func (p Port) Valid() bool {
	return p.Number >= 1 && p.Number <= 65535 && p.describable()
}

// describable is Valid without the number, which a named target lacks.
func (p Port) describable() bool {
	return (p.Name == "" || IsLabel(p.Name)) &&
		(p.Protocol == TCP || p.Protocol == UDP || p.Protocol == SCTP) &&
		(!p.AppProtocol.Set || IsQualifiedName(p.AppProtocol.Value))
}

// portResolver finds the ports of pods behind one Service. Pods made from one
// template resolve equally, so results are computed once and shared.
//
// Rule source: FindPort in k8s.io/endpointslice and section 2.8 of the rules:
// a numeric target is used as it is, a named one is the first container port
// with that name and the Service port's protocol, containers before sidecars.
type portResolver struct {
	// portless is true for a headless Service without ports, whose endpoints
	// have none; another Service without ports has no endpoints.
	portless bool
	specs    []portSpec
	// named is true when some target is a name: then each pod's list of ports counts.
	named    bool
	byList   map[portList[ContainerPort]][]Port
	rejected []Rejection
}

type portSpec struct {
	Port
	target string
}

func newPortResolver(svc *Service) *portResolver {
	r := &portResolver{portless: len(svc.Ports) == 0 && svc.Headless(), byList: map[portList[ContainerPort]][]Port{}}
	object := TargetRef{Kind: "Service", Key: svc.Key, UID: svc.UID}
	for i := range svc.Ports {
		spec := specOf(&svc.Ports[i])
		unnamed := spec.Name == "" && len(svc.Ports) > 1
		taken := slices.ContainsFunc(r.specs, func(s portSpec) bool { return s.Name == spec.Name })
		if unnamed || taken || !spec.describable() || spec.target == "" && !spec.Valid() {
			r.reject(object, spec.Port)
			continue
		}
		r.named = r.named || spec.target != ""
		r.specs = append(r.specs, spec)
	}
	return r
}

func specOf(p *ServicePort) portSpec {
	spec := portSpec{Port: Port{Name: p.Name, Protocol: cmp.Or(p.Protocol, TCP), AppProtocol: p.AppProtocol}, target: p.Target.Name}
	if spec.target == "" {
		spec.Number = p.Target.Number
	}
	return spec
}

// resolve returns the ports of a pod; ok is false for a pod that has none of
// the Service's ports and so does not belong to it.
func (r *portResolver) resolve(pod *Pod) (ports []Port, ok bool) {
	if r.portless {
		return nil, true
	}
	var list portList[ContainerPort]
	if r.named {
		list = listOf(pod.Ports)
	}
	ports, known := r.byList[list]
	if !known {
		ports = r.lookUp(pod)
		r.byList[list] = ports
	}
	return ports, len(ports) > 0
}

// lookUp resolves without the cache.
func (r *portResolver) lookUp(pod *Pod) []Port {
	ports := make([]Port, 0, len(r.specs))
	for _, spec := range r.specs {
		port := spec.Port
		if spec.target != "" {
			port.Number = namedPort(pod, spec.target, spec.Protocol)
		}
		switch {
		case port.Number == 0:
		case port.Valid():
			ports = append(ports, port)
		default:
			r.reject(TargetRef{Kind: podKind, Key: pod.Key, UID: pod.UID}, port)
		}
	}
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
