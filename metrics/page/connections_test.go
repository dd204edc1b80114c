// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net"
	"net/http"
	"testing"
)

// fakeConn is a connection that knows whether it was closed.
type fakeConn struct {
	net.Conn
	closed bool
}

func (c *fakeConn) Close() error {
	c.closed = true
	return nil
}

// When as many connections are open as may, an idle one gives way to a new one, and a
// new one to those in use.
func TestConnectionsAreBounded(t *testing.T) {
	all := connections{most: 2, open: map[net.Conn]bool{}}
	first, second, third, fourth := &fakeConn{}, &fakeConn{}, &fakeConn{}, &fakeConn{}
	for _, c := range []*fakeConn{first, second} {
		all.note(c, http.StateNew)
		all.note(c, http.StateActive)
	}
	all.note(second, http.StateIdle)
	all.note(third, http.StateNew)
	all.note(third, http.StateActive)
	all.note(second, http.StateClosed)
	all.note(fourth, http.StateNew)
	all.note(fourth, http.StateClosed)
	if first.closed || !second.closed || third.closed || !fourth.closed {
		t.Errorf("closed: %v %v %v %v", first.closed, second.closed, third.closed, fourth.closed)
	}
	all.note(first, http.StateClosed)
	all.note(third, http.StateClosed)
	if len(all.open) != 0 {
		t.Errorf("%d connections are remembered that are closed", len(all.open))
	}
}
