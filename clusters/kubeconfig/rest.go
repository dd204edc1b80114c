// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // registers the one auth provider that can be allowed
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	v1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"tributary.dev/tributary/clusters/config/strict"
)

// secure reports whether the connection is encrypted; on one that is not, neither
// clientcmd nor Tributary sends a credential.
func (c *chosen) secure() bool { return strings.HasPrefix(strings.ToLower(c.Cluster.Server), "https:") }

// rest lets clientcmd turn a checked entry into a client configuration. The error may
// quote what the kubeconfig holds.
func (c *chosen) rest() (*rest.Config, error) {
	const name = "chosen"
	cluster, user := api.NewCluster(), api.NewAuthInfo()
	if err := errors.Join(v1.Convert_v1_Cluster_To_api_Cluster(&c.Cluster, cluster, nil), v1.Convert_v1_AuthInfo_To_api_AuthInfo(&c.User, user, nil)); err != nil {
		return nil, err
	}
	if e := user.Exec; e != nil {
		e.InteractiveMode = api.NeverExecInteractiveMode // Tributary runs unattended
	}
	out, err := clientcmd.NewNonInteractiveClientConfig(api.Config{
		Clusters: map[string]*api.Cluster{name: cluster}, AuthInfos: map[string]*api.AuthInfo{name: user},
		Contexts: map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
	}, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	out.QPS = -1
	if e := out.ExecProvider; e != nil {
		e.StdinUnavailable = true
		// The plugin is held to the path that was checked.
		e.PluginPolicy = api.PluginPolicy{PolicyType: api.PluginPolicyAllowlist, Allowlist: []api.AllowlistEntry{{Command: e.Command}}}
	}
	if out.AuthProvider != nil {
		out.AuthConfigPersister = forget{}
	}
	return out, nil
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
