// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/e2e/cluster"
)

// TestR13BadKubeconfigs starts tributary with members whose kubeconfigs are
// malformed or lead nowhere. Each is reported; the others are
// served, and readiness waits for nobody longer than 15 s.
func TestR13BadKubeconfigs(t *testing.T) {
	w := newWorld(t, "r13")
	w.service("web", 3, w.a, w.b)
	w.record()
	good, err := os.ReadFile(w.b.Kubeconfig)
	w.must(err)
	port, err := cluster.FreePort()
	w.must(err)
	for name, text := range map[string]string{
		"malformed": "apiVersion: v1\nkind: Config\nclusters: [\n",
		"nowhere":   strings.ReplaceAll(string(good), w.b.URL(), fmt.Sprintf("https://127.0.0.1:%d", port)),
	} {
		path := filepath.Join(w.dir, name+".kubeconfig")
		w.must(os.WriteFile(path, []byte(text), 0o600))
		w.config.set(name, path)
	}
	began := time.Now()
	w.start()
	ready := time.Since(began)
	w.converges(5 * time.Second)
	if limit := w.within(17 * time.Second); ready > limit {
		t.Errorf("ready after %s, want at most 15 s and a start", ready)
	}
	for _, name := range []string{"malformed", "nowhere"} {
		w.reports(name, 5*time.Second, "down with a reason", func(c clusterStatus) bool { return !c.Up && len(c.Conditions) > 0 })
	}
	w.judge()

	// One that is mended joins without a restart.
	w.must(replace(filepath.Join(w.dir, "malformed.kubeconfig"), good))
	joined := w.eventually(10*time.Second, func(ctx context.Context) error {
		s, err := w.status(ctx)
		if err != nil {
			return err
		}
		for _, c := range s.Clusters {
			if c.Name == "malformed" && c.Up && c.Synced {
				return nil
			}
		}
		return fmt.Errorf("clusters %+v", s.Clusters)
	})
	t.Logf("ready after %s; a mended kubeconfig was in use after %s", ready, joined)
}
