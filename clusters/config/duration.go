// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// Duration is a length of time as it is written in the file: a number with a unit,
// such as 500ms, 30s or 1h30m.
type Duration string

// Value is the length. What is not valid counts as none; Validate reports it.
func (d Duration) Value() time.Duration {
	v, err := time.ParseDuration(string(d))
	if err != nil {
		return 0
	}
	return v
}
