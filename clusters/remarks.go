// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// remarks say what is wrong with resources that a member can do without. Safe for
// concurrent use.
type remarks struct {
	log *slog.Logger

	mu  sync.Mutex
	all map[string]string // by resource
}

func newRemarks(log *slog.Logger) *remarks { return &remarks{log: log, all: map[string]string{}} }

// remark keeps what is wrong with a resource; "" takes it back.
func (r *remarks) remark(resource, text string) {
	r.mu.Lock()
	news := r.all[resource] != text
	if text == "" {
		delete(r.all, resource)
	} else {
		r.all[resource] = text
	}
	r.mu.Unlock()
	if news {
		r.log.Info("cluster is read in part", "resource", resource, "remark", cmp.Or(text, "can be read"))
	}
}

// forget drops a remark about what is not asked for any more.
func (r *remarks) forget(resource string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, resource)
}

// list returns the remarks, sorted.
func (r *remarks) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, resource := range slices.Sorted(maps.Keys(r.all)) {
		all = append(all, resource+" "+r.all[resource])
	}
	return all
}
