// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"net"

	"tributary.dev/tributary/clusters/internal/memnet"
)

// memoryListener is the network that members are reached through.
type memoryListener struct{ *memnet.Listener }

func newMemoryListener() *memoryListener { return &memoryListener{memnet.New()} }

func (l *memoryListener) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return l.Dial(ctx, network, address)
}
func (l *memoryListener) dials() int            { return l.Dials() }
func (l *memoryListener) open() int             { return l.Open() }
func (l *memoryListener) setRefuse(refuse bool) { l.SetRefuse(refuse) }
func (l *memoryListener) freeze()               { l.Freeze() }
func (l *memoryListener) thaw()                 { l.Thaw() }
