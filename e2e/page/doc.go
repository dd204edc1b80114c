// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page tests Tributary's page for people (the one at /) as a reader sees it: in a browser, at the width of a
// phone and of a desktop, light and dark, with and without JavaScript.
//
// fleet.go makes up a fleet and its changes, so that no cluster is needed; browser.go starts a headless Chromium and
// talks to it over the DevTools protocol, through a pipe. The tests have the build tag "chromium", because they need
// that browser: `make page` runs them, and a plain `go test` does not.
package page
