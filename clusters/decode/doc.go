// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decode turns the objects of the API into the values that the rules, the
// tables of package store and the judgement of package evidence work with. It is
// where the libraries of Kubernetes end: whoever works with its values needs none of
// them.
//
// What never happens here: whatever an object holds, there is no panic; nothing of
// the object is kept but its strings.
package decode
