// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import "errors"

// errNoKubeconfig is a member none of whose kubeconfigs was ever accepted.
var errNoKubeconfig = errors.New("no kubeconfig was accepted yet")
