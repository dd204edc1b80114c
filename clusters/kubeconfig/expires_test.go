// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// jwt is a token that ends then; its signature is nobody's.
func jwt(end int64) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, end)) + ".c2ln"
}

func TestExpires(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(2000, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
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
		"a certificate":       {rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: certificate}}, 2000},
		"the first of both":   {rest.Config{BearerToken: jwt(3000), TLSClientConfig: rest.TLSClientConfig{CertData: certificate}}, 2000},
	} {
		got := Expires(&test.access)
		if test.want == 0 && !got.IsZero() || test.want != 0 && got.Unix() != test.want {
			t.Errorf("%s: %v; want %d", name, got, test.want)
		}
	}
}
