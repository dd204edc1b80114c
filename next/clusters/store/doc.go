// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store holds what one member cluster shows, in the least memory that
// the rules need, and answers two questions at a cost that does not depend on
// the size of the namespace: which replicas may have changed by this event, and
// what does this member give to that replica.
package store
