// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reserve

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// A port must stay ours while nobody listens on it: until a process of the test does, or while a server is killed and
// restarted. One that the kernel assigned for port 0 may be assigned again once it is closed. The range lies below
// the one from which Linux assigns ports to outgoing connections, and a lock on a file per port, which the kernel
// drops when this process ends, prevents that test packages that run at the same time use the same port.
const (
	firstPort = 20000
	portCount = 12000
)

var ports struct {
	sync.Mutex
	held map[int]*os.File
}

// Port returns a TCP port of 127.0.0.1 on which nobody listens. It stays reserved for this process until that ends.
func Port() (int, error) {
	if err := os.MkdirAll(filepath.Dir(portFile(0)), 0o700); err != nil {
		return 0, fmt.Errorf("reserve a port: %w", err)
	}
	ports.Lock()
	defer ports.Unlock()
	if ports.held == nil {
		ports.held = map[int]*os.File{}
	}
	for range 1000 {
		port := firstPort + rand.IntN(portCount)
		if ports.held[port] != nil {
			continue
		}
		lock, err := File(portFile(port))
		if errors.Is(err, ErrTaken) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("reserve a port: %w", err)
		}
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			lock.Close()
			continue
		}
		l.Close()
		ports.held[port] = lock
		return port, nil
	}
	return 0, errors.New("reserve a port: a thousand tries, none free")
}

func portFile(port int) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("tributary-ports-%d", os.Getuid()), strconv.Itoa(port))
}
