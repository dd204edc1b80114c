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

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/internal/mixin"
)

// chartFiles are the alerts and dashboards.
const chartFiles = "../deploy/helm/tributary/files"

// variables are what Grafana would put into a query.
var variables = strings.NewReplacer("$__rate_interval", "20s", "$instance", ".*", "$cluster", ".*")

// checkPanels evaluates every query of every dashboard.
func checkPanels(ctx context.Context, server *prometheus) error {
	var failed []error
	queries := 0
	dashboards, err := mixin.Dashboards(chartFiles)
	if err != nil {
		return err
	}
	for _, dashboard := range dashboards {
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				queries++
				if err := hasData(ctx, server, variables.Replace(target.Expr)); err != nil {
					failed = append(failed, fmt.Errorf("%s, panel %q: %w", dashboard.Title, panel.Title, err))
				}
			}
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	fmt.Printf("%d queries of %d dashboards return data\n", queries, len(dashboards))
	return nil
}

// checkAnnotations evaluates the queries of the annotations since a time: what they
// mark, a restart and reloads, has happened since.
func checkAnnotations(ctx context.Context, server *prometheus, since time.Time) error {
	from := strconv.FormatInt(since.UnixMilli(), 10)
	dashboards, err := mixin.Dashboards(chartFiles)
	if err != nil {
		return err
	}
	for _, dashboard := range dashboards {
		for _, annotation := range dashboard.Annotations.List {
			err := fleet.Eventually(ctx, limit, func(ctx context.Context) error {
				return hasData(ctx, server, strings.ReplaceAll(variables.Replace(annotation.Expr), "$__from", from))
			})
			if err != nil {
				return fmt.Errorf("%s, annotation %q: %w", dashboard.Title, annotation.Name, err)
			}
		}
	}
	fmt.Println("the annotations mark what happened")
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
