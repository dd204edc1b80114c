// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

// Slice is the content of one EndpointSlice as a value.
type Slice struct {
	Name      string
	Family    Family
	Ports     []Port
	Endpoints []Endpoint
}
