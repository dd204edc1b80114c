// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kubeconfig"
)

// accountToken is a token as the TokenRequest API gives it.
func accountToken(issued time.Time, life time.Duration) string {
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"kubernetes.io":{"namespace":"n","serviceaccount":{"name":"a"}}}`, issued.Unix(), issued.Add(life).Unix())
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
}

// TestTokensAreRenewedInTime: in the last third of their life, tried again while that fails, and no token is logged.
func TestTokensAreRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			logs   bytes.Buffer
			asked  []time.Duration
			kept   int
			leads  atomic.Bool
			start  = time.Now()
			access = config.Access{REST: &rest.Config{BearerToken: accountToken(start, time.Hour)}}
		)
		loaded := &config.Loaded{
			Config:  config.Config{Clusters: []config.Cluster{{Name: "linked"}, {Name: "password"}}},
			Members: map[string]config.Access{"linked": access, "password": {REST: &rest.Config{BearerToken: "x"}}},
		}
		leads.Store(true)
		n := newRenewer(func() *config.Loaded { return loaded }, leads.Load, nil, Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		n.ask = func(context.Context, *rest.Config, kubeconfig.AccountToken) (string, error) {
			asked = append(asked, time.Since(start))
			if len(asked) < 3 {
				return "", errors.New("refused")
			}
			return accountToken(time.Now(), time.Hour), nil
		}
		n.keep = func(_ context.Context, _ *config.Loaded, c config.Cluster, token string) error {
			kept++
			loaded.Members[c.Name] = config.Access{REST: &rest.Config{BearerToken: token}}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); n.run(ctx) }()
		time.Sleep(80 * time.Minute)
		leads.Store(false)
		time.Sleep(80 * time.Minute)
		cancel()
		<-done
		if len(asked) != 3 || kept != 1 || asked[0] < 40*time.Minute || asked[0] > 42*time.Minute || asked[2]-asked[0] != 2*time.Minute {
			t.Errorf("asked after %v, kept %d", asked, kept)
		}
		if text := logs.String(); strings.Contains(text, ".sig") || strings.Count(text, "not renewed") != 1 || strings.Count(text, "token renewed") != 1 {
			t.Error(text)
		}
	})
}

// TestTokenInAFile: the rest of the kubeconfig stays as it is.
func TestTokenInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	const before = `{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}},{"name":"y","context":{"cluster":"c","user":"v"}}],
"clusters":[{"name":"c","cluster":{"server":"https://c"}}],"users":[{"name":"u","user":{"token":"old"}},{"name":"v","user":{"token":"other"}}]}`
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := storeInFile(path, "", "new"); err != nil {
		t.Fatal(err)
	}
	for context, want := range map[string]string{"": "new", "x": "new", "y": "other"} {
		got, err := kubeconfig.Load(kubeconfig.Request{Path: path, Context: context})
		if err != nil || got.REST.BearerToken != want || got.REST.Host != "https://c" {
			t.Errorf("%q: %v", context, err)
		}
	}
	if err := storeInFile(path, "z", "new"); err == nil || strings.Contains(err.Error(), "other") {
		t.Error(err)
	}
}
