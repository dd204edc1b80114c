// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lanes orders the two kinds of work of a reconciler: comparisons of replicas
// (Queue), and the requests that they ask for (Dispatch). Both serve removals before
// additions before bulk work, in shares, so that nothing starves (fair.go).
//
// A newcomer follows one Work: Queue.Add makes it, Queue.Get hands it to a worker,
// Dispatch.Replace takes it with the actions that its comparison gave, and Dispatch.Next
// gives it out with each of them. Its changes count as not written (Queue.Oldest) until the
// last one is acknowledged. Nothing is given up: after each answer the replica is compared
// again, and what failed is then planned with a delay of its object.
//
// What never happens here: no client, no logger, no metric, nothing called back. The clock
// is package time, so tests run in testing/synctest.
package lanes
