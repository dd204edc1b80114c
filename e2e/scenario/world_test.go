// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// soon is how long a change may take to become visible before a test fails. It
// is far above what is promised: these tests ask whether, not how fast.
const soon = 20 * time.Second

// world is a fleet and one tributary, each test's own for its time.
type world struct {
	*testing.T
	fleet  *fleet.Fleet
	dir    string
	config string
	listen string
	proc   *fleet.Tributary
}

var ground = fleettest.NewGround("idc-a", "idc-b", "idc-c")

func TestMain(m *testing.M) {
	code := m.Run()
	if err := ground.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// newWorld borrows a fleet, beside that of another test, and writes a configuration with these members, but does not start
// tributary. Without members all three are meant.
func newWorld(t *testing.T, members ...string) *world {
	t.Helper()
	t.Parallel()
	return worldOn(t, ground.Lend(t), members...)
}

func worldOn(t *testing.T, f *fleet.Fleet, members ...string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{T: t, fleet: f, dir: dir, config: filepath.Join(dir, "tributary.yaml"), listen: free(t)}
	sites := f.Members
	if len(members) > 0 {
		sites = slices.DeleteFunc(slices.Clone(sites), func(s *fleet.Site) bool { return !slices.Contains(members, s.Name()) })
	}
	w.configure(sites...)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// configure writes a configuration of the given members.
func (w *world) configure(members ...*fleet.Site) {
	w.Helper()
	w.must(w.fleet.WriteConfig(w.config, w.listen, members...))
}

// start runs tributary and waits until it is ready.
func (w *world) start() {
	w.Helper()
	w.proc = fleettest.RunTributary(w.T, fleet.TributaryOptions{Config: w.config})
	w.must(w.proc.WaitReady(w.Context()))
}

// shows waits until the replica has exactly the given lines: for slices as
// given, for Endpoints those of endpoints that are not terminating, without the
// cluster.
func (w *world) shows(namespace, name string, want ...string) {
	w.Helper()
	want = slices.Sorted(slices.Values(want)) // the caller keeps its order
	var inEndpoints []string
	for _, line := range want {
		if strings.Contains(line, "terminating") {
			continue
		}
		_, rest, _ := strings.Cut(line, " ")
		rest = strings.Replace(rest, " ready+serving", " ready", 1)
		inEndpoints = append(inEndpoints, strings.Replace(rest, " off", " notready", 1))
	}
	slices.Sort(inEndpoints)
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		got, err := sliceLines(ctx, w.fleet.Ingress.Client, namespace, name)
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("slices of %s/%s:\n got %q\nwant %q", namespace, name, got, want)
		}
		if got, err = endpointsLines(ctx, w.fleet.Ingress.Client, namespace, name); err != nil {
			return err
		}
		if !slices.Equal(got, inEndpoints) {
			return fmt.Errorf("endpoints of %s/%s:\n got %q\nwant %q", namespace, name, got, inEndpoints)
		}
		return nil
	})
}

// showsEndpoints waits until the replica's Endpoints have exactly the given lines.
func (w *world) showsEndpoints(namespace, name string, want ...string) {
	w.Helper()
	want = slices.Sorted(slices.Values(want)) // the caller keeps its order
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		got, err := endpointsLines(ctx, w.fleet.Ingress.Client, namespace, name)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("endpoints of %s/%s:\n got %q\nwant %q", namespace, name, got, want)
		}
		return err
	})
}

// command runs tributary to its end and returns exit code and all output.
func (w *world) command(args ...string) (code int, output string) {
	w.Helper()
	binary, err := fleet.BuildTributary(w.Context(), false)
	w.must(err)
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	w.must(err)
	return 0, string(out)
}

// gone waits until neither Service, Endpoints nor slices of the name are left.
func (w *world) gone(namespace, name string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		list, err := w.fleet.Ingress.Client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			return err
		}
		lines, err := endpointsLines(ctx, w.fleet.Ingress.Client, namespace, name)
		if err != nil {
			return err
		}
		slices, err := sliceLines(ctx, w.fleet.Ingress.Client, namespace, name)
		if err != nil {
			return err
		}
		if len(list.Items) > 0 || len(lines) == 0 || lines[0] != "none" || len(slices) > 0 {
			return fmt.Errorf("%s/%s: %d Services, endpoints %q, slices %q are left", namespace, name, len(list.Items), lines, slices)
		}
		return nil
	})
}

// writes counts what tributary wrote to the ingress cluster so far, as its API
// server saw it.
func (w *world) writes() int {
	w.Helper()
	writes, err := w.fleet.Ingress.Writes(w.Context())
	w.must(err)
	return cluster.CountWrites(writes, toReplicas(fleet.ProductUser))
}

// toReplicas selects what a user wrote to replicas: a leader renews its Lease also where
// nothing changes.
func toReplicas(user string) func(cluster.Write) bool {
	return func(one cluster.Write) bool {
		return one.User == user && (one.Resource == "services" || one.Resource == "endpoints" || one.Resource == "endpointslices" || one.Resource == "namespaces")
	}
}

// pod makes a ready pod of an app and returns it.
func (w *world) pod(site *fleet.Site, namespace, name, app string) *corev1.Pod {
	w.Helper()
	pod := fleet.NewPod(namespace, name, app)
	w.must(site.RunPods(w.Context(), pod))
	return pod
}

// line renders what a slice line of this pod should be.
func line(site *fleet.Site, pod *corev1.Pod, conditions string) string {
	return fmt.Sprintf("%s %s:8080/http %s", site.Name(), pod.Status.PodIP, conditions)
}

// namedPort is a Service port that pods resolve by name.
func namedPort(name string, number int32, target string) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(target)}
}

// follows waits until tributary follows exactly these members.
func (w *world) follows(members ...*fleet.Site) {
	w.Helper()
	var want []string
	for _, m := range members {
		want = append(want, m.Name())
	}
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		body, err := w.proc.Get(ctx, "/debug/status")
		if err != nil {
			return err
		}
		var status struct{ Clusters []struct{ Name string } }
		if err := json.Unmarshal(body, &status); err != nil {
			return err
		}
		var got []string
		for _, c := range status.Clusters {
			got = append(got, c.Name)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("tributary follows %q, want %q", got, want)
		}
		return nil
	})
}

// replaceConfig edits the configuration by replacing the file, as an editor
// does.
func (w *world) replaceConfig(edit func(string) string) {
	w.Helper()
	text, err := os.ReadFile(w.config)
	w.must(err)
	next := w.config + ".next"
	w.must(os.WriteFile(next, []byte(edit(string(text))), 0o600))
	w.must(os.Rename(next, w.config))
}
