// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// shutdownTimeout is how long answers in flight may take once Serve has to end.
	shutdownTimeout = 2 * time.Second
	// pageTimeout is how long one answer may take to reach its reader; a stream extends it by itself.
	pageTimeout = 30 * time.Second
)

// Serve serves the handler on the listener, which it owns, until ctx is done; then it ends the
// streams, lets short answers finish and returns nil.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, logger *slog.Logger) error {
	server := &http.Server{
		Handler: handler,
		// Streams end with ctx: their requests' contexts descend from it. No
		// ReadTimeout: net/http would end a stream with it.
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      pageTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		_ = server.Close()
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
	}
	<-ended
	return nil
}
