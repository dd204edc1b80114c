// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command haproxy is a receiver of Tributary's sinks: it programs HAProxy through its runtime
// socket. Each Service has the backend NAMESPACE_NAME of haproxy.cfg; a Service without one
// is passed over. Endpoints that are ready become servers. One that is not any more drains:
// it gets no new requests, and goes when it has none left.
//
// See README.md. It needs nothing but the standard library.
package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxBatch bounds a request: Tributary sends about a MiB, and one large Service in any case.
const maxBatch = 64 << 20

func main() {
	listen := flag.String("listen", "127.0.0.1:9450", "`address` at which Tributary's requests are taken")
	socket := flag.String("socket", "/run/haproxy/admin.sock", "`path` of HAProxy's runtime socket, of level admin")
	token := flag.String("token-file", "", "`file` with the token that requests must bear; empty: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, *token, newReceiver(runtimeSocket(*socket))); err != nil {
		slog.Error("cannot serve", "error", err)
		os.Exit(1)
	}
}

// serve accepts requests until ctx is done.
func serve(ctx context.Context, listen, tokenFile string, r *receiver) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group.Go(func() { r.repair(ctx) })
	server := &http.Server{Addr: listen, Handler: handler(r, tokenFile), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second}
	group.Go(func() {
		<-ctx.Done()
		_ = server.Close() // what is not acknowledged is sent again
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// typeInventory is the type of the event that names all Services, as NAMESPACE/NAME: what it
// does not name is gone.
const typeInventory = "dev.tributary.inventory.v1"

// event is what the receiver needs of a CloudEvent. A Service that was deleted has no endpoints.
type event struct {
	Type string `json:"type"`
	Data struct {
		Generation int64      `json:"generation"`
		Namespace  string     `json:"namespace"`
		Name       string     `json:"name"`
		Endpoints  []endpoint `json:"endpoints"`
		Services   []string   `json:"services"`
	} `json:"data"`
}

type endpoint struct {
	Address string `json:"address"`
	Ports   []port `json:"ports"`
	Cluster string `json:"cluster"`
	Ready   bool   `json:"ready"`
}

type port struct {
	Port uint16 `json:"port"`
}

func handler(r *receiver, tokenFile string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !allowed(req, tokenFile) {
			http.Error(w, "the token is not the one expected", http.StatusUnauthorized)
			return
		}
		if req.Method != http.MethodPost || !strings.HasPrefix(req.Header.Get("Content-Type"), "application/cloudevents-batch+json") {
			http.Error(w, "POST a batch of CloudEvents", http.StatusUnsupportedMediaType)
			return
		}
		var events []event
		if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxBatch)).Decode(&events); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := r.take(events); err != nil { // it is sent again, in its newest state
			slog.Error("HAProxy is not as it should be", "error", err)
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func allowed(req *http.Request, tokenFile string) bool {
	if tokenFile == "" {
		return true
	}
	want, err := os.ReadFile(tokenFile)
	if err != nil {
		slog.Error("no token to compare with", "error", err)
		return false
	}
	token := strings.TrimSpace(string(want))
	got, bears := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	return bears && token != "" && subtle.ConstantTimeCompare([]byte(got), []byte(token)) == 1
}
