// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm holds the charts, the one source of what is applied to clusters: tributary for the ingress cluster,
// tributary-member for the members. Its tests render them with Helm's own engine; from them come the plain manifests
// under deploy/kubernetes:
//
//	go test ./... -update
//
// It is a module of its own, so that Helm and kubectl, which are built from it for tests, stay out of the product's
// dependencies.
package helm
