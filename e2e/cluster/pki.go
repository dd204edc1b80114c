// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

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
)

// authority is the certificate authority of one cluster: it signs the certificates of servers and of users.
type authority struct {
	cert    *x509.Certificate
	certPEM []byte
	key     *ecdsa.PrivateKey
}

// pair is a certificate with its key, both PEM.
type pair struct{ cert, key []byte }

// certificateLife is longer than any run. Certificates begin an hour ago, for tests that move clocks.
const certificateLife = 30 * 24 * time.Hour

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority of %s: %w", name, err)
	}
	template := certificate(pkix.Name{CommonName: name + "-ca"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the authority of %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the authority of %s: %w", name, err)
	}
	return &authority{cert: cert, certPEM: encodePEM("CERTIFICATE", der), key: key}, nil
}

// server signs a certificate for 127.0.0.1 and localhost.
func (a *authority) server(name string) (pair, error) {
	template := certificate(pkix.Name{CommonName: name})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.DNSNames = []string{"localhost"}
	return a.sign(template)
}

// client signs a client certificate for a user in groups.
func (a *authority) client(user string, groups []string, life time.Duration) (pair, error) {
	template := certificate(pkix.Name{CommonName: user, Organization: groups})
	template.NotAfter = time.Now().Add(life)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return pair{}, fmt.Errorf("sign for %s: %w", template.Subject.CommonName, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("sign for %s: %w", template.Subject.CommonName, err)
	}
	return pair{cert: encodePEM("CERTIFICATE", der), key: keyPEM}, nil
}

// serverTLS is server's pair for a server of this process.
func (a *authority) serverTLS(name string) (tls.Certificate, error) {
	p, err := a.server(name)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(p.cert, p.key)
}

// NewServer makes an authority and a certificate that it signed, for a server at 127.0.0.1.
func NewServer(name string) (ca []byte, server tls.Certificate, err error) {
	a, err := newAuthority(name)
	if err != nil {
		return nil, server, err
	}
	server, err = a.serverTLS(name)
	return a.certPEM, server, err
}

// clientTLS is how a client of ours trusts this cluster's servers.
func (a *authority) clientTLS() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// newKey makes a private key; P-256 takes microseconds where RSA would take most of a second a cluster.
func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, encodePEM("EC PRIVATE KEY", der), nil
}

func certificate(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand never fails on the systems that Go supports
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
