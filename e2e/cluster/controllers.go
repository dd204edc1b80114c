// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// ControllerManagerUser is how the controller manager appears in Writes.
const ControllerManagerUser = "system:kube-controller-manager"

// ControllerManagerOptions chooses controllers and settings.
type ControllerManagerOptions struct {
	// Controllers are the names that run, e.g. "endpoints-controller"; none means all that are on by default.
	Controllers []string
	// Flags come after our own. The limits of the client are the stock ones (20 a second, bursts of 30) unless set here.
	Flags []string
}

// StartControllerManager starts the real kube-controller-manager in this cluster and returns when it reports to be
// healthy, which is just before its controllers start. It ends with the cluster, or by its own Stop or Kill.
func (c *Cluster) StartControllerManager(ctx context.Context, o ControllerManagerOptions) (*Process, error) {
	fail := func(err error) (*Process, error) {
		return nil, fmt.Errorf("controller manager of %s: %w", c.options.Name, err)
	}
	port, err := FreePort()
	if err != nil {
		return fail(err)
	}
	// The roles that RBAC has from the start expect a service account for each controller; one user for all is enough here.
	user, err := c.NewUser(ctx, ControllerManagerUser, rbacv1.PolicyRule{
		APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"},
	})
	if err != nil {
		return fail(err)
	}
	text, err := c.Kubeconfig(user)
	if err != nil {
		return fail(err)
	}
	config, err := c.write("kube-controller-manager.kubeconfig", text)
	if err != nil {
		return fail(err)
	}
	args := []string{
		"kube-controller-manager", "--kubeconfig=" + config, "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.file("server.crt"), "--tls-private-key-file=" + c.file("server.key"),
		"--authentication-skip-lookup", "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
		"--profiling=false",
	}
	if len(o.Controllers) > 0 {
		args = append(args, "--controllers="+strings.Join(o.Controllers, ","))
	}
	health := "https://127.0.0.1:" + strconv.Itoa(port) + "/healthz"
	m := NewProcess(ProcessOptions{
		Name: c.options.Name + "/kube-controller-manager", Path: c.binary, Args: append(args, o.Flags...),
		Log: c.file("kube-controller-manager.log"), Ground: true, TermIsClean: true,
		Ready: func(ctx context.Context) error { return c.ask(ctx, health, nil) },
	})
	c.mu.Lock()
	c.controllers = append(c.controllers, m)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not healthy within %s", startLimit))
	defer cancel()
	if err := m.Start(ctx); err != nil {
		return nil, err
	}
	return m, nil
}
