// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/cmd/tributary/internal/app"
)

// releaseTimeout bounds the whole request.
const releaseTimeout = 30 * time.Second

// newReleaseCommand lets go of what a running instance holds back for a member.
func newReleaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "release --cluster C", Short: "Let pass what a running instance holds back for a member", Args: noArguments,
		Long:    "Let pass what a running instance holds back for a member, because it looked like a mistake.\nRun it where the instance runs, or with --context.",
		Example: "  tributary release --cluster idc-a\n  tributary release --cluster idc-a --service shop/web --context ingress",
	}
	from := addInstanceFlags(cmd)
	cluster := addClusterFlag(cmd, "the member whose held changes are to pass (required)")
	service := addServiceFlag(cmd, "only those of one replica; without it all of them, and a panic ends")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *cluster == "" {
			return misused(errors.New("--cluster is missing; \"tributary status\" shows what is held, and for which member"))
		}
		if _, err := parseService(*service); err != nil {
			return err
		}
		query := url.Values{"cluster": {*cluster}}
		if *service != "" {
			query.Set("service", *service)
		}
		done, err := tell[app.Released](cmd.Context(), from, app.ReleasePath, query)
		if refused, ok := errors.AsType[*complaint](err); ok && refused.status == http.StatusBadRequest {
			return cmp.Or(memberExists(cmd.Context(), from, *cluster), failed(refused))
		}
		if err != nil {
			return err
		}
		text := releasedText(*done)
		if text == "" {
			if text, err = stillHeld(cmd.Context(), from, done); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		return failed(err)
	}
	return cmd
}

// stillHeld says what is held of what was meant, and passes by other means than a release.
func stillHeld(ctx context.Context, from *instanceFlags, asked *app.Released) (string, error) {
	s, err := from.status(ctx)
	if err != nil {
		return "", err
	}
	var held []string
	for _, h := range s.Held {
		if of := strings.Trim(h.Namespace+"/"+h.Service, "/"); h.Cluster == asked.Cluster && (asked.Service == "" || of == asked.Service) {
			held = append(held, strings.TrimSpace(h.Reason+" "+of))
		}
	}
	if len(held) == 0 {
		return "nothing was held", nil
	}
	return "nothing that a release lets pass; held still: " + strings.Join(held, ", ") + "; \"tributary status\" says what each waits for", nil
}

// releasedText says what was released; "" if nothing was.
func releasedText(r app.Released) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{r.Pods, "pods that lists lack"}, {r.Services, "Services that lists lack"},
		{r.Manual, "hand-written endpoints that lists lack"}, {r.Standing, "endpoints that stood before the start"},
		{r.NotReady, "pods that are not ready"}, {r.Ruled, "endpoints that rules take away"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "released: " + strings.Join(parts, ", ")
}
