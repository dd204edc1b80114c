// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"log/slog"
	"sync"

	"k8s.io/client-go/rest"
)

// warnings says each distinct warning of a server once: since 1.33 every answer
// about Endpoints carries one.
type warnings struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[string]bool
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
	return &warnings{log: log, said: map[string]bool{}}
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(code int, _, text string) {
	const miscellaneous = 299 // RFC 7234; the only code that API servers use
	if code != miscellaneous || text == "" {
		return
	}
	text = text[:min(len(text), warningLength)]
	w.mu.Lock()
	news := !w.said[text] && len(w.said) < warningsKept
	if news {
		w.said[text] = true
	}
	w.mu.Unlock()
	if news {
		w.log.Info("server warns", "warning", text)
	}
}
