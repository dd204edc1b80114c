// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"tributary.dev/tributary/e2e/cluster"
)

// crashEnv makes this test binary the program that TestCrashLeavesNothing kills.
const crashEnv = "E2E_CLUSTER_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashEnv); dir != "" {
		beCrashed(dir)
	}
	code := m.Run()
	stopShared()
	os.Exit(code)
}

// sharedUser is known to the shared cluster from its start and may do everything.
var sharedUser = cluster.TokenUser("everyone's", "system:masters")

// staticUser is known to the shared cluster from its start and may do nothing.
var staticUser = cluster.TokenUser("system:serviceaccount:here:static", "system:serviceaccounts", "system:serviceaccounts:here")

// shared is the cluster of the tests that do not touch its servers.
var shared = sync.OnceValues(func() (*cluster.Cluster, error) {
	dir, err := os.MkdirTemp("", "tributary-cluster-test-")
	if err != nil {
		return nil, err
	}
	stopShared = func() { _ = os.RemoveAll(dir) }
	c, err := cluster.Start(context.Background(), cluster.Options{
		Name: "shared", Dir: dir, Audit: true, Tokens: []cluster.User{sharedUser, staticUser},
	})
	if err == nil {
		stopShared = func() {
			c.Close()
			_ = os.RemoveAll(dir)
		}
	}
	return c, err
})

var stopShared = func() {}

func getShared(t *testing.T) *cluster.Cluster {
	t.Helper()
	c, err := shared()
	must(t, err)
	return c
}

// limit bounds each wait of these tests; it only has to be longer than a busy machine needs.
const limit = time.Minute

func start(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	o.Name, o.Dir = "test", t.TempDir()
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func configMap(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := c.Client().CoreV1().ConfigMaps("default").Create(timeout(t, limit), object, metav1.CreateOptions{})
	must(t, err)
}

func hasConfigMap(t *testing.T, c *cluster.Cluster, name string) bool {
	t.Helper()
	_, err := c.Client().CoreV1().ConfigMaps("default").Get(timeout(t, limit), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func kubeSystemUID(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	ns, err := c.Client().CoreV1().Namespaces().Get(timeout(t, limit), "kube-system", metav1.GetOptions{})
	must(t, err)
	return string(ns.UID)
}

// TestServers does everything to one cluster that scenarios do to servers.
func TestServers(t *testing.T) {
	c := start(t, cluster.Options{Audit: true})
	version, err := c.Client().Discovery().ServerVersion()
	must(t, err)
	if version.GitVersion != "v1.36.3" || version.Minor != "36" {
		t.Errorf("version = %v, want that of go.mod", version)
	}
	t.Run("restart retains port and data", func(t *testing.T) {
		configMap(t, c, "before")
		must(t, c.APIServer().Restart(timeout(t, limit)))
		c.APIServer().Kill()
		must(t, c.Etcd().Restart(timeout(t, limit)))
		c.Etcd().Kill()
		must(t, c.Etcd().Start(timeout(t, limit)))
		must(t, c.APIServer().Start(timeout(t, limit)))
		if !hasConfigMap(t, c, "before") {
			t.Error("an object is gone after restarts")
		}
	})
	t.Run("frozen answers nothing", func(t *testing.T) {
		must(t, c.APIServer().Freeze())
		_, err := c.Client().CoreV1().Namespaces().List(timeout(t, 200*time.Millisecond), metav1.ListOptions{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("list from a frozen apiserver: %v", err)
		}
		must(t, c.APIServer().Thaw())
		kubeSystemUID(t, c)
	})
	t.Run("reset begins anew", func(t *testing.T) {
		uid := kubeSystemUID(t, c)
		_, err := c.Client().CoreV1().Namespaces().Create(timeout(t, limit), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, metav1.CreateOptions{})
		must(t, err)
		configMap(t, c, "left")
		must(t, c.APIServer().Freeze())
		c.Etcd().Kill()
		must(t, c.Reset(timeout(t, limit)))
		_, err = c.Client().CoreV1().Namespaces().Get(timeout(t, limit), "left", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || hasConfigMap(t, c, "left") || kubeSystemUID(t, c) != uid {
			t.Errorf("something is left, or too little: %v", err)
		}
		writes, err := c.Writes(timeout(t, limit))
		must(t, err)
		for _, w := range writes {
			if w.User != "system:apiserver" { // which writes its own endpoints whenever it likes
				t.Errorf("a write of before: %v", w)
			}
		}
	})
	t.Run("frozen can be killed", func(t *testing.T) {
		must(t, c.APIServer().Freeze())
		c.APIServer().Kill()
		must(t, c.APIServer().Start(timeout(t, limit)))
	})
	t.Run("restore goes back", func(t *testing.T) {
		configMap(t, c, "before")
		uid := kubeSystemUID(t, c)
		snapshot, err := c.Snapshot(timeout(t, limit))
		must(t, err)
		configMap(t, c, "after")
		revision, err := c.Revision(timeout(t, limit))
		must(t, err)
		must(t, c.Restore(timeout(t, limit), snapshot))
		if !hasConfigMap(t, c, "before") || hasConfigMap(t, c, "after") {
			t.Error("the store is not that of the snapshot")
		}
		restored, err := c.Revision(timeout(t, limit))
		must(t, err)
		t.Logf("revision %d, restored to %d", revision, restored)
		if kubeSystemUID(t, c) != uid {
			t.Error("the cluster became another one")
		}
	})
	t.Run("compaction makes old revisions gone", func(t *testing.T) { compaction(t, c) })
	t.Run("restoring nothing makes another cluster", func(t *testing.T) {
		uid := kubeSystemUID(t, c)
		must(t, c.Restore(timeout(t, limit), cluster.Snapshot{}))
		if kubeSystemUID(t, c) == uid {
			t.Error("the cluster still has its identity")
		}
	})
}

// compaction: a watch from an older revision gets an error.
func compaction(t *testing.T, c *cluster.Cluster) {
	old, err := c.Client().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	configMap(t, c, "newer")
	must(t, c.Compact(timeout(t, limit)))
	must(t, c.APIServer().Restart(timeout(t, limit)))
	w, err := c.Client().CoreV1().ConfigMaps("default").Watch(timeout(t, limit), metav1.ListOptions{ResourceVersion: old.ResourceVersion})
	if err == nil {
		event := <-w.ResultChan()
		w.Stop()
		err = apierrors.FromObject(event.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("watch from a compacted revision: %v", err)
	}
}

func TestUsersAndAudit(t *testing.T) {
	c := getShared(t)
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "delete"}},
	}
	ctx := timeout(t, limit)
	must(t, c.Grant(ctx, staticUser.Name, rules...))
	withCert, err := c.NewUser(ctx, "carol", rules...)
	must(t, err)
	account, err := c.NewServiceAccount(ctx, "here", "robot", rules...)
	must(t, err)
	for _, u := range []cluster.User{staticUser, withCert, account} {
		t.Run(u.Name, func(t *testing.T) {
			text, err := c.Kubeconfig(u)
			must(t, err)
			config, err := clientcmd.RESTConfigFromKubeConfig(text)
			must(t, err)
			client, err := kubernetes.NewForConfig(config)
			must(t, err)
			maps := client.CoreV1().ConfigMaps("default")
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
			_, err = maps.Create(ctx, object, metav1.CreateOptions{})
			must(t, err)
			_, err = maps.Create(ctx, object, metav1.CreateOptions{DryRun: []string{"All"}})
			if !apierrors.IsAlreadyExists(err) {
				t.Errorf("second create: %v", err)
			}
			if _, err = client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("list what is not granted: %v", err)
			}
			must(t, maps.Delete(ctx, "mine", metav1.DeleteOptions{}))
			writes, err := c.Writes(ctx)
			must(t, err)
			var got []string
			for _, w := range writes {
				if w.User == u.Name {
					got = append(got, fmt.Sprintf("%s %s/%s/%s %d %t", w.Verb, w.Resource, w.Namespace, w.Name, w.Code, w.DryRun))
				}
			}
			want := "create configmaps/default/mine 201 false, create configmaps/default/mine 409 true, delete configmaps/default/mine 200 false"
			if strings.Join(got, ", ") != want {
				t.Errorf("writes:\n got %s\nwant %s", strings.Join(got, ", "), want)
			}
			if again, err := c.Writes(ctx); err != nil || cluster.CountWrites(again, func(w cluster.Write) bool { return w.User == u.Name }) != 3 {
				t.Errorf("reading changed the count: %v", err)
			}
			must(t, c.Revoke(ctx, u.Name))
			refused := func() bool {
				_, err := maps.Get(ctx, "mine", metav1.GetOptions{})
				return apierrors.IsForbidden(err)
			}
			await(t, refused)
		})
	}
}

// await polls; RBAC takes effect when the apiserver's own watch has seen the change.
func await(t *testing.T, cond func() bool) {
	t.Helper()
	ctx := timeout(t, limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			t.Fatal("it did not happen in time")
		case <-tick.C:
		}
	}
}

func TestControllerManager(t *testing.T) {
	c := getShared(t)
	m, err := c.StartControllerManager(timeout(t, limit), cluster.ControllerManagerOptions{
		Controllers: []string{"endpoints-controller", "endpointslice-controller"},
	})
	must(t, err)
	ctx := timeout(t, limit)
	_, err = c.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "controllers"}}, metav1.CreateOptions{})
	must(t, err)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
	_, err = c.Client().CoreV1().Services("controllers").Create(ctx, service, metav1.CreateOptions{})
	must(t, err)
	await(t, func() bool {
		_, missing := c.Client().CoreV1().Endpoints("controllers").Get(ctx, "web", metav1.GetOptions{})
		slices, err := c.Client().DiscoveryV1().EndpointSlices("controllers").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		return missing == nil && err == nil && len(slices.Items) == 1
	})
	must(t, m.Stop(ctx))
}

func TestSharedEtcd(t *testing.T) {
	first := getShared(t)
	second, err := cluster.Start(t.Context(), cluster.Options{Name: "second", Dir: t.TempDir(), EtcdOf: first})
	must(t, err)
	defer second.Close()
	configMap(t, first, "apart")
	if hasConfigMap(t, second, "apart") || kubeSystemUID(t, first) == kubeSystemUID(t, second) {
		t.Error("two clusters on one etcd are not apart")
	}
}

func TestFailedStartTellsWhy(t *testing.T) {
	_, err := cluster.Start(t.Context(), cluster.Options{Name: "broken", Dir: t.TempDir(), APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "broken/kube-apiserver") || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("start with an unknown flag: %v", err)
	}
}

// TestCrashLeavesNothing kills a program with SIGKILL while its servers run, one of them frozen.
func TestCrashLeavesNothing(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(timeout(t, 2*limit), self)
	cmd.Env = append(os.Environ(), crashEnv+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "up"; {
		pid, err := strconv.Atoi(lines.Text())
		must(t, err)
		pids = append(pids, pid)
	}
	if len(pids) != 3 {
		t.Fatalf("servers of the child: %v, want 3", pids)
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("server %d does not run before the crash", pid)
		}
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	await(t, func() bool {
		for _, pid := range pids {
			if alive(pid) {
				return false
			}
		}
		return true
	})
}

// beCrashed starts servers, prints their process ids, and waits to be killed.
func beCrashed(dir string) {
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.Options{Name: "crash", Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m, err := c.StartControllerManager(ctx, cluster.ControllerManagerOptions{Controllers: []string{"endpoints-controller"}})
	if err == nil {
		err = c.APIServer().Freeze()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d\n%d\n%d\nup\n", c.Etcd().PID(), c.APIServer().PID(), m.PID())
	select {}
}

// alive reports whether a process exists and is no zombie that its new parent has yet to reap.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || !strings.Contains(string(text), ") Z ")
}
