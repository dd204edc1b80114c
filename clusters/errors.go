// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import "errors"

// ErrOtherCluster is another cluster at a member's address. Nothing it shows is
// used; the member keeps what it contributed last.
var ErrOtherCluster = errors.New("another cluster answers")

// ErrWentBack is a member whose revisions are lower than they were, as after its
// etcd was restored from a backup.
var ErrWentBack = errors.New("the cluster went back in time")

// errNoKubeconfig is a member none of whose kubeconfigs was ever accepted.
var errNoKubeconfig = errors.New("no kubeconfig was accepted yet")
