// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import "strings"

// The types of this file are the parts of a kubeconfig that matter here, under
// the names that client-go's tools/clientcmd/api/v1 gives them. Fields that are
// not listed are passed over, as kubectl does, and so have no effect.
//
// They hold secrets: nothing outside of this package sees them, and they must
// never be formatted.

type file struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	CurrentContext string         `json:"current-context"`
	Contexts       []namedContext `json:"contexts"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
}

type namedContext struct {
	Name    string  `json:"name"`
	Context context `json:"context"`
}

type context struct {
	Cluster string `json:"cluster"`
	User    string `json:"user"`
}

type namedCluster struct {
	Name    string  `json:"name"`
	Cluster cluster `json:"cluster"`
}

type cluster struct {
	Server                   string `json:"server"`
	TLSServerName            string `json:"tls-server-name"`
	InsecureSkipTLSVerify    bool   `json:"insecure-skip-tls-verify"`
	CertificateAuthority     string `json:"certificate-authority"`
	CertificateAuthorityData []byte `json:"certificate-authority-data"`
	ProxyURL                 string `json:"proxy-url"`
	DisableCompression       bool   `json:"disable-compression"`
}

// secure reports whether the connection is encrypted; on one that is not,
// neither clientcmd nor Tributary sends a credential.
func (c *cluster) secure() bool { return strings.HasPrefix(strings.ToLower(c.Server), "https:") }

type namedUser struct {
	Name string `json:"name"`
	User user   `json:"user"`
}

type user struct {
	ClientCertificate     string              `json:"client-certificate"`
	ClientCertificateData []byte              `json:"client-certificate-data"`
	ClientKey             string              `json:"client-key"`
	ClientKeyData         []byte              `json:"client-key-data"`
	Token                 string              `json:"token"`
	TokenFile             string              `json:"tokenFile"`
	Impersonate           string              `json:"as"`
	ImpersonateUID        string              `json:"as-uid"`
	ImpersonateGroups     []string            `json:"as-groups"`
	ImpersonateUserExtra  map[string][]string `json:"as-user-extra"`
	Username              string              `json:"username"`
	Password              string              `json:"password"`
	AuthProvider          *authProvider       `json:"auth-provider"`
	Exec                  *execPlugin         `json:"exec"`
}

type authProvider struct {
	Name   string            `json:"name"`
	Config map[string]string `json:"config"`
}

type execPlugin struct {
	APIVersion         string   `json:"apiVersion"`
	Command            string   `json:"command"`
	Args               []string `json:"args"`
	Env                []envVar `json:"env"`
	InteractiveMode    string   `json:"interactiveMode"`
	ProvideClusterInfo bool     `json:"provideClusterInfo"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
