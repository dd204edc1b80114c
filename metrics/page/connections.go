// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net"
	"net/http"
	"sync"
)

// maxConnections may be open to a server at a time. When one more comes, one that waits for
// its next request is closed; when there is none, the new one.
const maxConnections = 256

// connections knows those of a server. All methods are safe for concurrent use.
type connections struct {
	most int

	mu sync.Mutex
	// open holds true for each connection on which no request is being answered.
	open map[net.Conn]bool
}

// note is an http.Server's ConnState.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	var spare net.Conn
	switch state {
	case http.StateNew:
		if len(c.open) >= c.most {
			spare = c.lockedSpare(conn)
			delete(c.open, spare)
		}
		if spare != conn {
			c.open[conn] = false
		}
	case http.StateActive, http.StateIdle:
		if _, open := c.open[conn]; open {
			c.open[conn] = state == http.StateIdle
		}
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
	c.mu.Unlock()
	if spare != nil {
		_ = spare.Close()
	}
}

// lockedSpare is the connection to close.
func (c *connections) lockedSpare(newest net.Conn) net.Conn {
	for conn, idle := range c.open {
		if idle {
			return conn
		}
	}
	return newest
}
