// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package otlp exports change records as OpenTelemetry traces, when the usual
// environment variables ask for it; else nothing of it exists.
//
// exporter.go makes spans of each record and passes them to the SDK's batch processor,
// whose queue is bounded. Only this package may import OpenTelemetry.
//
// What never happens here: a collector that is slow, or away, delays or loses anything but
// traces.
package otlp
