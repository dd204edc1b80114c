// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	_ "unsafe" // for go:linkname

	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
)

// Upstream's controllers are called, not run: their stores are filled directly, and
// each key is synced on demand. So there is nothing to wait for, and a case that
// upstream refuses is known at once.

//go:linkname syncService k8s.io/kubernetes/pkg/controller/endpoint.(*Controller).syncService
func syncService(c *endpoint.Controller, ctx context.Context, key string) error

//go:linkname syncEndpoints k8s.io/kubernetes/pkg/controller/endpointslicemirroring.(*Controller).syncEndpoints
func syncEndpoints(c *endpointslicemirroring.Controller, ctx context.Context, key string) error

// stop shuts down the queues of a controller, by a Run that stops at once.
func stop(ctx context.Context, controller interface {
	Run(ctx context.Context, workers int)
}) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	controller.Run(ctx, 0)
}
