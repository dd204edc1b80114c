// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

// Service is what the rules need to know about a Service.
type Service struct {
	Key
	UID string
	// Created is metadata.creationTimestamp in Unix seconds: the older of two
	// Services wins a conflict, and it is the first trigger time.
	Created int64
	// Labels and Annotations are read-only. Annotations hold only what the store
	// is configured to retain.
	Labels      map[string]string
	Annotations map[string]string
	// Selector is nil for a Service without one, whose endpoints are written by
	// hand. An empty non-nil selector selects every pod of the namespace.
	Selector map[string]string
	// ClusterIP is spec.clusterIP: an address, "None" or "".
	ClusterIP string
	// IPFamilies are spec.ipFamilies; empty for objects stored before dual stack
	// that arrive by watch (kubernetes#138735).
	IPFamilies               []Family
	Ports                    []ServicePort
	PublishNotReadyAddresses bool
	ExternalName             bool
}

// Headless reports whether the Service has no virtual IP by choice.
func (s *Service) Headless() bool { return s.ClusterIP == ClusterIPNone }

// ClusterIPNone is the clusterIP of a headless Service.
const ClusterIPNone = "None"

// Family is an IP family, spelt as in the Service API.
type Family string

// The IP families of the API.
const (
	IPv4 Family = "IPv4"
	IPv6 Family = "IPv6"
)

// ServicePort is one port of a Service.
type ServicePort struct {
	Name     string
	Protocol string
	Port     int32
	Target   TargetPort
	// AppProtocol may be unset, which is not the same as empty.
	AppProtocol AppProtocol
}

// TargetPort is a number, or a name that each pod resolves for itself when
// Name is not empty.
type TargetPort struct {
	Name   string
	Number int32
}
