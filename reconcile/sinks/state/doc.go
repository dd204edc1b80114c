// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state keeps what receivers acknowledged in ConfigMaps of Tributary's own
// namespace, so that the next process, or the next leader, tells only what differs.
//
// One object is the head: which receiver it is, which generations may have been given, and
// of which Services something else may have been told than the rest says. The others hold a
// share of the Services each. They are written at a pace, changed ones alone; the head,
// also before something is told of a Service that it does not name yet. So what was told
// and never written down is known to be in doubt.
//
// What never happens here: nothing but the ConfigMaps of one sink of one installation is
// read or written, and no object that does not carry its labels.
package state
