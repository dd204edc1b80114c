// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config is the configuration file. Start with types.go: what it may say, in
// comments that docs/reference/configuration.md is made from. parse.go reads it strictly
// and puts the defaults in place, validate.go says everything that is wrong with it, and
// meaning.go what the fields mean to others. watch.go follows the file, the kubeconfigs
// that it names (judged by package kubeconfig) and the Secrets that are members while
// Tributary runs; the result is a Loaded (loaded.go).
//
// What never happens here: no cluster is contacted, nothing is logged, and no error holds
// a secret. Apart from reading files, every function is pure.
package config
