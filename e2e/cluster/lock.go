// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// errLocked: another process (or another call in this one) holds the lock.
var errLocked = errors.New("locked by another process")

// tryLock takes an exclusive lock on a file, which is created and never removed: removing it would let two processes
// lock two files of the same name. Closing the file, or the end of the process, releases the lock.
func tryLock(path string) (*os.File, error) {
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
		return nil, errLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// lockFile waits for the lock; waiting is called once if there is something to wait for.
func lockFile(ctx context.Context, path string, waiting func()) (*os.File, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for first := true; ; first = false {
		f, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
