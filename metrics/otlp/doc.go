// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package otlp exports change records as OpenTelemetry traces, when the usual
// environment variables ask for it; else nothing of it exists.
//
// It is one more reader of the ring of change records (record.Ring): the
// worker that makes a record does not know of it and never waits for it, and
// the ring is the bounded queue. env.go reads the variables, spans.go turns a
// record into spans (ids.go gives them the record's trace), exporter.go hands them to the SDK's batch processor, and
// delivery.go tells the log how that goes. Retries are the exporters' own.
//
// Only this package may import OpenTelemetry.
package otlp
