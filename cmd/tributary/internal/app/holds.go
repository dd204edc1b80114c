// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// standing returns, by replica, the endpoints of a member that stand in the ingress
// cluster: the first lists of the member are judged by them.
func (r *App) standing(cluster string) map[syncer.Key]clusters.Standing {
	session := r.ingress.Load()
	if session == nil {
		return nil
	}
	standing := map[syncer.Key]clusters.Standing{}
	for replica, s := range session.reconciler.Standing(cluster) {
		standing[replica] = clusters.Standing(s)
	}
	return standing
}

// heldChanges are the holds of a member as the status shows them.
func heldChanges(m *clusters.Status) []metrics.HeldChange {
	var out []metrics.HeldChange
	for _, h := range m.Holds {
		c := metrics.HeldChange{
			Namespace: h.Replica.Namespace, Service: h.Replica.Name, Cluster: m.Name, Reason: string(h.Reason),
			Message: h.Message, Since: utc(h.Since), Release: releaseHint(m.Name, h),
		}
		if h.Confirming {
			c.Message += "; it is being asked for"
		}
		out = append(out, c)
	}
	return out
}

// releaseHint is the command that lets a held change pass.
func releaseHint(cluster string, h clusters.Hold) string {
	hint := "tributary release --cluster " + Quoted(cluster)
	if h.Replica != (syncer.Key{}) {
		hint += " --service " + Quoted(h.Replica.String())
	}
	return hint
}

// Quoted is a word for a shell: names of a hostile member need not be names.
func Quoted(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:@%+=") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
