// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/internal/apitest"
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
		data, _ := os.ReadFile(path)
		got, err := kubeconfig.Accept(data, kubeconfig.Request{Path: path, Context: context})
		if err != nil || got.REST.BearerToken != want || got.REST.Host != "https://c" {
			t.Errorf("%q: %v", context, err)
		}
	}
	if err := storeInFile(path, "z", "new"); err == nil || strings.Contains(err.Error(), "other") {
		t.Error(err)
	}
}

// TestTokenThatCannotBeKept: none is asked for where nothing can be written beside the file, and few where keeping fails
// only afterwards; it is said once, with a remedy, and tried again once the place is mended.
func TestTokenThatCannotBeKept(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		name      string
		life      time.Duration
		file      bool
		low, high int
	}{
		{"file that cannot be replaced", 30 * day, true, 0, 0},
		{"refused Secret", 30 * day, false, 24 * 9, 24*10 + 10},
		{"refused Secret, shortest life", 10 * time.Minute, false, 2, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Beside a file whose name is as long as a file system takes, not even root can make one with a longer name.
			access := config.Access{File: filepath.Join(t.TempDir(), strings.Repeat("k", 255))}
			const text = `{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":"old"}}]}`
			if err := os.WriteFile(access.File, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			mended := filepath.Join(t.TempDir(), "k")
			if err := os.WriteFile(mended, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				var (
					logs   bytes.Buffer
					asked  atomic.Int32
					refuse atomic.Bool
					loaded atomic.Pointer[config.Loaded]
				)
				use := func(a config.Access) {
					loaded.Store(&config.Loaded{Config: config.Config{Clusters: []config.Cluster{{Name: "linked"}}}, Members: map[string]config.Access{"linked": a}})
				}
				refuse.Store(!test.file)
				access.REST = &rest.Config{BearerToken: accountToken(time.Now(), test.life)}
				if !test.file {
					access.File, access.Secret = "", "own/linked"
				}
				use(access)
				n := newRenewer(loaded.Load, func() bool { return true }, nil, Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
				n.ask = func(context.Context, *rest.Config, kubeconfig.AccountToken) (string, error) {
					asked.Add(1)
					return accountToken(time.Now(), test.life), nil
				}
				n.keep = func(ctx context.Context, l *config.Loaded, c config.Cluster, token string) error {
					if refuse.Load() {
						return errors.New("forbidden")
					}
					return n.store(ctx, l, c, token)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); n.run(ctx) }()
				mend := min(2*time.Hour, test.life/5)
				time.Sleep(test.life - mend)
				synctest.Wait()
				if said, asked := logs.String(), int(asked.Load()); asked < test.low || asked > test.high || strings.Count(said, "\n") != 1 || !strings.Contains(said, "level=WARN") || !strings.Contains(said, "link the member again") ||
					test.file && !strings.Contains(said, "Secret") || strings.Contains(said, ".sig") {
					t.Errorf("asked for %d tokens; want %d to %d:\n%s", asked, test.low, test.high, said)
				}
				before := asked.Load()
				refuse.Store(false)
				access.File, access.Secret = mended, ""
				use(access)
				time.Sleep(mend - 30*time.Second)
				cancel()
				<-done
				if kept, err := os.ReadFile(mended); err != nil || asked.Load() == before || !strings.Contains(string(kept), ".sig") {
					t.Errorf("mended, and %d more are asked for: %v: %s", asked.Load()-before, err, logs.String())
				}
			})
		})
	}
}

// TestTokenInASecretIsRenewed: by the API of the member, from the Secret of the ingress cluster to the connection that is
// made of it.
func TestTokenInASecretIsRenewed(t *testing.T) {
	first := accountToken(time.Now().Add(-50*time.Minute), time.Hour)
	second := accountToken(time.Now(), time.Hour)
	var asked authenticationv1.TokenRequest
	member := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/n/serviceaccounts/a/token" || r.Header.Get("Authorization") != "Bearer "+first {
			http.Error(w, "", http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(inJSON(r).Body)
		_ = json.Unmarshal(body, &asked)
		answer(w, authenticationv1.TokenRequest{
			TypeMeta: metav1.TypeMeta{Kind: "TokenRequest", APIVersion: "authentication.k8s.io/v1"}, Status: authenticationv1.TokenRequestStatus{Token: second},
		})
	}))
	defer member.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: member.Certificate().Raw}))
	text := fmt.Sprintf(`{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],"users":[{"name":"u","user":{"token":%q}}]}`, member.URL, ca, first)

	ingress := apitest.New(t)
	ingress.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "idc-a"}, Data: map[string][]byte{config.SecretKey: []byte(text), "other": []byte("kept")}})
	path := filepath.Join(t.TempDir(), "tributary.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: tributary.dev/v1alpha1\nkind: Config\nclusters: []\ningress: {kubeconfig: none}\nclustersFrom: {secrets: {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	watcher, err := config.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	loaded := func() *config.Loaded {
		secret, _ := apitest.Get[*corev1.Secret](ingress, "own", "idc-a")
		slim, _ := slimSecret(secret)
		return watcher.Use([]config.Secret{slim})
	}
	client := ingress.Client(t, "tributary")
	n := newRenewer(loaded, func() bool { return true }, func() kubernetes.Interface { return client }, Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	n.renew(t.Context())
	if got := loaded().Members["idc-a"]; got.Err != nil || got.REST == nil || got.REST.BearerToken != second || got.REST.Host != member.URL {
		t.Errorf("the member is reached by %+v", got)
	}
	if secret, _ := apitest.Get[*corev1.Secret](ingress, "own", "idc-a"); string(secret.Data["other"]) != "kept" {
		t.Error("another key of the Secret is lost")
	}
	if asked.Spec.ExpirationSeconds == nil || *asked.Spec.ExpirationSeconds != 3600 {
		t.Errorf("asked for %+v", asked.Spec)
	}
	before := len(ingress.Writes("tributary"))
	n.renew(t.Context()) // the new one has its life before it
	if after := len(ingress.Writes("tributary")); before != 1 || after != before {
		t.Errorf("%d writes, then %d", before, after)
	}
}
