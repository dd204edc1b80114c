// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs real Kubernetes control planes on 127.0.0.1 for tests, demonstrations and measurements: one etcd
// and one kube-apiserver a cluster, and, where a scenario wants it, the real kube-controller-manager. There is no
// scheduler and no kubelet: the creator of a pod sets its node and patches its status (package fleet does).
//
// The servers come from one executable, built from Go modules on first use and stored in the user's cache directory
// (Binary). They are ordinary child processes, so that every fault is the real one: killed, frozen, restarted on the
// same port and the same data, restored to an older revision.
//
// The package never writes into the source tree or opens a port beyond the loopback interface, and no server outlives
// the process that started it, not even if that process is killed (see spawn.go).
//
// The package knows nothing about Tributary.
package cluster
