// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// serviceCIDRs are the ranges of cluster IPs, the same in every cluster as in so many companies; pods have 10.0.0.0/8 to
// themselves. The ranges are wide: the default one ends at 254 Services.
const serviceCIDRs = "172.16.0.0/12,fd00:10:96::/112"

// quietAdmission are the plugins that would require what these clusters do not have (a service account controller,
// nodes that report taints) or that only cost time for the objects in use. Lifecycle, quota, webhooks and admission
// policies stay on.
var quietAdmission = []string{
	"ServiceAccount", "TaintNodesByCondition", "DefaultTolerationSeconds", "StorageObjectInUseProtection",
	"DefaultStorageClass", "PersistentVolumeClaimResize", "RuntimeClass", "PodSecurity", "LimitRanger",
}

// auditPolicy records each write request of any user once, without its body.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

func (c *Cluster) prepareAPIServer() error {
	files, err := c.writeAPIServerFiles()
	if err != nil {
		return err
	}
	port, err := FreePort()
	if err != nil {
		return err
	}
	c.url = "https://127.0.0.1:" + strconv.Itoa(port)
	args := []string{
		"kube-apiserver",
		"--etcd-servers=" + c.etcdURL, "--etcd-prefix=/registry",
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + files["server.crt"], "--tls-private-key-file=" + files["server.key"],
		"--client-ca-file=" + files["ca.crt"], "--token-auth-file=" + files["tokens.csv"],
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + files["accounts.key"], "--service-account-signing-key-file=" + files["accounts.key"],
		"--authorization-mode=RBAC", "--anonymous-auth=false",
		"--service-cluster-ip-range=" + serviceCIDRs,
		// The address that default/kubernetes carries may not be a loopback one. This is a documentation address (RFC 5737).
		"--advertise-address=192.0.2.1", "--external-hostname=127.0.0.1",
		"--disable-admission-plugins=" + strings.Join(quietAdmission, ","),
		"--profiling=false",
	}
	if c.options.EtcdOf != nil {
		args = append(args, "--etcd-prefix=/"+c.options.Name)
	}
	if c.options.Audit {
		c.audit.path = c.file("audit.log")
		// The size is one that no run reaches: a rotated file would have to be found again.
		args = append(args, "--audit-log-path="+c.audit.path, "--audit-policy-file="+files["audit.yaml"],
			"--audit-log-mode=blocking", "--audit-log-maxsize=65536")
	}
	header := http.Header{"Authorization": {"Bearer " + c.admin.Token}}
	c.apiserver = NewProcess(ProcessOptions{
		Name: c.options.Name + "/kube-apiserver", Path: c.binary, Args: append(args, c.options.APIServerFlags...),
		Log: c.file("kube-apiserver.log"), Ground: true,
		Ready: func(ctx context.Context) error { return c.ask(ctx, c.url+"/readyz", header) },
	})
	return nil
}

// writeAPIServerFiles writes keys, certificates, tokens and policy; it returns the path of each.
func (c *Cluster) writeAPIServerFiles() (map[string]string, error) {
	server, err := c.ca.server("kube-apiserver")
	if err != nil {
		return nil, err
	}
	_, accounts, err := newKey()
	if err != nil {
		return nil, err
	}
	c.admin = TokenUser("admin", "system:masters")
	var tokens strings.Builder
	for _, u := range append([]User{c.admin}, c.options.Tokens...) {
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", u.Token, u.Name, u.Name, strings.Join(u.Groups, ","))
	}
	paths := map[string]string{}
	for name, text := range map[string][]byte{
		"ca.crt": c.ca.certPEM, "server.crt": server.cert, "server.key": server.key,
		"accounts.key": accounts, "tokens.csv": []byte(tokens.String()), "audit.yaml": []byte(auditPolicy),
	} {
		if paths[name], err = c.write(name, text); err != nil {
			return nil, err
		}
	}
	return paths, nil
}
