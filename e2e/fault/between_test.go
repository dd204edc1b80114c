// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"os"
	"path/filepath"

	"tributary.dev/tributary/e2e/fleet"
)

// relayTo puts a relay between tributary and a member.
func (w *world) relayTo(s *fleet.Site) *Relay {
	w.Helper()
	relay, err := StartRelay(s.Cluster)
	w.must(err)
	w.Cleanup(relay.Close)
	text, err := relay.Kubeconfig(s.Product)
	w.must(err)
	w.reach(s, text)
	return relay
}

// proxyTo puts a proxy between tributary and a cluster.
func (w *world) proxyTo(s *fleet.Site) *Proxy {
	w.Helper()
	proxy, err := StartProxy(s.Cluster, w.seed)
	w.must(err)
	w.Cleanup(proxy.Close)
	text, err := proxy.Kubeconfig(s.Product)
	w.must(err)
	w.reach(s, text)
	return proxy
}

// reach lets tributary reach a cluster by a kubeconfig of this test's own.
func (w *world) reach(s *fleet.Site, text []byte) {
	w.Helper()
	path := filepath.Join(w.dir, s.Name()+".kubeconfig")
	w.must(os.WriteFile(path, text, 0o600))
	if s == w.ingress {
		w.config.ingress = path
		return
	}
	w.config.set(s.Name(), path)
}
