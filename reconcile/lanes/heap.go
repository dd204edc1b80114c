// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "time"

// node is a place in a heap ordered by rank and time.
type node struct {
	at time.Time
	// rank goes before time.
	rank  uint8
	index int // position in its heap; absent when in none
	// entry is set in the nodes of lines and of the backoff, cluster in those of lag heaps.
	entry   *entry
	cluster string
}

const absent = -1

// heap is a binary min-heap of nodes that know their position, so that any of
// them can be taken out in O(log n). container/heap would box every call.
type heap []*node

func (h heap) first() *node {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

// before reports whether a node comes before another one.
func (n *node) before(other *node) bool {
	return n.rank < other.rank || n.rank == other.rank && n.at.Before(other.at)
}

// entry is that of the first node, nil if there is none.
func (h heap) entry() *entry {
	if len(h) == 0 {
		return nil
	}
	return h[0].entry
}

func (h *heap) push(n *node) {
	n.index = len(*h)
	*h = append(*h, n)
	h.up(n.index)
}

func (h *heap) remove(n *node) {
	i, last := n.index, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	n.index = absent
	if i < last {
		h.up(i)
		h.down(i)
	}
}

func (h heap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h heap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
