// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// mostNamed bounds how many names an error lists of what exists.
const mostNamed = 8

// listed are names for an error.
func listed(names []string) string {
	if len(names) == 0 {
		return "there is none"
	}
	text := "there are " + strings.Join(names[:min(len(names), mostNamed)], ", ")
	if more := len(names) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// noMember says that an instance has none of a name, and which it has. Members that are Secrets are not known before the
// ingress cluster was listed.
func noMember(name string, s *metrics.Status) error {
	if s.Leader.Phase == "waiting" || s.Leader.Phase == "listing" {
		return failedf("%q is no member of the configuration file; the Secrets that are members are not known, for the ingress cluster has not been listed yet", name)
	}
	return failedf("member %q not found; %s", name, listed(members(s)))
}

// members are the names of an instance's members, and of the orphans that stand beside them.
func members(s *metrics.Status) (names []string) {
	for i := range s.Clusters {
		names = append(names, s.Clusters[i].Name)
	}
	for i := range s.Orphans {
		names = append(names, s.Orphans[i].Cluster)
	}
	return names
}

// exists is an error if a name is none of those of an instance; nil for "".
func exists(ctx context.Context, from *instanceFlags, name string, names func(*metrics.Status) []string, missing func(string, *metrics.Status) error) error {
	if name == "" {
		return nil
	}
	s, err := from.status(ctx)
	if err != nil || slices.Contains(names(s), name) {
		return err
	}
	return missing(name, s)
}

func memberExists(ctx context.Context, from *instanceFlags, name string) error {
	return exists(ctx, from, name, members, noMember)
}

func noSink(name string, s *metrics.Status) error {
	return failedf("sink %q not found; %s", name, listed(sinkNames(s)))
}

func sinkNames(s *metrics.Status) (names []string) {
	for i := range s.Sinks {
		names = append(names, s.Sinks[i].Name)
	}
	return names
}

// serviceExists is an error if no member has a Service that belongs to a replica, and nothing of its name stands; nil for
// nil, and where the instance cannot tell, as one of another version.
func serviceExists(ctx context.Context, from *instanceFlags, replica *syncer.Key) error {
	if replica == nil {
		return nil
	}
	e, err := ask[app.Explanation](ctx, from, app.ExplainPath, url.Values{"service": {replica.String()}})
	if err != nil {
		return nil
	}
	return anythingToExplain(ctx, from, e)
}

// anythingToExplain is an error if there is nothing to explain.
func anythingToExplain(ctx context.Context, from *instanceFlags, e *app.Explanation) error {
	if e.Stands.Service != "none" || slices.ContainsFunc(e.Members, func(m app.ExplainedMember) bool { return len(m.Services) > 0 }) {
		return nil
	}
	names := []string{}
	if all, err := ask[app.Explainable](ctx, from, app.ExplainPath, nil); err == nil {
		names = slices.DeleteFunc(all.Services, func(name string) bool { return !strings.HasPrefix(name, e.Namespace+"/") })
	}
	unread := ""
	for _, m := range e.Members {
		if !m.Synced {
			unread = " that was read"
		}
	}
	return failedf("Service %q not found: no member%s has it, and nothing of that name stands in the ingress cluster; in namespace %s %s",
		e.Namespace+"/"+e.Name, unread, e.Namespace, listed(names))
}
