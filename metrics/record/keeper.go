// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"log/slog"
	"time"
)

// Keeper takes the changes that ended: it keeps them, logs them, and stamps them
// once our own watch has shown what they wrote. Its methods are safe for
// concurrent use; none waits, the log aside.
type Keeper struct {
	ring    *Ring
	journal *journal
	echoes  echoes
	echoed  func(*Change)
}

// NewKeeper returns a Keeper that keeps changes in the ring and logs them; no
// logger, no lines. Each change is given to echoed when its echo is known.
func NewKeeper(ring *Ring, logger *slog.Logger, echoed func(*Change)) *Keeper {
	return &Keeper{
		ring: ring, journal: newJournal(logger), echoed: echoed,
		echoes: echoes{awaited: map[Ref]*awaited{}, seen: map[Ref]time.Time{}},
	}
}

// Ring is where the changes are kept.
func (k *Keeper) Ring() *Ring { return k.ring }

// Add keeps and logs a change and returns its number; 0 where none are kept.
func (k *Keeper) Add(c *Change) (seq uint64) {
	if seq = k.ring.Add(c); seq != 0 {
		k.journal.write(c)
	}
	return seq
}

// Expect says which versions the writes of a change made, so that the change
// can be stamped when our own watch has shown them all; its log line waits for
// that, for a moment. seq is what Add returned; 0 is ignored.
func (k *Keeper) Expect(seq uint64, arrival time.Time, refs []Ref) {
	if seq == 0 {
		return
	}
	if len(refs) == 0 {
		k.journal.echoed(seq, 0)
		k.ring.stampEcho(seq, func(*Change) {})
		return
	}
	if took, complete := k.echoes.expect(seq, arrival, refs); complete {
		k.stamp(seq, took)
	}
}

// Echo says that our own watch of the ingress cluster has shown a version.
func (k *Keeper) Echo(ref Ref, arrival time.Time) {
	if seq, took, complete := k.echoes.echo(ref, arrival); complete {
		k.stamp(seq, took)
	}
}

func (k *Keeper) stamp(seq uint64, took time.Duration) {
	k.journal.echoed(seq, took)
	k.ring.stampEcho(seq, func(c *Change) {
		c.Stages.Echo = took
		k.echoed(c)
	})
}

// Flush logs the changes whose echo is still awaited: the process ends.
func (k *Keeper) Flush() { k.journal.tell(EndOfTime) }
