// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // registers the one auth provider that can be allowed
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"tributary.dev/tributary/clusters/config/strict"
)

// rest turns a checked entry into a client configuration, by the same rules as
// client-go's clientcmd.DirectClientConfig.
func (c *chosen) rest() *rest.Config {
	cl, u := &c.Cluster, &c.User
	out := &rest.Config{
		Host:               cl.Server,
		DisableCompression: cl.DisableCompression,
		QPS:                -1,
		Impersonate: rest.ImpersonationConfig{
			UserName: u.Impersonate, UID: u.ImpersonateUID, Groups: u.ImpersonateGroups, Extra: u.ImpersonateUserExtra,
		},
	}
	if proxy, err := url.Parse(cl.ProxyURL); err == nil && cl.ProxyURL != "" {
		out.Proxy = http.ProxyURL(proxy)
	}
	if !cl.secure() {
		return out
	}
	out.TLSClientConfig = rest.TLSClientConfig{
		Insecure:   cl.InsecureSkipTLSVerify,
		ServerName: cl.TLSServerName,
		CAData:     cl.CertificateAuthorityData,
		CertData:   u.ClientCertificateData,
		KeyData:    u.ClientKeyData,
	}
	out.BearerToken = u.Token
	out.Username, out.Password = u.Username, u.Password
	out.ExecProvider = u.Exec.rest()
	if u.AuthProvider != nil {
		out.AuthProvider = &api.AuthProviderConfig{Name: u.AuthProvider.Name, Config: u.AuthProvider.Config}
		out.AuthConfigPersister = forget{}
	}
	return out
}

// rest never offers the terminal: Tributary runs unattended.
func (e *execPlugin) rest() *api.ExecConfig {
	if e == nil {
		return nil
	}
	out := &api.ExecConfig{
		APIVersion: e.APIVersion, Command: e.Command, Args: e.Args,
		ProvideClusterInfo: e.ProvideClusterInfo,
		InteractiveMode:    api.NeverExecInteractiveMode,
		StdinUnavailable:   true,
		// The plugin is held to the path that was checked.
		PluginPolicy: api.PluginPolicy{
			PolicyType: api.PluginPolicyAllowlist,
			Allowlist:  []api.AllowlistEntry{{Command: e.Command}},
		},
	}
	for _, v := range e.Env {
		out.Env = append(out.Env, api.ExecEnvVar{Name: v.Name, Value: v.Value})
	}
	return out
}

// forget keeps a refreshed credential in memory only: a kubeconfig is never
// written to, and client-go's oidc provider demands a persister.
type forget struct{}

func (forget) Persist(map[string]string) error { return nil }

// InCluster is the way to reach the cluster in which this process runs as a pod. read
// reads the cluster's CA. The error is of type strict.Faults and names field, the one to
// fill in where the process does not.
func InCluster(configFile, field string, read func(path string) ([]byte, error)) (*Accepted, error) {
	return inCluster(configFile, field, read, rest.InClusterConfig)
}

func inCluster(configFile, field string, read func(path string) ([]byte, error), get func() (*rest.Config, error)) (*Accepted, error) {
	config, err := get()
	if err == nil && config.CAFile != "" {
		config.CAData, err = read(config.CAFile)
		config.CAFile = ""
	}
	fault := strict.Fault{File: configFile, Field: field, Remedy: "name a kubeconfig of the ingress cluster, or run as a pod in it"}
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		fault.Message = "is left out, but this process does not run in a cluster"
		return nil, strict.Faults{fault}
	case err != nil:
		fault.Message = fmt.Sprintf("is left out, and the pod's service account cannot be used: %v", worded(err))
		return nil, strict.Faults{fault}
	}
	config.QPS = -1
	// The token is replaced each hour and read again by client-go, for each request; of
	// the rest, the CA alone can change while a pod lives.
	sum := sha256.Sum256(config.CAData)
	return &Accepted{REST: config, Hash: "in-cluster " + hex.EncodeToString(sum[:])}, nil
}
