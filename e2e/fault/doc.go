// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault breaks things around a running tributary and holds what it does
// against its promises.
//
// Each test is one fault by its number (R1, R4, …): real clusters, the real
// binary, a recorder that watches from outside (package history) and a checker
// that judges the whole recorded history. A test has a fleet to itself while it
// runs, a namespace, a tributary and a recorder of its own, and leaves the fleet
// whole for the next. There are as many fleets as -parallel says; one leaves
// the machine to one fault.
//
//	go test ./fault                        the quick share, some seven minutes on two cores
//	go test ./fault -full                  every size as promised
//	go test ./fault -run TestSoak -soak 1h a random mix for as long as told
//	go test ./fault -seed 7                the same dice again; each test prints its seed
//	go test ./fault -full -patience 3      time limits for a machine that is busy with other things
//
// The limits of the quick share are three times what is promised, so that a slow
// machine fails nothing; with -full they are the promises. Each test ends with a
// line that tells its seed, when each fault began and ended, the differences that
// were left, what was shown late, tributary's writes and the breaches of a law.
//
// What is not a test here is a tool for them: Proxy ends TLS before an API server
// and does to requests what its faults say, Relay forwards bytes until it is
// told not to, Churn changes a member at random.
package fault
