// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log"
	"os"
	"testing"
)

// TestLibrariesAreBridged: what net/http says by log, quoting others, is no line beside ours.
func TestLibrariesAreBridged(t *testing.T) {
	if log.Writer() == os.Stderr {
		t.Error("the log of libraries goes to stderr")
	}
}
