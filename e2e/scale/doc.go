// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale tests on a real fleet what only shows with thousands of Services:
// that a removal overtakes a cold fill, that nothing is written when nothing has
// changed, what an hour's changes cost when the ingress cluster was away, and that
// a replica of thousands of addresses is complete.
//
// Figures are ratios within one run: tributary under load compared with tributary
// when idle, or with a bare loop that does the same writes. The API server counts
// writes, and a watch shows what a consumer sees.
//
//	go test ./scale                                            the quick share, 300 Services
//	go test -v ./scale -services 5000                          all steps, five minutes on two quiet cores
//	go test -v ./scale -services 5000 -run TestManyServices/away   the fill and one step
package scale
