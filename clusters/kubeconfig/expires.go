// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Expires is when the credential of an accepted kubeconfig ends: its client
// certificate or its token, whichever is first. Zero: neither says. Files that the
// kubeconfig names are read; one that cannot be read does not say.
func Expires(access *rest.Config) time.Time {
	certificate, token := access.CertData, access.BearerToken
	if len(certificate) == 0 && access.CertFile != "" {
		certificate, _ = os.ReadFile(access.CertFile)
	}
	if access.BearerTokenFile != "" {
		if text, err := os.ReadFile(access.BearerTokenFile); err == nil {
			token = string(text)
		}
	}
	first := certificateEnd(certificate)
	if end := tokenEnd(token); first.IsZero() || !end.IsZero() && end.Before(first) {
		first = end
	}
	return first
}

// certificateEnd is when the first certificate of a PEM text ends, which is the
// client's own.
func certificateEnd(text []byte) time.Time {
	block, _ := pem.Decode(text)
	if block == nil {
		return time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return certificate.NotAfter
}

// tokenEnd is when a JSON Web Token ends (RFC 7519, section 4.1.4). It is not verified:
// that is for the server.
func tokenEnd(token string) time.Time {
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if !readClaims(token, &claims) || claims.Exp <= 0 || claims.Exp > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0).UTC()
}

// readClaims reads what a JSON Web Token says; false for another token.
func readClaims(token string, into any) bool {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(text, into) == nil
}
