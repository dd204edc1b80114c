// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
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
)

// Whole is a fault of a file as a whole.
func Whole(detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}, Detail: detail}
}

// secret is a fault of a value that must not be shown.
func secret(at *field.Path, detail string) *field.Error {
	return field.Invalid(at, field.OmitValueType{}, detail)
}

// Detailed says, too, what helps against a fault whose kind has no room for it.
func Detailed(fault *field.Error, detail string) *field.Error {
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
				faults = append(faults, Detailed(field.NotFound(f.at, *f.path), err.Error()))
			case len(data) == 0:
				faults = append(faults, Detailed(field.NotFound(f.at, *f.path), "is empty"))
			}
			*f.data = data
		}
		*f.path = ""
	}
	return faults
}

// check finds what clientcmd would let pass.
func (c *chosen) check() (faults field.ErrorList) {
	u := c.User
	if !isServer(c.Cluster.Server) { // which is not quoted, for it may hold a password
		faults = append(faults, secret(c.clusterAt.Child("server"), "write the URL of the API server, such as https://10.0.0.1:6443, without a user's name or password"))
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

// isServer reports whether a text is an absolute URL.
func isServer(server string) bool {
	u, err := url.Parse(server)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}
