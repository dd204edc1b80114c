// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard decides how far a member may be believed when it seems to lose
// endpoints. That something is not in a list any more, or that most pods turned
// not ready at once, is weaker evidence than a deletion that was seen; the more
// of a member it would take away, the more has to speak for it.
//
// Limits.Judge (judge.go) is the rule for lists, Looks (looks.go) remembers what
// the lists before lacked, Readiness (readiness.go) watches pods that turn not
// ready. All are values and methods without a clock, a goroutine or a lock: the
// moment is an argument. Package clusters owns the locks, keeps the objects, reads
// lists again, and lets go of what an operator releases.
//
// What never happens here: a deletion that was seen is held back.
package guard
