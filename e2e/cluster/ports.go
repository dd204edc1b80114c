// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net"
	"strconv"

	"tributary.dev/tributary/e2e/cluster/reserve"
)

// FreePort returns a TCP port of 127.0.0.1 on which nobody listens. It stays reserved for this process until that ends.
func FreePort() (int, error) { return reserve.Port() }

// FreeAddress returns 127.0.0.1 with a port of FreePort.
func FreeAddress() (string, error) {
	port, err := FreePort()
	return "127.0.0.1:" + strconv.Itoa(port), err
}

// Listen listens on a FreeAddress.
func Listen() (net.Listener, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	return net.Listen("tcp4", address)
}
