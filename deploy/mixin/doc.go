// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mixin makes what an operator's Prometheus and Grafana load: alerts
// and dashboards.
//
// A newcomer starts at Dashboards (oncall.go, synclag.go) and Alerts
// (alerts.go); panel.go and grafana.go turn the former into Grafana's JSON,
// render.go both into the files under deploy/ that are committed:
//
//	go test ./deploy/... -update
//
// Its tests compare every query with the table of families, and every alert
// with its section in docs/operations.md. It is not part of the tributary binary.
package mixin
