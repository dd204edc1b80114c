// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
	"tributary.dev/tributary/e2e/podnet"
)

const (
	// insideEnv says that this is the network namespace of the pods.
	insideEnv = "TRIBUTARY_POD_NETWORK"
	rolled    = 10
	// startTime is how long a container takes to be ready, preStop how long one that is told to end serves on, and
	// serveTime how long a request takes: there is always something in flight.
	startTime = 300 * time.Millisecond
	preStop   = 3 * time.Second
	serveTime = 20 * time.Millisecond
)

// TestRollOutBehindHAProxy lets a Deployment of a member replace its ten pods while clients ask for them through a real
// HAProxy, which has its servers from the receiver of deploy/examples, which a sink of tributary tells. Each pod is a
// program at its own address; one that is told to end serves on for its preStop hook, answers what it has, and closes. No
// request fails.
func TestRollOutBehindHAProxy(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		inPodNetwork(t)
		return
	}
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		t.Fatal("no HAProxy in the PATH; `make haproxy` installs it (Debian: apt-get install haproxy): ", err)
	}
	link, err := podnet.NewLink(t.Context()) // and the loopback
	if err != nil {
		t.Fatal(err)
	}
	f := fleettest.Start(t, fleet.Options{Members: []string{"idc-a"}})
	w := worldOn(t, f)
	ctx, a := t.Context(), f.Member("idc-a")
	front := w.startHAProxy(haproxy)
	token := filepath.Join(w.dir, "haproxy.token")
	w.must(os.WriteFile(token, []byte("of-the-receiver\n"), 0o600))
	receiver := w.startReceiver(front.socket, token)
	w.replaceConfig(func(s string) string {
		return s + fmt.Sprintf("sinks:\n- name: haproxy\n  url: http://%s/\n  auth: {bearerTokenFile: %s}\n", receiver, token)
	})

	w.must(a.CreateNamespaces(ctx, "shop"))
	w.must(a.CreateNodes(ctx, fleet.NewNode(fleet.DefaultNode, "zone-a")))
	w.must(a.Create(ctx, fleet.NewService("shop", "web")))
	_, err = a.StartControllerManager(ctx, cluster.ControllerManagerOptions{Controllers: []string{"deployment-controller", "replicaset-controller"}})
	w.must(err)
	w.start()
	node := w.startNode(a, link)
	w.deploy(a, "app:1")
	front.serves(w, node)
	clients := drive(w, front.url)
	w.deploy(a, "app:2")
	front.serves(w, node)
	clients.judge(2 * rolled)
	if code, out := w.command("status", "--server", w.proc.URL); code != 0 || !strings.Contains(out, "haproxy") {
		t.Errorf("status: exit %d, and nothing of the sink in\n%s", code, out)
	}
	w.must(w.proc.Stop(ctx))
}

// inPodNetwork runs the test once more, in a network namespace where pods have addresses.
func inPodNetwork(t *testing.T) {
	for _, build := range []func(context.Context) (string, error){
		cluster.Binary, fleet.BuildReceiver,
		func(ctx context.Context) (string, error) { return fleet.BuildTributary(ctx, false) },
	} { // there is no way out to modules from in there
		if _, err := build(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), insideEnv+"=yes")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if code, err := podnet.Run(cmd); err != nil || code != 0 {
		t.Fatalf("exit %d: %v", code, err)
	}
}

func free(t *testing.T) string {
	t.Helper()
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// front is a running HAProxy.
type front struct{ url, socket string }

// startHAProxy starts one with the configuration of deploy/examples.
func (w *world) startHAProxy(binary string) front {
	w.Helper()
	text, err := os.ReadFile("../../deploy/examples/haproxy/haproxy.cfg")
	w.must(err)
	dir, err := os.MkdirTemp("", "haproxy") // sockets have short names
	w.must(err)
	w.Cleanup(func() { _ = os.RemoveAll(dir) })
	address := free(w.T)
	f := front{url: "http://" + address, socket: filepath.Join(dir, "admin.sock")}
	config := strings.NewReplacer("/run/haproxy/admin.sock", f.socket, "bind :80", "bind "+address).Replace(string(text))
	path := filepath.Join(dir, "haproxy.cfg")
	w.must(os.WriteFile(path, []byte(config), 0o600))
	w.run(cluster.ProcessOptions{Name: "haproxy", Path: binary, Args: []string{"-db", "-f", path}, Log: filepath.Join(w.dir, "haproxy.log"),
		Ready: func(context.Context) error { _, err := f.servers(); return err }})
	return f
}

// startReceiver starts the receiver of deploy/examples, and returns where it listens.
func (w *world) startReceiver(socket, token string) (address string) {
	w.Helper()
	binary, err := fleet.BuildReceiver(w.Context())
	w.must(err)
	address = free(w.T)
	w.run(cluster.ProcessOptions{
		Name: "receiver", Path: binary, Args: []string{"-listen", address, "-socket", socket, "-token-file", token},
		Log: filepath.Join(w.dir, "receiver.log"),
		Ready: func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err == nil {
				conn.Close()
			}
			return err
		},
	})
	return address
}

// run starts a program that ends with the test.
func (w *world) run(o cluster.ProcessOptions) {
	w.Helper()
	p := cluster.NewProcess(o)
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("%s says:\n%s", o.Name, p.Tail(40))
		}
		p.Kill()
	})
	ctx, cancel := context.WithTimeout(w.Context(), soon)
	defer cancel()
	w.must(p.Start(ctx))
}

// servers are the addresses that HAProxy sends new requests to, sorted.
func (f front) servers() ([]string, error) {
	conn, err := net.Dial("unix", f.socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "show servers state shop_web\n"); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(answer)) {
		// be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state
		if fields := strings.Fields(line); len(fields) > 6 && fields[1] == "shop_web" && fields[6] == "0" {
			out = append(out, fields[4])
		}
	}
	slices.Sort(out)
	return out, nil
}

// serves waits until HAProxy has all running pods as servers, and no other.
func (f front) serves(w *world, n *node) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(context.Context) error {
		got, err := f.servers()
		if want := n.addresses(); err == nil && (!slices.Equal(got, want) || len(want) != rolled) {
			err = fmt.Errorf("HAProxy has servers at %q; pods run at %q", got, want)
		}
		return err
	})
}

// deploy makes the Deployment run an image, and waits until all its pods do.
func (w *world) deploy(site *fleet.Site, image string) {
	w.Helper()
	ctx, client := w.Context(), site.Client.AppsV1().Deployments("shop")
	pod := fleet.NewPod("shop", "web", "web")
	pod.Spec.Containers[0].Image = image
	// Nobody schedules here. The rest is what every Deployment does unless it is told otherwise.
	want := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(rolled)), Selector: metav1.SetAsLabelSelector(pod.Labels),
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
	}}
	_, err := client.Create(ctx, want, metav1.CreateOptions{})
	if err != nil {
		_, err = client.Update(ctx, want, metav1.UpdateOptions{})
	}
	w.must(err)
	fleettest.Eventually(w.T, time.Minute, func(ctx context.Context) error {
		is, err := client.Get(ctx, "web", metav1.GetOptions{})
		if s := is.Status; err == nil && (s.ObservedGeneration != is.Generation || s.UpdatedReplicas != rolled || s.Replicas != rolled || s.AvailableReplicas != rolled) {
			err = fmt.Errorf("%d pods, %d of them are of %s, %d are available", s.Replicas, s.UpdatedReplicas, image, s.AvailableReplicas)
		}
		return err
	})
}

// node is where the pods of a member run, and its kubelet.
type node struct {
	*world
	site *fleet.Site
	link *podnet.Link
	mu   sync.Mutex
	// running are the pods that have not been told to end, with their addresses; met are all.
	running map[types.UID]string
	met     map[types.UID]*container
	group   sync.WaitGroup
}

// container is the program of a pod.
type container struct {
	server  *http.Server
	started chan struct{}
	ends    sync.Once
}

func (w *world) startNode(site *fleet.Site, link *podnet.Link) *node {
	w.Helper()
	n := &node{world: w, site: site, link: link, running: map[types.UID]string{}, met: map[types.UID]*container{}}
	ctx, cancel := context.WithCancel(w.Context())
	pods, err := site.Client.CoreV1().Pods("shop").Watch(ctx, metav1.ListOptions{})
	w.must(err)
	var watching sync.WaitGroup
	watching.Go(func() {
		for event := range pods.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Deleted {
				n.see(ctx, pod)
			}
		}
	})
	w.Cleanup(func() {
		cancel()
		pods.Stop()
		watching.Wait()
		for _, c := range n.met {
			_ = c.server.Close()
		}
		n.group.Wait()
	})
	return n
}

// see starts a pod that is new, and ends one that is deleted.
func (n *node) see(ctx context.Context, pod *corev1.Pod) {
	c := n.met[pod.UID]
	if c == nil {
		c = &container{started: make(chan struct{}), server: &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
			if wait(in.Context(), serveTime) == nil {
				_, _ = io.WriteString(out, pod.Name)
			}
		})}}
		n.met[pod.UID] = c
		n.group.Go(func() {
			defer close(c.started)
			n.note(ctx, n.start(ctx, pod, c))
		})
	}
	if pod.DeletionTimestamp != nil {
		c.ends.Do(func() { n.group.Go(func() { n.note(ctx, n.end(ctx, pod, c)) }) })
	}
}

// note reports what a kubelet cannot do, unless the test is over.
func (n *node) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		n.Error(err)
	}
}

func (n *node) start(ctx context.Context, pod *corev1.Pod, c *container) error {
	pod, address := pod.DeepCopy(), n.site.NextIP().String()
	if err := n.link.Add(ctx, address); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, fleet.PodPort))
	if err != nil {
		return err
	}
	n.group.Go(func() { _ = c.server.Serve(listener) })
	if err := wait(ctx, startTime); err != nil {
		return err
	}
	n.mu.Lock()
	n.running[pod.UID] = address
	n.mu.Unlock()
	pod.Status.PodIP = address
	return n.site.ReportRunning(ctx, pod, true)
}

func (n *node) end(ctx context.Context, pod *corev1.Pod, c *container) error {
	<-c.started
	n.mu.Lock()
	delete(n.running, pod.UID)
	n.mu.Unlock()
	if err := wait(ctx, preStop); err != nil {
		return err
	}
	if err := c.server.Shutdown(ctx); err != nil {
		return err
	}
	return n.site.Remove(ctx, pod.Namespace, pod.Name)
}

// addresses are those of the pods that run and were not told to end, sorted.
func (n *node) addresses() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	for _, address := range n.running {
		all = append(all, address)
	}
	slices.Sort(all)
	return all
}

// clients ask one after the other, and count.
type clients struct {
	*world
	stop   context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	by     map[string]int // answers, by pod
	failed []string
}

// drive lets eight clients ask until they are judged.
func drive(w *world, url string) *clients {
	ctx, cancel := context.WithCancel(w.Context())
	c := &clients{world: w, stop: cancel, by: map[string]int{}}
	for range 8 {
		c.group.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: soon}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				c.ask(client, url)
			}
		})
	}
	w.Cleanup(func() {
		cancel()
		c.group.Wait()
	})
	return c
}

func (c *clients) ask(client *http.Client, url string) {
	resp, err := client.Get(url)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", resp.Status, body)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed = append(c.failed, fmt.Sprint(time.Now().Format(time.StampMilli), " ", err))
		return
	}
	c.by[string(body)]++
}

// judge ends the requests when each pod has answered some, the last to come included: none may have failed.
func (c *clients) judge(pods int) {
	c.Helper()
	fleettest.Eventually(c.T, soon, func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.by) != pods {
			return fmt.Errorf("%d pods answered, want %d: %v", len(c.by), pods, c.by)
		}
		return nil
	})
	c.stop()
	c.group.Wait()
	answered := 0
	for _, n := range c.by {
		answered += n
	}
	c.Logf("%d requests answered by %d pods, %d failed", answered, len(c.by), len(c.failed))
	if len(c.failed) > 0 {
		c.Errorf("%d requests failed, among them %q", len(c.failed), c.failed[:min(3, len(c.failed))])
	}
}
