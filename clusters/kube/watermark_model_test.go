// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"math/rand/v2"
	"testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// pastModel is a store, one stream of it that is resumed where it ended, somebody who
// writes and is answered before or after the stream shows it, and who asks now and then.
type pastModel struct {
	rand    *rand.Rand
	marks   Watermarks
	objects map[syncer.Key]uint64
	history []Watermark
	rv      uint64
	// position is where the stream is; frozen: it brings nothing more.
	position     uint64
	open, frozen bool
	// heard is the newest that anybody heard.
	heard uint64
}

// key is one of a few names. Those before the backup are others than those after it, and
// what is deleted (aged) stood from the beginning and is not made again: what was made and
// deleted since the backup is not lost.
func (m *pastModel) key(past int) (key syncer.Key, aged bool) {
	key = syncer.Key{Namespace: []string{"old", "new"}[past], Name: string(rune('a' + m.rand.IntN(16)))}
	return key, past == 0 && key.Name < "i"
}

// write changes, makes or deletes an object; half of the time the answer is heard.
func (m *pastModel) write(past int) {
	key, aged := m.key(past)
	last := m.objects[key]
	if aged && last == 0 {
		return
	}
	m.rv++
	w := Watermark{Key: key, Revision: m.rv}
	if w.Gone = aged && m.rand.IntN(3) == 0; w.Gone {
		delete(m.objects, key)
	} else {
		m.objects[key] = m.rv
	}
	m.history = append(m.history, w)
	if m.rand.IntN(2) == 0 {
		return
	}
	if w.Gone {
		w.Revision = last + 1 // all that is known of it
	}
	m.marks.Answered(w)
	m.heard = max(m.heard, m.rv)
}

func (m *pastModel) pending() (all []Watermark) {
	for _, w := range m.history {
		if w.Revision > m.position {
			all = append(all, w)
		}
	}
	return all
}

func (m *pastModel) deliver(n int) {
	for _, w := range m.pending() {
		if n--; n < 0 || !m.open || m.frozen {
			return
		}
		m.position = w.Revision
		m.heard = max(m.heard, m.position)
		m.marks.Observed(w)
	}
}

func (m *pastModel) turn() {
	if m.open = !m.open; m.open {
		m.frozen = false
		m.marks.Opened(nil)
		return
	}
	m.marks.Closed()
}

// ask does what the prober does, and reports whether it finds the store restored.
func (m *pastModel) ask() (wentBack bool) {
	all, stream := m.marks.All()
	for _, w := range all {
		switch at := m.objects[w.Key]; {
		case at != 0 && at < w.Revision:
			return true
		case at == 0 && !w.Gone:
			if stream != 0 && !m.frozen && len(m.pending()) == 0 { // proven
				return true
			}
			continue
		}
		m.marks.Confirmed(w)
	}
	return false
}

func (m *pastModel) step(past int) {
	switch m.rand.IntN(8) {
	case 0, 1, 2:
		m.write(past)
	case 3:
		m.turn()
	default:
		m.deliver(m.rand.IntN(3))
	}
}

// Whatever was heard, in any order, by streams or by answers: if the store loses it, that
// is found, however much is written to the restored store and heard from it. And nothing
// is found where nothing was restored.
func TestWhatWasHeardAndIsLostIsFound(t *testing.T) {
	found := 0
	for seed := range dice.Seeds(t, 1500) {
		m := &pastModel{rand: dice.From(seed, 3), objects: map[syncer.Key]uint64{}, rv: 10, position: 10}
		for i := range 8 {
			m.objects[syncer.Key{Namespace: "old", Name: string(rune('a' + i))}] = uint64(1 + i)
		}
		var backup pastModel
		for range 5 + m.rand.IntN(30) {
			if m.rand.IntN(20) == 0 && m.ask() {
				t.Fatalf("history %d: found, and nothing was restored", seed)
			}
			if m.step(0); m.rand.IntN(5) == 0 {
				backup = pastModel{objects: maps.Clone(m.objects), history: m.history[:len(m.history):len(m.history)], rv: m.rv}
			}
		}
		if backup.objects == nil {
			continue
		}
		lost := m.heard > backup.rv
		m.objects, m.history, m.rv = backup.objects, backup.history, m.rv+100
		m.frozen = m.open // a stream of the old store brings nothing from the new one
		wentBack := false
		for range m.rand.IntN(40) {
			m.step(1)
			wentBack = wentBack || m.rand.IntN(20) == 0 && m.ask()
		}
		for round := 0; round < 100 && !wentBack; round++ {
			if !m.open || m.frozen {
				m.turn()
			}
			m.deliver(len(m.history))
			wentBack = m.ask()
		}
		if wentBack != lost {
			t.Fatalf("history %d: found %t, want %t; heard up to %d, restored to %d", seed, wentBack, lost, m.heard, backup.rv)
		}
		if lost {
			found++
		}
	}
	if found < 500 {
		t.Errorf("%d histories lost something that was heard", found)
	}
}
