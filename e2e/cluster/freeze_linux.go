// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// awaitStopped waits until every thread of a process that was sent SIGSTOP has stopped. The signal is delivered to
// threads one by one; a copy of the process's files taken before the last one stops would be torn.
func awaitStopped(pid int) error {
	deadline := time.Now().Add(5 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		stopped, err := allStopped(pid)
		if err != nil || stopped {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("it does not stop after SIGSTOP")
		}
		<-tick.C
	}
}

func allStopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	if len(threads) == 0 {
		return false, os.ErrProcessDone
	}
	for _, stat := range threads {
		text, err := os.ReadFile(stat)
		if errors.Is(err, os.ErrNotExist) {
			continue // this thread has ended
		}
		if err != nil {
			return false, err
		}
		// proc(5): the state is the letter behind the closing parenthesis of the command name.
		_, rest, found := bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" "))
		if !found || len(rest) == 0 || (rest[0] != 'T' && rest[0] != 't') {
			return false, nil
		}
	}
	return true, nil
}
