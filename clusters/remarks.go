// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// remarks say what is wrong with resources that a member can do without. Safe for
// concurrent use.
type remarks struct {
	log *slog.Logger
	all sync.Map // from resource to text, which may be empty
}

// remark keeps what is wrong with a resource; "" takes it back.
func (r *remarks) remark(resource, text string) {
	if before, _ := r.all.Swap(resource, text); cmp.Or(before, any("")) != text {
		r.log.Info("cluster is read in part", "resource", resource, "remark", cmp.Or(text, "can be read"))
	}
}

// mostNamed is how many namespaces a remark names.
const mostNamed = 10

// leftOut keeps in which namespaces a resource may not be read, or cannot.
func (r *remarks) leftOut(resource string, leftOut, failing []string) {
	refused := slices.DeleteFunc(slices.Clone(leftOut), func(name string) bool { return slices.Contains(failing, name) })
	text := ""
	if len(refused) > 0 {
		text = "may not be listed and watched in " + someOf(refused) +
			": what is known there stays. Grant list and watch by a Role, or take the namespace out of namespaces.include"
	}
	r.remark(resource+" of named namespaces", text)
	if text = ""; len(failing) > 0 {
		text = "cannot be listed and watched in " + someOf(failing) + ": what is known there stays, and it is tried again"
	}
	r.remark(resource+" of namespaces that fail", text)
}

func someOf(namespaces []string) string {
	if n := len(namespaces); n > mostNamed {
		return fmt.Sprintf("%s and %d more namespaces", strings.Join(namespaces[:mostNamed], ", "), n-mostNamed)
	}
	return strings.Join(namespaces, ", ")
}

// forget drops a remark about what is not asked for any more.
func (r *remarks) forget(resource string) { r.all.Delete(resource) }

// list returns the remarks, sorted.
func (r *remarks) list() (all []string) {
	r.all.Range(func(resource, text any) bool {
		if text != "" {
			all = append(all, fmt.Sprint(resource, " ", text))
		}
		return true
	})
	slices.Sort(all)
	return all
}
