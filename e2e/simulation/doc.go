// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation runs Tributary as a whole in one goroutine: member clusters and an
// ingress cluster are models, what lies between them is the product's own cores, and
// everything that happens, every latency, fault and clock, is drawn from one seed. After each
// step the laws of the product are checked against a truth that only the simulator knows.
//
// The way through it: a Case is a script, drawn from its seed, and made short if it fails
// (script.go). Run (run.go) plays its acts (acts.go, deeds.go) on a world (world.go) of API servers
// (package model), which kubelets and controllers (cluster.go) change; of Processes
// (process.go, election.go, member.go), made of the product's cores; and of what lies between
// (link.go, follow.go). Laws (laws.go) look at every write, and hold what stands (differences.go) against the truth
// (truth.go).
//
// What never happens here: a goroutine, a look at a real clock, a number that does not follow
// from the seed; and a model that asks the product how Kubernetes behaves.
package simulation
