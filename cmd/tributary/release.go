// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/syncer"
)

// releaseTimeout bounds the whole request.
const releaseTimeout = 30 * time.Second

// releaseCommand lets go of what a running instance holds back for a member.
func releaseCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := newFlagSet("release", "--cluster C [flags]",
		"Let pass what a running instance holds back for a member, because it looked like a mistake.\nRun it where the instance runs.", stderr)
	server := addServerFlag(fs)
	cluster := fs.String("cluster", "", "the `member` whose held changes are to pass (required)")
	service := fs.String("service", "", "only those of one replica, `namespace/name`; without it all of them, and a panic ends")
	if code, done := parseFlags(fs, args, stdout, stderr); done {
		return code
	}
	failed := func(err error, code int) int {
		fmt.Fprintf(stderr, "tributary release: %v\n", err)
		return code
	}
	if *cluster == "" {
		return failed(errors.New("--cluster is missing; \"tributary status\" shows what is held, and for which member"), exitUsage)
	}
	if _, ok := syncer.ParseKey(*service); *service != "" && !ok {
		return failed(fmt.Errorf("--service: %q is not namespace/name", *service), exitUsage)
	}
	source, err := newInstance(*server)
	if err != nil {
		return failed(err, exitUsage)
	}
	defer source.close()
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	query := url.Values{"cluster": {*cluster}}
	if *service != "" {
		query.Set("service", *service)
	}
	body, err := source.post(ctx, app.ReleasePath, query, http.Header{app.ReleaseHeader: {"1"}})
	if err != nil {
		return failed(err, exitFailed)
	}
	defer body.Close()
	var done app.Released
	if err := json.NewDecoder(io.LimitReader(body, maxComplaint)).Decode(&done); err != nil {
		return failed(fmt.Errorf("read the answer: %w; is the server a tributary of this version?", err), exitFailed)
	}
	if _, err := fmt.Fprintln(stdout, releasedText(done)); err != nil {
		return failed(fmt.Errorf("print: %w", err), exitFailed)
	}
	return exitOK
}

// releasedText says what was released.
func releasedText(r app.Released) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{r.Pods, "pods that lists lack"}, {r.Services, "Services that lists lack"},
		{r.Written, "hand-written endpoints that lists lack"}, {r.NotReady, "pods that are not ready"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if r.FirstLists {
		parts = append(parts, "the first lists are believed")
	}
	if len(parts) == 0 {
		return "nothing was held"
	}
	return "released: " + strings.Join(parts, ", ")
}
