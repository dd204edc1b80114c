// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// Expires is when the credential of a client configuration ends: its client certificate
// or its token, whichever is first. Zero: neither says, or comes from a program. A token
// file is read; one that cannot be read does not say.
func Expires(access *rest.Config) time.Time {
	token := access.BearerToken
	if access.BearerTokenFile != "" {
		if text, err := os.ReadFile(access.BearerTokenFile); err == nil {
			token = string(text)
		}
	}
	var first time.Time
	if certs, err := cert.ParseCertsPEM(access.CertData); err == nil {
		first = certs[0].NotAfter // the client's own
	}
	if end := tokenEnd(token); first.IsZero() || !end.IsZero() && end.Before(first) {
		first = end
	}
	return first
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
