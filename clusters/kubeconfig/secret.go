// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/clientcmd/api"
)

// refused is a field that a kubeconfig from a Secret may not use.
type refused struct {
	name string
	used bool
	why  string
}

// Why fields are refused: whoever writes a Secret would gain these on the machine that
// reads it.
const (
	readsFiles   = "a kubeconfig from a Secret may not read files of this machine; put the content itself into the field with -data"
	runsPrograms = "a kubeconfig from a Secret may not run programs; use a token or a client certificate"
	actsAsOther  = "a kubeconfig from a Secret may not act as another user; use that user's own credential"
	passwords    = "a kubeconfig from a Secret may hold no password; use a token or a client certificate"
)

// refuse names every field in use that a Secret may not use, and leaves nothing of them
// behind.
func (c *chosen) refuse() (faults field.ErrorList) {
	for _, r := range refusedOfCluster(c.Cluster) {
		if r.used {
			faults = append(faults, field.Forbidden(c.clusterAt.Child(r.name), r.why))
		}
	}
	for _, r := range refusedOfUser(c.User) {
		if r.used {
			faults = append(faults, field.Forbidden(c.userAt.Child(r.name), r.why))
		}
	}
	c.Cluster = &api.Cluster{
		Server: c.Cluster.Server, TLSServerName: c.Cluster.TLSServerName,
		CertificateAuthorityData: c.Cluster.CertificateAuthorityData, DisableCompression: c.Cluster.DisableCompression,
	}
	c.User = &api.AuthInfo{Token: c.User.Token, ClientCertificateData: c.User.ClientCertificateData, ClientKeyData: c.User.ClientKeyData}
	return faults
}

func refusedOfCluster(c *api.Cluster) []refused {
	return []refused{
		{"insecure-skip-tls-verify", c.InsecureSkipTLSVerify, "a kubeconfig from a Secret may not trust whoever answers; give certificate-authority-data"},
		{"certificate-authority", c.CertificateAuthority != "", readsFiles},
		{"proxy-url", c.ProxyURL != "", "a kubeconfig from a Secret may not send credentials through another host; leave it out"},
	}
}

func refusedOfUser(u *api.AuthInfo) []refused {
	return []refused{
		{"client-certificate", u.ClientCertificate != "", readsFiles},
		{"client-key", u.ClientKey != "", readsFiles},
		{"tokenFile", u.TokenFile != "", "a kubeconfig from a Secret may not read files of this machine; put the token itself into token"},
		{"as", u.Impersonate != "", actsAsOther},
		{"as-uid", u.ImpersonateUID != "", actsAsOther},
		{"as-groups", len(u.ImpersonateGroups) > 0, actsAsOther},
		{"as-user-extra", len(u.ImpersonateUserExtra) > 0, actsAsOther},
		{"username", u.Username != "", passwords},
		{"password", u.Password != "", passwords},
		{"auth-provider", u.AuthProvider != nil, runsPrograms},
		{"exec", u.Exec != nil, runsPrograms},
	}
}
