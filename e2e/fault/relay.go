// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"net"
	"strings"
	"sync"

	"tributary.dev/tributary/e2e/cluster"
)

// Direction is one direction of a connection.
type Direction int

// The directions, as seen by the client.
const (
	Up   Direction = iota // from the client to the server
	Down                  // from the server to the client
)

// Relay forwards TCP connections to a cluster's apiserver until it is told to
// hold bytes back. Nobody is told then: the connections stay open, as when a
// network drops packets. It is safe for concurrent use.
type Relay struct {
	cluster  *cluster.Cluster
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	change *sync.Cond
	held   [2]bool // for all connections
	conns  map[*relayed]bool
	closed bool
}

// relayed is one connection.
type relayed struct {
	client, server net.Conn
	lost           bool // held for good, whatever becomes of the others
	closed         bool
}

// StartRelay starts a relay, which forwards until Close.
func StartRelay(c *cluster.Cluster) (*Relay, error) {
	listener, err := cluster.Listen()
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", c.Name(), err)
	}
	r := &Relay{cluster: c, listener: listener, conns: map[*relayed]bool{}}
	r.change = sync.NewCond(&r.mu)
	r.running.Go(r.accept)
	return r, nil
}

// Kubeconfig is a user's kubeconfig that leads through the relay.
func (r *Relay) Kubeconfig(u cluster.User) ([]byte, error) {
	return cluster.Kubeconfig(r.cluster.Name(), "https://"+r.listener.Addr().String(), r.cluster.CA(), u)
}

// Hold keeps back what is sent in these directions, on connections that are open
// and on those to come, until Heal.
func (r *Relay) Hold(directions ...Direction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range directions {
		r.held[d] = true
	}
}

// Lose keeps back everything on the connections that are open now, for good; new
// ones are not affected. So does a balancer that has forgotten them.
func (r *Relay) Lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.lost = true
	}
}

// Heal lets what was held go on, but for lost connections.
func (r *Relay) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = [2]bool{}
	r.change.Broadcast()
}

// Cut closes the connections that are open now.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		r.closeLocked(c)
	}
}

// Close ends the relay and its connections.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	_ = r.listener.Close()
	for c := range r.conns {
		r.closeLocked(c)
	}
	r.mu.Unlock()
	r.running.Wait()
}

func (r *Relay) closeLocked(c *relayed) {
	c.closed = true
	_ = c.client.Close()
	_ = c.server.Close()
	delete(r.conns, c)
	r.change.Broadcast()
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp4", strings.TrimPrefix(r.cluster.URL(), "https://"))
		if err != nil {
			_ = client.Close() // nobody listens there: refused here too
			continue
		}
		c := &relayed{client: client, server: server}
		r.mu.Lock()
		if r.closed {
			r.closeLocked(c)
		} else {
			r.conns[c] = true
		}
		r.mu.Unlock()
		r.running.Go(func() { r.pump(c, Up, client, server) })
		r.running.Go(func() { r.pump(c, Down, server, client) })
	}
}

// pump forwards one direction until either end closes.
func (r *Relay) pump(c *relayed, d Direction, from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		r.await(c, d)
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			r.mu.Lock()
			r.closeLocked(c)
			r.mu.Unlock()
			return
		}
	}
}

// await returns when bytes of a direction may pass, or the connection is closed.
func (r *Relay) await(c *relayed, d Direction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !c.closed && (c.lost || r.held[d]) {
		r.change.Wait()
	}
}
