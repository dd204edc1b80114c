// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

// Stall says that the worker which holds an item waits for an answer that does not
// come: its place is given to another key, so that a server which swallows some
// requests does not delay those that it would answer. The caller sees to it that
// there is one more worker until the item has ended. It returns false, and nothing
// has changed, when the item has ended or too many are stalled already.
func (q *Queue) Stall(item Item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[item.Key]
	if e == nil || e.state != stateWorking || e.turn != item.turn || e.stalled || q.stalled >= q.opts.Stalls {
		return false
	}
	q.lockedFree(e)
	e.stalled = true
	q.stalled++
	q.lockedDispatch()
	return true
}

// lockedFree counts an entry out of work.
func (q *Queue) lockedFree(e *entry) {
	if e.stalled {
		e.stalled = false
		q.stalled--
		return
	}
	q.lockedBusy(e.working.lane, -1)
}
