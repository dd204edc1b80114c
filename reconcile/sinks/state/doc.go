// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state keeps what receivers acknowledged in ConfigMaps of Tributary's own
// namespace, so that the next process, or the next leader, tells only what differs.
//
// A newcomer starts at Keeper (keeper.go). encode.go has what is written, objects.go how.
//
// One object is the head: which receiver it is, which generations may have been given, and
// of which Services something else may have been told than the rest says. The others hold a
// share of the Services each. They are written at a pace, changed ones alone; the head,
// also before something is told of a Service that it does not name yet. So what was told
// and never written down is known to be in doubt. A head that no ConfigMap takes (for want of
// rights, by a quota or a policy) goes to a Lease, which whoever leads may write, and stays
// there until the ConfigMaps are written again; what either names is in doubt.
//
// What never happens here: nothing but the objects of one sink of one installation is read or
// written, and none that does not carry its labels; and no ConfigMap is replaced before it
// could be read.
package state
