// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"crypto/tls"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// secret is a fault of a value that must not be shown.
func secret(at *field.Path, detail string) *field.Error {
	return field.Invalid(at, field.OmitValueType{}, detail)
}

// withDetail says what helps against a fault whose kind has no room for it.
func withDetail(fault *field.Error, detail string) *field.Error {
	fault.Detail = detail
	return fault
}

// lineOf is where clientcmd says that a text is wrong: all of its words that cannot hold
// a part of the text.
var lineOf = regexp.MustCompile(`\bline \d+\b`)

// unreadable is the fault of a text that is no kubeconfig at all.
func unreadable(err error) *field.Error {
	detail := "this is no kubeconfig: it is cut off, or has two entries of one name, or is of another kind; kubectl config view says more"
	if line := lineOf.FindString(err.Error()); line != "" {
		detail = line + ": " + detail
	}
	return &field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}, Detail: detail}
}

// inline puts the certificates and keys that an operator's file names in the place of
// their names: what was checked is what is used, and another content makes another hash.
// A tokenFile is left to client-go, which reads it again every minute.
func (c *chosen) inline(directory string, read func(path string) ([]byte, error)) (faults field.ErrorList) {
	absolute := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(directory, path)
	}
	from := func(at *field.Path, path string) []byte {
		data, err := read(path)
		switch {
		case err != nil:
			faults = append(faults, withDetail(field.NotFound(at, path), err.Error()))
		case len(data) == 0:
			faults = append(faults, withDetail(field.NotFound(at, path), "is empty"))
		}
		return data
	}
	for _, f := range []struct {
		at   *field.Path
		path *string
		data *[]byte
	}{
		{c.clusterAt.Child("certificate-authority"), &c.Cluster.CertificateAuthority, &c.Cluster.CertificateAuthorityData},
		{c.userAt.Child("client-certificate"), &c.User.ClientCertificate, &c.User.ClientCertificateData},
		{c.userAt.Child("client-key"), &c.User.ClientKey, &c.User.ClientKeyData},
	} {
		if *f.path != "" && len(*f.data) == 0 { // inline data counts before a file
			*f.data = from(f.at, absolute(*f.path))
		}
		*f.path = ""
	}
	if c.User.TokenFile != "" {
		c.User.TokenFile = absolute(c.User.TokenFile)
		if c.User.Token == "" {
			from(c.userAt.Child("tokenFile"), c.User.TokenFile)
		}
	}
	if e := c.User.Exec; e != nil && strings.ContainsRune(e.Command, filepath.Separator) {
		e.Command = absolute(e.Command)
	}
	return faults
}

// check finds what clientcmd would let pass, or would refuse by quoting it.
func (c *chosen) check() (faults field.ErrorList) {
	add := func(fault *field.Error) {
		if fault != nil {
			faults = append(faults, fault)
		}
	}
	add(checkServer(c.clusterAt.Child("server"), c.Cluster.Server))
	if ca := c.Cluster.CertificateAuthorityData; len(ca) > 0 && !wholePEM(ca) {
		add(secret(c.clusterAt.Child("certificate-authority-data"), "is not a list of certificates in PEM; it may be cut off"))
	}
	u := c.User
	switch certificate, key := u.ClientCertificateData, u.ClientKeyData; {
	case len(certificate) == 0 && len(key) > 0:
		add(field.Required(c.userAt.Child("client-certificate-data"), "belongs to client-key-data"))
	case len(certificate) > 0 && len(key) == 0:
		add(field.Required(c.userAt.Child("client-key-data"), "belongs to client-certificate-data"))
	case len(certificate) > 0:
		if _, err := tls.X509KeyPair(certificate, key); err != nil {
			add(secret(c.userAt.Child("client-certificate-data"), "is not a certificate of client-key-data in PEM; it may be cut off"))
		}
	}
	// net/http would refuse it in a header at every request, much later.
	if strings.ContainsFunc(u.Token, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		add(secret(c.userAt.Child("token"), "holds a blank, line break or control character; write it as one line of plain text"))
	}
	given := u.Token != "" || u.TokenFile != "" || u.Username != "" || u.Exec != nil || u.AuthProvider != nil || len(u.ClientCertificateData) > 0
	if !given && len(faults) == 0 && rest.IsConfigTransportTLS(rest.Config{Host: c.Cluster.Server}) {
		add(field.Required(c.userAt, "holds no credential: give a token or a client certificate; the file may be cut off"))
	}
	return faults
}

// checkServer demands an absolute URL. It is not quoted, for it may hold a password.
func checkServer(at *field.Path, server string) *field.Error {
	const remedy = "write the URL of the API server, such as https://10.0.0.1:6443"
	if server == "" {
		return field.Required(at, remedy)
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return secret(at, remedy+", without a user's name or password")
	}
	return nil
}

// wholePEM reports whether a text is certificates and none of them is cut off: Go's own
// pool would be content with the first.
func wholePEM(text []byte) bool {
	certs, err := cert.ParseCertsPEM(text)
	return err == nil && len(certs) == bytes.Count(text, []byte("-----BEGIN CERT"))
}
