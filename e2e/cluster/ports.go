// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "tributary.dev/tributary/e2e/cluster/reserve"

// FreePort returns a TCP port of 127.0.0.1 on which nobody listens. It stays reserved for this process until that ends.
func FreePort() (int, error) { return reserve.Port() }
