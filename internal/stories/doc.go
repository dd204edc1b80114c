// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stories plays tests that are written as text, so that rules can be read, and
// added to, without Go.
//
// A newcomer starts at Play (stories.go). A file of testdata/stories has stories, "== title"
// each, of steps with an empty line between. The lines of a step say what changes, in terms
// of the package under test; the results follow in lines that begin with ">". What never
// happens here: a rule of Tributary; and no program imports this package, only tests do.
package stories
