// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install has the test that installs Tributary as docs/install.md says: every command of the page, in its
// order, with real helm and kubectl, against real API servers with RBAC on.
package install
