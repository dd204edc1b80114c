// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reserve reserves files and ports for one of several test programs on a machine. The kernel drops a reservation
// when the process ends, however it does. Only tests and e2e import this package.
package reserve

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrTaken: another process, or another holder in this one, has the lock.
var ErrTaken = errors.New("reserved by another process")

// File takes an exclusive lock on a file, or fails with ErrTaken. The file is created and never removed: removing it
// would let two processes lock two files of the same name.
func File(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrTaken
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
