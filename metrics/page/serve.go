// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// shutdownTimeout is how long answers in flight may take once Serve has to end.
const shutdownTimeout = 2 * time.Second

// Serve serves the handler on the listener until ctx is done; then it ends the
// streams, lets short answers finish and returns nil. It owns the listener and
// returns only when no handler runs any more.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, logger *slog.Logger) error {
	// Handlers hold gate for reading; once Serve has locked it none begins.
	var gate sync.RWMutex
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !gate.TryRLock() {
				panic(http.ErrAbortHandler)
			}
			defer gate.RUnlock()
			handler.ServeHTTP(w, r)
		}),
		// Streams end with ctx: their requests' contexts descend from it. No
		// ReadTimeout: net/http would end a stream with it.
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()

	select {
	case err := <-failed:
		_ = server.Close()
		gate.Lock()
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
	}
	err := <-failed
	gate.Lock()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}
