// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"slices"
	"strings"
)

// Request is what a request asks of an apiserver.
type Request struct {
	// Verb is get, list, watch, create, update, patch or delete; empty when the path
	// names no resource.
	Verb                      string
	Resource, Namespace, Name string
	// Resumes: a watch that goes on from a revision, not one that begins with a list.
	Resumes bool
}

// parse reads a request. Groups and subresources do not matter here.
func parse(r *http.Request) (q Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return q
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		q.Namespace, parts = parts[1], parts[2:]
	}
	q.Resource = parts[0]
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	query := r.URL.Query()
	switch watch := query.Get("watch"); {
	case r.Method == http.MethodGet && (watch == "true" || watch == "1"):
		q.Verb = "watch"
		q.Resumes = query.Get("sendInitialEvents") == "" && query.Get("resourceVersion") != ""
	case r.Method == http.MethodGet && q.Name == "":
		q.Verb = "list"
	default:
		q.Verb = map[string]string{
			http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
		}[r.Method]
	}
	return q
}

// Match chooses requests.
type Match func(Request) bool

// Gets matches what reads single objects of the resources.
func Gets(resources ...string) Match { return match(resources, "get") }

// Writes matches what changes one of the resources, all of them if none is given.
func Writes(resources ...string) Match {
	return match(resources, "create", "update", "patch", "delete")
}

// Lists matches what reads whole lists of the resources: lists, and watches that
// begin with one.
func Lists(resources ...string) Match {
	return func(q Request) bool {
		return match(resources, "list")(q) || match(resources, "watch")(q) && !q.Resumes
	}
}

// Watches matches the watches of the resources.
func Watches(resources ...string) Match { return match(resources, "watch") }

// Resumes matches the watches that go on from a revision.
func Resumes(resources ...string) Match {
	return func(q Request) bool { return match(resources, "watch")(q) && q.Resumes }
}

func match(resources []string, verbs ...string) Match {
	return func(q Request) bool {
		return slices.Contains(verbs, q.Verb) && (len(resources) == 0 || slices.Contains(resources, q.Resource))
	}
}
