// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lanes holds the keys that wait for a write, in three lanes: removals
// before additions before bulk work; and it hands out, lane by lane, the right to
// send a request.
//
// A newcomer starts at Queue (queue.go). What it promises, and the tests check
// after every step:
//
//   - one key is never with two workers; events for it meanwhile merge, and the
//     key comes back when the worker is done;
//   - a key waits at most once, with the merged causes of all its events and the
//     earliest arrival among them;
//   - the lane follows what the write does: news only says in which order keys are
//     compared, and what the difference takes away decides (Admit, admit.go). No bulk
//     work is written while there is news that has not been compared;
//   - inside a lane what was dirty first is served first, and what failed comes behind
//     what has not;
//   - a namespace delays no other. One in which a request was not answered within a second
//     gives up all its places; its keys go through bulkheads from then on, which get no
//     more places than they leave free (bulkhead.go), until one is answered in time;
//   - removals are never held back by the number of others. Those run with as many
//     requests at once as the measured time of requests allows (congestion.go, slots.go),
//     and have a share however many removals there are (turns.go);
//   - no key is ever given up: a failed one returns after a backoff.
//
// What never happens here: no client, no logger, nothing called back while the
// lock is held. The clock is package time, so tests run in testing/synctest.
package lanes
