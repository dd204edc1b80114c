// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

// Grade says how far an endpoint is trusted with traffic. Of several reasons the
// lowest grade counts.
type Grade uint8

// The grades, lowest first.
const (
	// NotReady is never published as ready: its kubelet says so.
	NotReady Grade = iota
	// Reserve would be ready but for a doubt; it serves where nobody else does.
	Reserve
	// Ready serves.
	Ready
)

// String names the grade as metrics and explanations do.
func (g Grade) String() string { return [...]string{"not_ready", "reserve", "ready"}[min(g, Ready)] }

// Then is what a rule of the configuration says of the pods that it matches.
type Then uint8

// What a rule can say.
const (
	ThenNothing Then = iota
	ThenReady
	ThenNotReady
	ThenAbsent
	ThenUpstream
)

// Rules are what the configuration says of the pods of one Service: bit i of
// Applies is set where rule i applies to the Service, and the first rule whose bit
// is set both there and in Pod.Matches decides.
type Rules struct {
	Applies uint64
	Then    []Then
}
