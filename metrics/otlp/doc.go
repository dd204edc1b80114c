// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package otlp exports change records as OpenTelemetry traces, when the usual
// environment variables ask for it; else nothing of it exists.
//
// It is one more reader of the ring of change records (record.Ring): who makes a record
// does not know of it and never waits for it, and the ring is the bounded queue.
// exporter.go hands spans to the SDK's batch processor, spans.go makes them.
//
// Only this package may import OpenTelemetry. What never happens here: a collector that
// is slow, or away, delays or loses anything but traces.
package otlp
