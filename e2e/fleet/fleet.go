// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/e2e/cluster"
)

// Options says what to start. The zero value is an ingress cluster without members.
type Options struct {
	// Members are the names of the member clusters.
	Members []string
	// Audit records every write request at every apiserver, for Site.Writes.
	Audit bool
	// Adjust may change the options of each cluster.
	Adjust func(name string, o *cluster.Options)
}

// IngressName is the name of the ingress cluster.
const IngressName = "ingress"

// Fleet is a running set of clusters.
type Fleet struct {
	// Dir has data, logs and kubeconfigs until Close.
	Dir     string
	Ingress *Site
	Members []*Site

	options Options

	mu    sync.Mutex
	count int // sites that were ever begun: each has a range of pod addresses of its own
}

// Start starts all clusters at the same time and returns when every one is ready. If one fails, nothing is left running.
func Start(ctx context.Context, o Options) (_ *Fleet, err error) {
	f := &Fleet{options: o}
	if f.Dir, err = os.MkdirTemp("", "tributary-fleet-"); err != nil {
		return nil, fmt.Errorf("start the fleet: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start the fleet: %w", err), f.Close())
		}
	}()
	// Once before the clusters ask for it together, so that a build is reported once.
	if _, err := cluster.Binary(ctx); err != nil {
		return nil, err
	}
	names := append([]string{IngressName}, o.Members...)
	sites := make([]*Site, len(names))
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range names {
		number := f.nextNumber()
		group.Go(func() (err error) {
			sites[i], err = f.startSite(ctx, name, number)
			return err
		})
	}
	err = group.Wait()
	for _, s := range sites { // also after a failure, for Close
		switch {
		case s == nil:
		case s.Name() == IngressName:
			f.Ingress = s
		default:
			f.Members = append(f.Members, s)
		}
	}
	return f, err
}

// AddMember starts one more member cluster. It must not run at the same time as anything that reads Members.
func (f *Fleet) AddMember(ctx context.Context, name string) (*Site, error) {
	if f.Member(name) != nil {
		return nil, fmt.Errorf("add member %s: there is one of that name", name)
	}
	s, err := f.startSite(ctx, name, f.nextNumber())
	if err != nil {
		return nil, fmt.Errorf("add member: %w", err)
	}
	f.Members = append(f.Members, s)
	return s, nil
}

func (f *Fleet) nextNumber() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	return f.count - 1
}

// Member returns the member of that name, nil if there is none.
func (f *Fleet) Member(name string) *Site {
	for _, s := range f.Members {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

// Sites returns the ingress cluster, if there is one, and the members.
func (f *Fleet) Sites() []*Site {
	if f.Ingress == nil {
		return f.Members
	}
	return append([]*Site{f.Ingress}, f.Members...)
}

// Logs are the log files of all servers and of every tributary that logs into Dir.
func (f *Fleet) Logs() []string {
	var logs []string
	for _, s := range f.Sites() {
		logs = append(logs, s.Logs()...)
	}
	own, err := filepath.Glob(filepath.Join(f.Dir, "tributary-*.log"))
	if err != nil {
		return logs
	}
	return append(logs, own...)
}

// Close kills all servers, and removes Dir.
func (f *Fleet) Close() error {
	var group sync.WaitGroup
	for _, s := range f.Sites() {
		group.Go(s.Close)
	}
	group.Wait()
	if err := os.RemoveAll(f.Dir); err != nil {
		return fmt.Errorf("close the fleet: %w", err)
	}
	return nil
}

// WriteConfig writes a configuration file for tributary: this ingress cluster, the given members (all of them if none is
// given), an address to listen on, and defaults for all else.
func (f *Fleet) WriteConfig(path, listen string, members ...*Site) error {
	if len(members) == 0 {
		members = f.Members
	}
	type clusterRef struct {
		Name       string `json:"name,omitempty"`
		Kubeconfig string `json:"kubeconfig"`
	}
	config := struct {
		APIVersion string       `json:"apiVersion"`
		Kind       string       `json:"kind"`
		Listen     string       `json:"listen,omitempty"`
		Ingress    clusterRef   `json:"ingress"`
		Clusters   []clusterRef `json:"clusters"`
	}{APIVersion: "tributary.dev/v1alpha1", Kind: "Config", Listen: listen, Ingress: clusterRef{Kubeconfig: f.Ingress.Kubeconfig}}
	for _, m := range members {
		config.Clusters = append(config.Clusters, clusterRef{Name: m.Name(), Kubeconfig: m.Kubeconfig})
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return replaceFile(path, text)
}

// replaceFile changes a file in one step: whoever watches it never reads half of it.
func replaceFile(path string, text []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(temp.Name(), path)
}

// podRange is the range of pod addresses of the site with that number: 32 ranges of half a million addresses, over again
// from the 33rd site on.
func podRange(number int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(number % 32 * 8), 0, 0}), 13)
}
