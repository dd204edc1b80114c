// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// Duration is a length of time as Go writes it, such as 1m30s. It stays text until it
// is asked for, so that a fault in it is told with its field.
type Duration string

// Value is the length of time; 0 for a text that is none, which Validate refuses.
func (d Duration) Value() time.Duration {
	value, _ := time.ParseDuration(string(d))
	return value
}
