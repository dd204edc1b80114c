// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tributary.dev/tributary/deploy/mixin"
	"tributary.dev/tributary/e2e/fleet"
)

// variables are what Grafana would put into a query.
var variables = strings.NewReplacer("$__rate_interval", "20s", "$instance", ".*", "$cluster", ".*")

// checkPanels evaluates every query of every dashboard.
func checkPanels(ctx context.Context, server *prometheus) error {
	var failed []error
	queries := 0
	for _, dashboard := range mixin.Dashboards() {
		for panel, exprs := range dashboard.Expressions() {
			for _, expr := range exprs {
				queries++
				if err := hasData(ctx, server, variables.Replace(expr)); err != nil {
					failed = append(failed, fmt.Errorf("%s, panel %q: %w", dashboard.Title, panel, err))
				}
			}
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	fmt.Printf("%d queries of %d dashboards return data\n", queries, len(mixin.Dashboards()))
	return nil
}

// checkAnnotations evaluates the queries of the annotations, on a dashboard that
// shows what came since then: what they mark, a restart and reloads, happened then.
func checkAnnotations(ctx context.Context, server *prometheus, since time.Time) error {
	from := strconv.FormatInt(since.UnixMilli(), 10)
	for name, expr := range mixin.Annotations() {
		err := fleet.Eventually(ctx, limit, func(ctx context.Context) error {
			return hasData(ctx, server, strings.ReplaceAll(variables.Replace(expr), "$__from", from))
		})
		if err != nil {
			return fmt.Errorf("annotation %q: %w", name, err)
		}
	}
	fmt.Printf("%d annotations mark what happened\n", len(mixin.Annotations()))
	return nil
}

func hasData(ctx context.Context, server *prometheus, expr string) error {
	samples, err := server.query(ctx, expr)
	if err != nil {
		return err
	}
	for _, s := range samples {
		if !math.IsNaN(s.number()) {
			return nil
		}
	}
	return fmt.Errorf("no data: %s", expr)
}
