// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"tributary.dev/tributary/deploy/mixin"
)

// variables are what Grafana would put into a query.
var variables = strings.NewReplacer("$__rate_interval", "20s", "$instance", ".*", "$cluster", ".*")

// optional are families of features that this fleet does not use.
var optional = []string{"tributary_native_lag_seconds"}

// checkPanels evaluates every query of every dashboard.
func checkPanels(ctx context.Context, server *prometheus) error {
	var failed []error
	queries, skipped := 0, 0
	for _, dashboard := range mixin.Dashboards() {
		for panel, exprs := range dashboard.Expressions() {
			for _, expr := range exprs {
				if isOptional(expr) {
					skipped++
					continue
				}
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
	fmt.Printf("%d queries of %d dashboards return data (%d are about features not in use here)\n", queries, len(mixin.Dashboards()), skipped)
	return nil
}

func isOptional(expr string) bool {
	for _, family := range optional {
		if strings.Contains(expr, family) {
			return true
		}
	}
	return false
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
