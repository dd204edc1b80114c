// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"flag"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	flag.Var(flag.Lookup("seed").Value, "oracle.seed", "the same as -seed")
	// Upstream logs a line for nearly every odd case.
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
