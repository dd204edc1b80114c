// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// warnings says each distinct warning of a server once. That v1 Endpoints are deprecated,
// with which every answer about them begins since 1.33, is no news to anybody.
type warnings struct {
	log  *slog.Logger
	said sync.Map // texts
	kept atomic.Int32
}

// A server must not fill memory or log with warnings that are all different.
const (
	warningsKept  = 64
	warningLength = 256
)

func newWarnings(log *slog.Logger) rest.WarningHandler {
	if log == nil {
		return rest.NoWarnings{}
	}
	return &warnings{log: log}
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(code int, _, text string) {
	const miscellaneous = 299 // RFC 7234; the only code that API servers use
	if code != miscellaneous || text == "" || strings.HasPrefix(text, "v1 Endpoints is deprecated") {
		return
	}
	text = text[:min(len(text), warningLength)]
	if _, said := w.said.Load(text); said || w.kept.Load() >= warningsKept {
		return
	}
	if _, said := w.said.LoadOrStore(text, true); !said {
		w.kept.Add(1)
		w.log.Info("server warns", "warning", text)
	}
}
