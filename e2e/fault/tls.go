// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"tributary.dev/tributary/e2e/cluster"
)

// authority is a certificate authority with one server certificate, for
// 127.0.0.1.
type authority struct {
	pem    []byte
	server tls.Certificate
}

func newAuthority(name string) (*authority, error) {
	fail := func(err error) (*authority, error) { return nil, fmt.Errorf("authority %s: %w", name, err) }
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	// One certificate that is the authority and the server's: nothing else is signed.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fail(err)
	}
	return &authority{
		pem:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		server: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}, nil
}

// kubeconfig is a user's kubeconfig, everything inline.
func kubeconfig(name, url string, ca []byte, u cluster.User) ([]byte, error) {
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	file.AuthInfos[u.Name] = &clientcmdapi.AuthInfo{Token: u.Token, ClientCertificateData: u.Cert, ClientKeyData: u.Key}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: u.Name}
	file.CurrentContext = name
	text, err := clientcmd.Write(*file)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s for %s: %w", u.Name, name, err)
	}
	return text, nil
}
