// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config is the configuration file: what it may say (types.go,
// cluster.go, replicas.go, readiness.go, rules.go, secrets.go, sinks.go), how it
// is read (load.go), what makes it wrong (validate.go), which Services it lets
// through (placement.go), what an edit changes (diff.go) and how an edit is
// noticed while Tributary runs (watch.go). The kubeconfigs that the file names
// are judged by package kubeconfig.
//
// docs/reference/configuration.md is generated from the comments of these types: they are
// written for users.
//
// What never happens here: no cluster is contacted, nothing is logged, and no
// error holds a secret. Apart from reading files, every function is pure.
package config
