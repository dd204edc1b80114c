// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
)

// wholeCertificates reports whether the text is one certificate or more, each
// whole. Go's own certificate pool would be content with the first and pass over
// one that is cut off.
func wholeCertificates(text []byte) bool {
	count := 0
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return count > 0 && !bytes.Contains(text, []byte("-----BEGIN"))
		}
		// Blocks of other types are passed over, as the pool does.
		if block.Type == "CERTIFICATE" {
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				return false
			}
			count++
		}
		text = rest
	}
}

// pairs reports whether both are PEM and belong together.
func pairs(certificate, key []byte) bool {
	_, err := tls.X509KeyPair(certificate, key)
	return err == nil
}
