// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale asks of a real fleet what only shows with thousands of Services:
// whether a removal overtakes a cold fill, whether nothing is written when nothing
// has changed, what an hour's changes cost when the ingress cluster was away, and
// whether a replica of thousands of addresses is whole.
//
// Figures are ratios within one run: what tributary does beside what it does when
// idle, or beside a bare loop that does the same writes. Writes are counted by the
// API server, and what a consumer sees is taken from a watch.
//
//	go test ./scale                                            the quick share, 300 Services
//	go test -v ./scale -services 5000                          all steps, five minutes on two quiet cores
//	go test -v ./scale -services 5000 -run TestManyServices/away   the fill and one step
package scale
