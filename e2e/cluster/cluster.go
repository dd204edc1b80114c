// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Options are the options of a cluster. Only Name and Dir are required.
type Options struct {
	// Name is used in errors, logs and kubeconfigs.
	Name string
	// Dir receives data, keys and logs. It must exist, be private to this cluster, and lie outside any source tree.
	Dir string
	// Audit records every write request at the apiserver, see Writes.
	Audit bool
	// EtcdOf makes the cluster store its objects in another cluster's etcd under a prefix of its own (its Name). That saves
	// a process and about 100 MB; the two then share their etcd's faults. By default every cluster has its own.
	EtcdOf *Cluster
	// Tokens are users that exist from the start, with tokens that do not depend on the data.
	Tokens []User
	// APIServerFlags come after our own; the last one wins.
	APIServerFlags []string
}

// Cluster is a running control plane. Methods may be called from any goroutine, those that start and stop servers one
// at a time.
type Cluster struct {
	options   Options
	ca        *authority
	binary    string
	etcd      *Process // nil if the etcd is another cluster's
	apiserver *Process
	etcdURL   string
	url       string
	admin     User
	client    kubernetes.Interface
	probe     *http.Client
	audit     auditLog
	first     []string // keys of the objects that an API server creates at its start, sorted

	mu          sync.Mutex
	controllers []*Process
	snapshots   int
}

// startLimit is far beyond the seconds that a start takes: it has to hold on a machine with every core busy.
const startLimit = 2 * time.Minute

// Start starts etcd and kube-apiserver and returns when the apiserver is ready and has created its own first objects, so
// that its writes do not mix with those of a test. If it fails nothing is left running.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	if o.Name == "" || o.Dir == "" {
		return nil, errors.New("start a cluster: Name and Dir are required")
	}
	c := &Cluster{options: o}
	defer func() {
		if err != nil {
			c.Close()
			err = fmt.Errorf("start cluster %s: %w", o.Name, err)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready within %s", startLimit))
	defer cancel()
	if c.binary, err = Binary(ctx); err != nil {
		return nil, err
	}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if c.etcd != nil {
		if err := c.etcd.Start(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.apiserver.Start(ctx); err != nil {
		return nil, err
	}
	if err := c.awaitFirstObjects(ctx); err != nil {
		return nil, err
	}
	return c, c.rememberFirst(ctx)
}

// prepare does everything that needs no running server.
func (c *Cluster) prepare() error {
	var err error
	if c.ca, err = newAuthority(c.options.Name); err != nil {
		return err
	}
	c.probe = &http.Client{Transport: &http.Transport{TLSClientConfig: c.ca.clientTLS(), ForceAttemptHTTP2: true}}
	if err := c.prepareEtcd(); err != nil {
		return err
	}
	if err := c.prepareAPIServer(); err != nil {
		return err
	}
	c.client, err = kubernetes.NewForConfig(c.AdminConfig())
	return err
}

// awaitFirstObjects waits for the namespaces and the Service that an apiserver creates soon after it became ready.
func (c *Cluster) awaitFirstObjects(ctx context.Context) error {
	core := c.client.CoreV1()
	return poll(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		_, noService := core.Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		_, noNamespace := core.Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		_, noEndpoints := core.Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		return errors.Join(noService, noNamespace, noEndpoints)
	})
}

// Name is the name in the options.
func (c *Cluster) Name() string { return c.options.Name }

// Dir is the directory in the options.
func (c *Cluster) Dir() string { return c.options.Dir }

// URL is the address of the apiserver.
func (c *Cluster) URL() string { return c.url }

// APIServer is the kube-apiserver: stop, kill, freeze and restart it at will; port, data and identity stay the same.
func (c *Cluster) APIServer() *Process { return c.apiserver }

// Etcd is the etcd of this cluster, nil if it uses another cluster's.
func (c *Cluster) Etcd() *Process { return c.etcd }

// Client is the administrator's: no client-side limit, protobuf, no warnings.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// AdminConfig is a copy of the configuration behind Client; it may be changed.
func (c *Cluster) AdminConfig() *rest.Config { return c.Config(c.admin) }

// Logs are the log files of all servers that were ever started.
func (c *Cluster) Logs() []string {
	var logs []string
	for _, p := range c.processes() {
		if !slices.Contains(logs, p.Log()) { // a second controller manager appends to the log of the first
			logs = append(logs, p.Log())
		}
	}
	return logs
}

func (c *Cluster) processes() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.controllers)
	for _, p := range []*Process{c.apiserver, c.etcd} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Close kills every server. It leaves the directory, with the logs, to the caller. A second call does nothing.
func (c *Cluster) Close() {
	for _, p := range c.processes() {
		p.Kill()
	}
	if c.probe != nil {
		c.probe.CloseIdleConnections()
	}
}

// file is a path in the cluster's directory.
func (c *Cluster) file(name string) string { return filepath.Join(c.options.Dir, name) }

// write writes a file that a server reads, and returns its path.
func (c *Cluster) write(name string, text []byte) (string, error) {
	path := c.file(name)
	return path, os.WriteFile(path, text, 0o600)
}

// poll calls cond until it returns nil or ctx is done; then the last error is part of the result.
func poll(ctx context.Context, every time.Duration, cond func(context.Context) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// ignoreExists makes it no error to create what already exists.
func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
