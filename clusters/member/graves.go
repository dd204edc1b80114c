// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"time"

	"tributary.dev/tributary/next/syncer"
)

// graveTime is for how long at least an object that is gone is remembered: nothing that is
// under way takes longer to arrive.
const graveTime = time.Minute

// graves remember what is gone by UID, so that an event or a list that is late does not
// bring it back.
type graves map[string]grave

// grave is one object that is gone.
type grave struct {
	key syncer.Key
	// revision is the one at which it went, or was still known of, in its stream.
	revision uint64
	stream   *stream
	// answered is true where a read said that it is gone: it went at some revision after.
	answered bool
	at       time.Time
}

// verdict says what to make of an object that is shown.
type verdict uint8

const (
	news  verdict = iota
	late          // it is gone already
	doubt         // it may be gone already: ask
)

// judge judges an object that is shown at a revision.
func (g graves) judge(uid string, revision uint64) verdict {
	switch dead, ok := g[uid]; {
	case !ok || uid == "":
		return news
	case revision <= dead.revision:
		return late
	case dead.answered:
		return doubt
	}
	return news
}

// bury remembers an object that is gone.
func (g graves) bury(uid string, dead grave) {
	if uid != "" {
		g[uid] = dead
	}
}

// sweep forgets what nothing can bring back any more: its stream has passed it for a while,
// and nothing of it is among what still stands.
func (g graves) sweep(now time.Time, stands func(syncer.Key) bool) {
	for uid, dead := range g {
		if dead.stream.at > dead.revision && now.Sub(dead.at) > graveTime && !stands(dead.key) {
			delete(g, uid)
		}
	}
}
