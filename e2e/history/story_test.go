// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/e2e/cluster"
)

// story builds a history: one Service shop/web in the members a and b, pods p1, p2, …
// with the addresses 10.0.0.1, … in a and q1, … with 10.1.0.1, … in b. Times are in
// seconds.
type story struct {
	h        History
	revision int
}

const user = "tributary"

func newStory() *story {
	s := &story{h: History{
		Began: time.Unix(1_700_000_000, 0), Ingress: "ingress", Members: []string{"a", "b"}, User: user, Writes: map[string][]cluster.Write{},
	}}
	s.service(0, "a").service(0, "b")
	s.replica(0)
	return s
}

// ours is the metadata of an object of the replica shop/web.
func ours(name string, labels map[string]string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{managedBy: "tributary"}, Annotations: map[string]string{ofReplica: "shop/web"}}
	maps.Copy(m.Labels, labels)
	return m
}

func seconds(at float64) time.Duration { return time.Duration(at * float64(time.Second)) }

func (s *story) event(at float64, cluster string, kind Kind, name string, object metav1.Object) *Event {
	s.revision++
	if object != nil {
		object.SetResourceVersion(fmt.Sprint(s.revision))
	}
	s.h.Events = append(s.h.Events, Event{
		At: seconds(at), Cluster: cluster, Kind: kind, Key: Key{"shop", name}, Object: object, Revision: fmt.Sprint(s.revision), Listed: at == 0,
	})
	s.h.End = max(s.h.End, seconds(at))
	return &s.h.Events[len(s.h.Events)-1]
}

func (s *story) service(at float64, member string) *story { return s.servicePort(at, member, 8080) }

// port changes the target port of the Service in a.
func (s *story) port(at float64, number int) *story { return s.servicePort(at, "a", number) }

func (s *story) servicePort(at float64, member string, number int) *story {
	s.event(at, member, Service, "web", &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(int32(number))}},
		},
	})
	return s
}

func (s *story) replica(at float64) *story {
	s.event(at, "ingress", Service, "web", &corev1.Service{ObjectMeta: ours("web", nil)})
	return s
}

// memberOf and ipOf derive from a pod's name.
func memberOf(pod string) string { return map[byte]string{'p': "a", 'q': "b"}[pod[0]] }
func ipOf(pod string) string {
	return fmt.Sprintf("10.%d.0.%s", map[byte]int{'p': 0, 'q': 1, 'x': 9}[pod[0]], pod[1:])
}

// pods makes pods ready, or not ready with a leading "!".
func (s *story) pods(at float64, names ...string) *story {
	for _, name := range names {
		status, name := corev1.ConditionTrue, name
		if rest, not := strings.CutPrefix(name, "!"); not {
			status, name = corev1.ConditionFalse, rest
		}
		s.event(at, memberOf(name), Pod, name, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}},
			Status: corev1.PodStatus{
				PodIPs:     []corev1.PodIP{{IP: ipOf(name)}},
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
			},
		})
	}
	return s
}

func (s *story) gone(at float64, pods ...string) *story {
	for _, name := range pods {
		s.event(at, memberOf(name), Pod, name, nil)
	}
	return s
}

// shows publishes exactly these pods in Endpoints, and in one slice for each member.
func (s *story) shows(at float64, pods ...string) *story {
	return s.endpoints(at, pods...).slices(at, pods...)
}

func (s *story) endpoints(at float64, pods ...string) *story {
	e := &corev1.Endpoints{ObjectMeta: ours("web", nil)}
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}}}
	for _, name := range pods {
		name, not := strings.CutPrefix(name, "!")
		address := corev1.EndpointAddress{IP: ipOf(name), TargetRef: &corev1.ObjectReference{UID: types.UID(name)}}
		if not {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, address)
		} else {
			subset.Addresses = append(subset.Addresses, address)
		}
	}
	e.Subsets = []corev1.EndpointSubset{subset}
	s.event(at, "ingress", Endpoints, "web", e)
	return s
}

// unmade deletes Endpoints.
func (s *story) unmade(at float64) *story {
	s.event(at, "ingress", Endpoints, "web", nil)
	return s
}

func (s *story) slices(at float64, pods ...string) *story {
	for _, member := range []string{"a", "b"} {
		of := slices.DeleteFunc(slices.Clone(pods), func(p string) bool { return memberOf(strings.TrimPrefix(p, "!")) != member })
		s.slice(at, member, "web-"+member, of...)
	}
	return s
}

func (s *story) slice(at float64, member, name string, pods ...string) *story {
	o := &discoveryv1.EndpointSlice{
		ObjectMeta: ours(name, map[string]string{discoveryv1.LabelServiceName: "web", sourceCluster: member}),
		Ports:      []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for _, name := range pods {
		name, not := strings.CutPrefix(name, "!")
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{ipOf(name)}, TargetRef: &corev1.ObjectReference{UID: types.UID(name)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(!not), Serving: new(!not), Terminating: new(false)},
		})
	}
	s.event(at, "ingress", EndpointSlice, name, o)
	return s
}

// end deletes a slice.
func (s *story) end(at float64, name string) *story {
	s.event(at, "ingress", EndpointSlice, name, nil)
	return s
}

// port9090 publishes the pods in a slice of a with port 9090, for a moment.
func (s *story) port9090(at float64, pods ...string) *story {
	s.slice(at, "a", "web-a-9090", pods...)
	slice := s.h.Events[len(s.h.Events)-1].Object.(*discoveryv1.EndpointSlice)
	slice.Ports[0].Port = new(int32(9090))
	return s.slice(at+0.05, "a", "web-a-9090")
}

// hand marks the last events of the ingress cluster as the test's own.
func (s *story) hand(n int) *story {
	for i := range n {
		s.h.Events[len(s.h.Events)-1-i].ByHand = true
	}
	return s
}

func (s *story) span(kind SpanKind, member string, from, to float64) *story {
	s.h.Spans = append(s.h.Spans, Span{Kind: kind, Cluster: member, From: seconds(from), To: seconds(to)})
	return s
}

func (s *story) write(at float64, in, verb, resource, name string) *story {
	s.h.Writes[in] = append(s.h.Writes[in], cluster.Write{
		Time: s.h.Began.Add(seconds(at)), User: user, Verb: verb, Resource: resource, Namespace: "shop", Name: name, Code: 200,
	})
	return s
}

func (s *story) until(at float64) *story {
	s.h.End = seconds(at)
	return s
}
