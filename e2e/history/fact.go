// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
)

// The states of an endpoint in Endpoints. In slices the state is the conditions that
// are true, joined with "+".
const (
	Ready    = "ready"
	NotReady = "notready"
)

// Fact is one endpoint under one port in one state, in one of the two kinds that
// hold endpoints. A member wants it or not; the ingress cluster shows it or not.
type Fact struct {
	Kind    Kind // Endpoints or EndpointSlice
	Replica Key
	// Cluster is the member; empty if no member ever had the pod.
	Cluster string
	// UID is the pod's.
	UID, IP string
	// Port is number/name/protocol, or empty without ports.
	Port  string
	State string
}

func (f Fact) String() string {
	return fmt.Sprintf("%s %s: %s %s:%s %s (pod %.8s)", f.Kind, f.Replica, cmp.Or(f.Cluster, "nobody's"), f.IP, f.Port, f.State, f.UID)
}

func compareFacts(a, b Fact) int {
	return cmp.Or(
		cmp.Compare(a.Replica.Namespace, b.Replica.Namespace), cmp.Compare(a.Replica.Name, b.Replica.Name),
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.IP, b.IP),
		cmp.Compare(a.UID, b.UID), cmp.Compare(a.Port, b.Port), cmp.Compare(a.State, b.State),
	)
}

// serves reports whether the endpoint gets traffic.
func (f Fact) serves() bool { return f.State == Ready || f.State == "ready+serving" }

// port formats a port of a fact.
func port(number int32, name, protocol string) string {
	return fmt.Sprintf("%d/%s/%s", number, name, protocol)
}
