// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import "tributary.dev/tributary/syncer"

// sourceTime is when the member says that what an event shows of a pod began, in Unix
// seconds: its deletion, or another readiness. 0 where it shows neither, and of a pod that
// was not known: nobody knows then which of its times is news. was is the pod as it was
// taken before, nil if it was not. It is pure.
//
// A late heartbeat of a node makes the time of a readiness go backwards, which tells
// nothing of the event.
func sourceTime(was, is *syncer.Pod) int64 {
	switch {
	case was == nil || was.UID != is.UID:
		return 0
	case is.Terminating() && !was.Terminating():
		return is.Deleted
	case is.ReadySince > was.ReadySince && was.ReadySince != 0:
		return is.ReadySince
	}
	return 0
}
