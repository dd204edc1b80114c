// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation runs all of Tributary in one goroutine. Member clusters and the ingress
// cluster are models, the product's own cores run between them, and everything else (events,
// latencies, faults, clocks) is drawn from one seed. The product's laws are checked at each
// write and each second, against a ground truth that only the simulator knows.
//
// Where to read on: a Case is a script drawn from its seed, and shrunk if it fails (script.go).
// Run (run.go) plays its acts (acts.go, deeds.go) on a world (world.go). A world has API servers
// (package model), changed by kubelets and controllers (cluster.go); Processes made of the
// product's cores (process.go, election.go, member.go); and the links between them (link.go,
// follow.go). The laws (laws.go) judge every write, and compare what is published
// (differences.go) with the truth (truth.go).
//
// The simulation never starts a goroutine, reads a real clock or uses a number that does not
// follow from the seed, and no model asks the product how Kubernetes behaves.
package simulation
