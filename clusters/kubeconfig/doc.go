// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig turns kubeconfigs into client configurations. Start with read.go.
//
// clientcmd reads them. A kubeconfig is code, though: it can run programs, read files and
// send credentials to other hosts. An operator's own file may do all that, and which
// program it runs is reported (Accepted.Note). One that comes from a Secret was written by
// whoever may write that Secret, so it may hold an address, certificates and a token, and
// nothing else (refuse). token.go is what tokens say, for their renewal.
//
// What never happens here: no cluster is contacted, nothing is logged, and no error
// quotes what a kubeconfig holds, other than the names of contexts, clusters and users:
// clientcmd's own errors can hold tokens and keys, so they are never passed on.
package kubeconfig
