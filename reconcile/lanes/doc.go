// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lanes holds the keys that wait for a write, in three lanes: removals
// before additions before bulk work.
//
// A newcomer starts at Queue (queue.go). What it promises, and the tests check
// after every step:
//
//   - one key is never with two workers; events for it meanwhile merge, and the
//     key comes back when the worker is done;
//   - a key waits at most once, with the merged causes of all its events, the
//     earliest arrival among them and the most urgent lane;
//   - inside a lane first come is first served; a key raised to a more urgent
//     lane joins that lane's end;
//   - bulk work and additions never hold so many workers that a removal finds
//     none (Options);
//   - no key is ever given up: a failed one returns after a backoff.
//
// What never happens here: no client, no logger, nothing called back while the
// lock is held. The clock is package time, so tests run in testing/synctest.
package lanes
