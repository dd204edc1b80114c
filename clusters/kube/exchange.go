// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
)

// former is a source that was exchanged for another.
type former struct {
	source     ListWatcher
	generation int
}

// SetListWatcher exchanges the client, for the same cluster: an open stream goes on
// until one of the new source has been opened at the same revision.
func (l *Loop[T]) SetListWatcher(source ListWatcher) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		source.retired()
		return
	}
	l.former = append(l.former, former{l.source, l.generation})
	l.source = source
	l.generation++
	abort := l.abort
	l.mu.Unlock()
	if abort != nil {
		abort()
	}
	l.signal()
}

// current returns the source to use now.
func (l *Loop[T]) current() (ListWatcher, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source, l.generation
}

// attempt returns a context for one list or one opening of a stream, which ends
// early when the source is exchanged meanwhile.
func (l *Loop[T]) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	l.abort = cancel
	l.mu.Unlock()
	return ctx, cancel
}

// attempted ends the window in which SetListWatcher cancels the attempt.
func (l *Loop[T]) attempted() {
	l.mu.Lock()
	l.abort = nil
	l.mu.Unlock()
}

// end retires all sources.
func (l *Loop[T]) end() {
	l.mu.Lock()
	l.ended = true
	former, last := l.former, l.source
	l.former = nil
	l.mu.Unlock()
	for _, f := range former {
		f.source.retired()
	}
	last.retired()
}

// retire lets go of the sources before a generation.
func (l *Loop[T]) retire(before int) {
	var retired []former
	l.mu.Lock()
	l.former = slices.DeleteFunc(l.former, func(f former) bool {
		if f.generation < before {
			retired = append(retired, f)
			return true
		}
		return false
	})
	l.mu.Unlock()
	for _, f := range retired {
		f.source.retired()
	}
}

func (s ListWatcher) retired() {
	if s.Retired != nil {
		s.Retired()
	}
}
