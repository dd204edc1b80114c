// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// TestReplaceFile: what Replaceable says beforehand is what ReplaceFile does, with the same
// words at every try, and neither leaves anything beside the file.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	for name, ok := range map[string]bool{"there": true, "new": true, filepath.Join("gone", "k"): false, strings.Repeat("k", 255): false} {
		path := filepath.Join(dir, name)
		if name == "there" {
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := Replaceable(path)
		err := ReplaceFile(path, []byte("new"))
		if (before == nil) != ok || (err == nil) != ok {
			t.Errorf("%s: %v, then %v", name, before, err)
		}
		if !ok && (before.Error() != err.Error() || !strings.Contains(err.Error(), path+", which must not be mounted")) {
			t.Errorf("%v, then %v", before, err)
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
	claims := `{"iat":1000,"exp":4000,"kubernetes.io":{"namespace":"tributary","serviceaccount":{"name":"reader","uid":"u"}}}`
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	got, ok := ParseAccountToken(token(claims))
	if !ok || got.Namespace != "tributary" || got.Account != "reader" || got.UID != "u" || got.RenewAt().Unix() != 3000 {
		t.Errorf("%+v, %t", got, ok)
	}
	for _, other := range []string{"", "password", "a.b.c", token("{}"), token(strings.Replace(claims, `"exp":4000,`, "", 1)), token(strings.Replace(claims, "reader", "", 1))} {
		if got, ok := ParseAccountToken(other); ok {
			t.Errorf("%s: %+v", other, got)
		}
	}
}
