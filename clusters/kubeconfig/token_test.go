// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// TestReplaceFile: a failure has the same text at every try, and nothing is left beside the file.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	for name, ok := range map[string]bool{"there": true, "new": true, filepath.Join("gone", "k"): false, strings.Repeat("k", 255): false} {
		path := filepath.Join(dir, name)
		if name == "there" {
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		first := ReplaceFile(path, []byte("new"))
		err := ReplaceFile(path, []byte("new"))
		if (first == nil) != ok || (err == nil) != ok {
			t.Errorf("%s: %v, then %v", name, first, err)
		}
		if !ok && (first.Error() != err.Error() || !strings.Contains(err.Error(), path+", which must not be mounted")) {
			t.Errorf("%v, then %v", first, err)
		}
		if text, _ := os.ReadFile(path); ok && string(text) != "new" {
			t.Errorf("%s holds %q", name, text)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestWithToken(t *testing.T) {
	text := build([]string{"server: https://a"}, []string{"token: " + hidden})
	out, err := WithToken([]byte(text), "", "new")
	if err != nil {
		t.Fatal(err)
	}
	if config, err := clientcmd.RESTConfigFromKubeConfig(out); err != nil || config.BearerToken != "new" || config.Host != "https://a" {
		t.Errorf("%v, %v", config, err)
	}
	for text, want := range map[string]string{
		build([]string{"server: https://a"}, []string{"tokenFile: t"}): "tokenFile", "{}": "no user of context", "a: [" + hidden: "cannot be read",
	} {
		if _, err := WithToken([]byte(text), "", "new"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), hidden) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseAccountToken(t *testing.T) {
	claims := `{"iat":1000,"exp":4000,"kubernetes.io":{"namespace":"tributary","serviceaccount":{"name":"reader"}}}`
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	got, ok := ParseAccountToken(token(claims))
	if !ok || got.Namespace != "tributary" || got.Account != "reader" || got.RenewAt().Unix() != 3000 {
		t.Errorf("%+v, %t", got, ok)
	}
	for _, other := range []string{"", "password", "a.b.c", token("{}"), token(strings.Replace(claims, `"exp":4000,`, "", 1)), token(strings.Replace(claims, "reader", "", 1))} {
		if got, ok := ParseAccountToken(other); ok {
			t.Errorf("%s: %+v", other, got)
		}
	}
}

// jwt is a token that expires then, with no valid signature.
func jwt(end int64) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, end)) + ".c2ln"
}

func TestExpires(t *testing.T) {
	_, certificate, _ := certificates(t)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, test := range map[string]struct {
		access rest.Config
		want   int64 // 0: it does not say
	}{
		"nothing":             {rest.Config{}, 0},
		"an opaque token":     {rest.Config{BearerToken: "hunter2"}, 0},
		"a token":             {rest.Config{BearerToken: jwt(1000)}, 1000},
		"a token without end": {rest.Config{BearerToken: "e30.e30.c2ln"}, 0},
		"a token of garbage":  {rest.Config{BearerToken: "a.!.b"}, 0},
		"an absurd end":       {rest.Config{BearerToken: jwt(1 << 62)}, 0},
		"a token's file":      {rest.Config{BearerToken: jwt(1), BearerTokenFile: file(jwt(1000) + "\n")}, 1000},
		"a certificate":       {rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: certificate}}, 1 << 32},
		"the first of both":   {rest.Config{BearerToken: jwt(1 << 33), TLSClientConfig: rest.TLSClientConfig{CertData: certificate}}, 1 << 32},
	} {
		got := Expires(&test.access)
		if test.want == 0 && !got.IsZero() || test.want != 0 && got.Unix() != test.want {
			t.Errorf("%s: %v; want %d", name, got, test.want)
		}
	}
}
