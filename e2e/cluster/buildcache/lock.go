// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package buildcache

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked: another process, or another holder in this one, has the lock.
var ErrLocked = errors.New("locked by another process")

// TryLock takes an exclusive lock on a file, or fails with ErrLocked. The file is created and never removed: removing it
// would let two processes lock two files of the same name.
func TryLock(path string) (*os.File, error) {
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
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
