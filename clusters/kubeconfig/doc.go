// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig decides which kubeconfig files are accepted and turns an
// accepted one into a client configuration.
//
// A kubeconfig is code: it can run programs, read files, and send credentials
// to other hosts. Whoever may write the Secret that holds it would gain the same
// on the machine that reads it. So an address, a CA and an inline credential are
// accepted; everything else is refused unless the configuration allows that
// feature by name (feature.go).
//
// The file is decoded into clientcmd's types, judged here, and what is left of it turned
// into a client configuration by clientcmd. It is not read by clientcmd for two reasons:
// all faults are told with their places, and clientcmd's errors can quote tokens and
// keys. No error, String method or hash of this package reveals a value of the file
// other than the names of contexts, clusters and users.
package kubeconfig
