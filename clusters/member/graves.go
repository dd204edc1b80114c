// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"time"

	"tributary.dev/tributary/syncer"
)

// graveTime is for how long what is gone is remembered: API servers do not resume streams at
// revisions that are older.
const graveTime = 10 * time.Minute

// graves remember by UID what is gone, so that nothing that comes late brings it back.
type graves map[string]grave

// grave is one object that is gone. revision is the one at which it went, or at which it was
// known last.
type grave struct {
	key      syncer.Key
	revision uint64
	at       time.Time
}

// verdict says what to make of an object that is shown.
type verdict uint8

const (
	news  verdict = iota
	late          // it has gone since
	doubt         // it was gone, and is shown nevertheless: ask
)

func (g graves) judge(uid string, revision uint64) verdict {
	switch dead, ok := g[uid]; {
	case !ok:
		return news
	case revision <= dead.revision:
		return late
	}
	return doubt
}

func (g graves) bury(uid string, dead grave) {
	if uid != "" {
		g[uid] = dead
	}
}

// has reports whether an object of that name is among the gone.
func (g graves) has(key syncer.Key) bool {
	for _, dead := range g {
		if dead.key == key {
			return true
		}
	}
	return false
}

// sweep forgets what is gone for long and of which nothing stands.
func (g graves) sweep(now time.Time, stands func(syncer.Key) bool) {
	for uid, dead := range g {
		if now.Sub(dead.at) > graveTime && !stands(dead.key) {
			delete(g, uid)
		}
	}
}
