// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"tributary.dev/tributary/e2e/fleet/fleettest"
)

var (
	fullFlag     = flag.Bool("full", false, "run every fault at the size that is promised, not the quick share")
	soakFlag     = flag.Duration("soak", 0, "how long TestSoak mixes faults; 0: a few of them")
	patienceFlag = flag.Float64("patience", 0, "factor on every time limit, for a machine that is busy with other things; 0: 1 with -full or -soak, else 3")
)

var ground = fleettest.NewGround("idc-a", "idc-b")

func TestMain(m *testing.M) {
	flag.Parse()
	if *patienceFlag == 0 {
		*patienceFlag = 3
		if *fullFlag || *soakFlag > 0 {
			*patienceFlag = 1
		}
	}
	code := m.Run()
	if err := ground.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
