// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decode turns the objects of the API into the values that package syncer computes
// with and package store holds. It is where the libraries of Kubernetes end: whoever works
// with its values needs none of them. A newcomer starts at Decoder (decoder.go), then reads
// Pod (pod.go), where the conditions of a pod are read and rules are evaluated.
//
// What never happens here: whatever an object holds, there is no panic; nothing of
// the object is retained but its strings.
package decode
