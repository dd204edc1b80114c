// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reserve

import (
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"testing"
)

func TestFileIsReservedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := File(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := File(path); !errors.Is(err, ErrTaken) {
		t.Errorf("second reservation: %v", err)
	}
	held.Close()
	again, err := File(path)
	if err != nil {
		t.Fatalf("after it was let go: %v", err)
	}
	again.Close()
}

// A port is returned once, can be listened on, and is not one that the kernel assigns for port 0.
func TestPortIsReservedOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port, err := Port()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < firstPort || port >= firstPort+portCount {
			t.Errorf("port %d was returned", port)
		}
		seen[port] = true
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if lock, err := File(portFile(port)); !errors.Is(err, ErrTaken) {
			t.Errorf("port %d can be had by another process: %v", port, err)
			lock.Close()
		}
	}
}
