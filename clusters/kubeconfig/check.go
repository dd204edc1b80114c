// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"crypto/tls"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	apiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"k8s.io/client-go/util/cert"
)

// Whole is a fault of a file as a whole.
func Whole(detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}, Detail: detail}
}

// secret is a fault of a value that must not be shown.
func secret(at *field.Path, detail string) *field.Error {
	return field.Invalid(at, field.OmitValueType{}, detail)
}

// notFound says, too, what helps against it.
func notFound(at *field.Path, value, detail string) *field.Error {
	fault := field.NotFound(at, value)
	fault.Detail = detail
	return fault
}

// What a kubeconfig from a Secret may hold, as a file has it. Whoever writes the Secret
// could run programs and read files of the machine that reads it, or send credentials to
// another host, by the other fields, those among them that client-go will learn.
var (
	allowedOfCluster = []string{"server", "tls-server-name", "certificate-authority-data", "disable-compression"}
	allowedOfUser    = []string{"token", "client-certificate-data", "client-key-data"}
)

// refuse names every field in use that a Secret may not use.
func (c *chosen) refuse() (faults field.ErrorList) {
	c.Cluster.Extensions = nil
	var cluster apiv1.Cluster
	var user apiv1.AuthInfo
	err := errors.Join(apiv1.Convert_api_Cluster_To_v1_Cluster(c.Cluster, &cluster, nil), apiv1.Convert_api_AuthInfo_To_v1_AuthInfo(c.User, &user, nil))
	for _, part := range []struct {
		at      *field.Path
		of      any
		allowed []string
	}{{c.clusterAt, &cluster, allowedOfCluster}, {c.userAt, &user, allowedOfUser}} {
		used, wrong := runtime.DefaultUnstructuredConverter.ToUnstructured(part.of)
		if err != nil || wrong != nil { // which plain structs never are
			return field.ErrorList{secret(part.at, "cannot be read")}
		}
		for _, name := range slices.Sorted(maps.Keys(used)) {
			if !slices.Contains(part.allowed, name) {
				faults = append(faults, field.Forbidden(part.at.Child(name), "a kubeconfig from a Secret may have here nothing but "+strings.Join(part.allowed, ", ")))
			}
		}
	}
	return faults
}

// inline puts the certificates and keys that an operator's file names in the place of
// their names: what was checked is what is used, and another content makes another hash.
// A tokenFile is left to client-go, which reads it again every minute.
func (c *chosen) inline(read func(path string) ([]byte, error)) (faults field.ErrorList) {
	if err := clientcmd.ResolveLocalPaths(c.file()); err != nil {
		return field.ErrorList{Whole(err.Error())}
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
			data, err := read(*f.path)
			switch {
			case err != nil:
				faults = append(faults, notFound(f.at, *f.path, err.Error()))
			case len(data) == 0:
				faults = append(faults, notFound(f.at, *f.path, "is empty"))
			}
			*f.data = data
		}
		*f.path = ""
	}
	return faults
}

// check finds what clientcmd would let pass, or would refuse by quoting it.
func (c *chosen) check() (faults field.ErrorList) {
	faults = checkServer(c.clusterAt.Child("server"), c.Cluster.Server)
	u := c.User
	if ca := c.Cluster.CertificateAuthorityData; len(ca) > 0 && !wholePEM(ca) {
		faults = append(faults, secret(c.clusterAt.Child("certificate-authority-data"), "is not a list of certificates in PEM; it may be cut off"))
	}
	if len(u.ClientCertificateData)+len(u.ClientKeyData) > 0 {
		if _, err := tls.X509KeyPair(u.ClientCertificateData, u.ClientKeyData); err != nil {
			faults = append(faults, secret(c.userAt.Child("client-certificate-data"), "is not a certificate of client-key-data in PEM; one of the two may be missing or cut off"))
		}
	}
	// net/http would refuse it in a header at every request, much later.
	if strings.ContainsFunc(u.Token, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		faults = append(faults, secret(c.userAt.Child("token"), "holds a blank, line break or control character; write it as one line of plain text"))
	}
	given := u.Token != "" || u.TokenFile != "" || u.Username != "" || u.Exec != nil || u.AuthProvider != nil || len(u.ClientCertificateData) > 0
	if !given && len(faults) == 0 && rest.IsConfigTransportTLS(rest.Config{Host: c.Cluster.Server}) {
		faults = append(faults, field.Required(c.userAt, "holds no credential: give a token or a client certificate; the file may be cut off"))
	}
	return faults
}

// checkServer demands an absolute URL. It is not quoted, for it may hold a password.
func checkServer(at *field.Path, server string) field.ErrorList {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return field.ErrorList{secret(at, "write the URL of the API server, such as https://10.0.0.1:6443, without a user's name or password")}
	}
	return nil
}

// wholePEM reports whether a text is certificates and none of them is cut off: Go's own
// pool would be content with the first.
func wholePEM(text []byte) bool {
	certs, err := cert.ParseCertsPEM(text)
	return err == nil && len(certs) == bytes.Count(text, []byte("-----BEGIN CERT"))
}
