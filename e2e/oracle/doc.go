// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oracle compares the rules of package syncer with the code they
// reproduce: upstream's own controllers, run in this process.
//
// A Case is a random Service with its pods (gen.go), made from a seed and a
// number, so that a failure can be run again alone. endpoints.go feeds
// thousands of cases at once to the endpoints controller, slices.go to the
// EndpointSlice reconciler; ours.go runs the same cases through our rules.
// deviations.go is the only place that forgives a difference: it removes from
// upstream's input or output what docs/semantics.md says we do better. A case
// that still differs is shrunk (shrink.go) before it is shown.
//
// The tests run 100,000 cases, the same each time; `SEED=0 go test ./oracle
// -oracle.soak=1h` runs new ones for an hour.
package oracle
