// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

// TestR12Credentials takes a member's rights away and returns them, lets its
// token expire, and replaces its kubeconfig as Kubernetes projects a Secret: with
// another token, then with another address and authority. What is forbidden is
// not empty, new credentials are in use within seconds, and none of it is a
// reason to write.
func TestR12Credentials(t *testing.T) {
	w := newWorld(t, "r12")
	ctx := t.Context()
	w.service("web", 4, w.a, w.b)
	account, err := w.a.NewServiceAccount(ctx, w.ns, "first", fleet.MemberRules()...)
	w.must(err)
	secret := w.projected()
	text, err := w.a.Cluster.Kubeconfig(account)
	w.must(err)
	secret.project(text)
	w.config.set(w.a.Name(), secret.path())
	w.start()
	w.converges(10 * time.Second)

	// Watches that run go on without rights; new ones are refused.
	blind, quiet := w.blind(w.a), w.quiet()
	w.must(w.a.Revoke(ctx, account.Name))
	w.crash(w.a)
	forbidden := w.reports(w.a.Name(), 20*time.Second, "forbidden", isForbidden)
	w.pause(2 * time.Second)
	w.must(w.a.Grant(ctx, account.Name, fleet.MemberRules()...))
	granted := w.reportsUp(w.a.Name(), 10*time.Second)
	quiet.End()
	w.seen(w.a, "granted")
	blind.End()

	// The token ends with its account.
	next, err := w.a.NewServiceAccount(ctx, w.ns, "second", fleet.MemberRules()...)
	w.must(err)
	blind, quiet = w.blind(w.a), w.quiet()
	w.must(w.a.Client.CoreV1().ServiceAccounts(w.ns).Delete(ctx, "first", metav1.DeleteOptions{}))
	w.crash(w.a) // a token is believed for a while
	expired := w.reports(w.a.Name(), 20*time.Second, "forbidden", isForbidden)
	text, err = w.a.Cluster.Kubeconfig(next)
	w.must(err)
	secret.project(text)
	replaced := w.reportsUp(w.a.Name(), 10*time.Second)
	quiet.End()
	w.seen(w.a, "replaced")
	blind.End()

	// Another way to the same cluster, while the old one still works.
	proxy, err := StartProxy(w.a.Cluster, w.seed)
	w.must(err)
	defer proxy.Close()
	text, err = proxy.Kubeconfig(next)
	w.must(err)
	quiet = w.quiet()
	list := &Fault{Match: Watches()}
	proxy.Set(list)
	secret.project(text)
	moved := w.eventually(10*time.Second, metAtLeast(list, 2))
	w.pause(time.Second)
	quiet.End()
	w.seen(w.a, "moved")
	t.Logf("forbidden reported after %s, rights in use after %s; expiry reported after %s, new token in use after %s, new address after %s",
		forbidden, granted, expired, replaced, moved)
	w.judge()
}

func isForbidden(c clusterStatus) bool { return c.State == "refused" }

// projection is a directory that holds one file as Kubernetes projects a Secret:
// a link to a link to the directory of the moment.
type projection struct {
	w     *world
	dir   string
	round int
}

func (w *world) projected() *projection {
	p := &projection{w: w, dir: filepath.Join(w.dir, "secret")}
	w.must(os.MkdirAll(p.dir, 0o700))
	return p
}

func (p *projection) path() string { return filepath.Join(p.dir, "kubeconfig") }

// project replaces the file.
func (p *projection) project(text []byte) {
	p.w.Helper()
	p.round++
	now := fmt.Sprintf("..round-%d", p.round)
	p.w.must(os.Mkdir(filepath.Join(p.dir, now), 0o700))
	p.w.must(os.WriteFile(filepath.Join(p.dir, now, "kubeconfig"), text, 0o600))
	p.w.must(os.Symlink(now, filepath.Join(p.dir, "..next")))
	p.w.must(os.Rename(filepath.Join(p.dir, "..next"), filepath.Join(p.dir, "..data")))
	if p.round == 1 {
		p.w.must(os.Symlink("..data/kubeconfig", p.path()))
		return
	}
	p.w.must(os.RemoveAll(filepath.Join(p.dir, fmt.Sprintf("..round-%d", p.round-1))))
}
