// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lanes orders the two kinds of work of a reconciler: comparisons of replicas
// (Queue), and the requests that they ask for (Dispatch). Both serve removals before
// additions before bulk work, in shares, so that nothing starves (fair.go).
//
// A newcomer follows one Work: Queue.Add creates it, Queue.Next returns it, Dispatch.Replace
// plans the actions of its comparison, and Dispatch.Next returns it with each of them. Its
// changes count as not written (Dispatch.Status) until the last one is acknowledged; what remains
// of it passes to the next comparison at once. No change is dropped: after each answer the
// replica is compared again, and what failed is then planned with a delay of its object. Repairs
// of what others change are paced.
//
// Both are values that a caller drives: each step takes the time, returns at once, and says
// when to call again where only time has to pass. One goroutine at a time may use a Queue and
// its Dispatch; package reconcile has a lock around them.
//
// What never happens here: no client, no logger, nothing called back, no clock read. Without a
// provider of metrics the workqueue inside reads none either and starts no goroutine.
package lanes
