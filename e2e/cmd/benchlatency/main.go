// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command benchlatency measures, on real clusters, how long after a member's
// API server acknowledged a change of a pod the ingress cluster shows it:
// through tributary, and through a null relay that does the least any
// replicator must do. The arms take turns on the same clusters (A B A B), so
// that their ratio holds although the machine's speed drifts. With -storm all of
// the member's Services are relabelled meanwhile, and with -ports get another port.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/latency"
)

const (
	memberName = "idc-a"
	namespace  = "bench"
)

type settings struct {
	tributary, former string
	samples           int
	pause             time.Duration
	storm, ports      bool
	services, rounds  int
}

// turn is how many samples are taken until the arms change; as many of each arm are thrown away first.
const turn = 50

func main() {
	if len(os.Args) > 1 && os.Args[1] == "relay" {
		os.Exit(relayMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "relabel" {
		os.Exit(relabelMain(os.Args[2:]))
	}
	var s settings
	flag.StringVar(&s.tributary, "tributary", "", "tributary binary; empty: build it")
	flag.IntVar(&s.samples, "samples", 600, "samples of each arm")
	flag.DurationVar(&s.pause, "pause", 5*time.Millisecond, "pause between samples")
	flag.BoolVar(&s.storm, "storm", false, "measure removals while all Services are relabelled, against a null relay in the same storm")
	flag.BoolVar(&s.ports, "ports", false, "with -storm: the Services get another port as well")
	flag.IntVar(&s.services, "services", 2000, "with -storm: how many Services are relabelled")
	flag.IntVar(&s.rounds, "rounds", 2, "with -storm: storms of each arm")
	flag.StringVar(&s.former, "former", "", "with -storm: other tributary binaries, with commas between, that take their turns, too")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "benchlatency:", err)
		os.Exit(1)
	}
}

// run starts the clusters, measures and prints.
func run(ctx context.Context, s settings) error {
	f, err := fleet.Start(ctx, fleet.Options{Members: []string{memberName}})
	if err != nil {
		return err
	}
	defer f.Close()
	arms, err := prepare(ctx, f)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d CPUs, %s/%s\n", cpuModel(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	if s.storm {
		return runStorm(ctx, f, arms, s)
	}
	return runRelays(ctx, f, arms, s)
}

// runRelays measures tributary against a null relay of each kind.
func runRelays(ctx context.Context, f *fleet.Fleet, arms []latency.Arm, s settings) error {
	tributary, err := startTributary(ctx, f, s.tributary)
	if err != nil {
		return err
	}
	defer tributary.Kill()
	for _, kind := range []latency.Kind{latency.Endpoints, latency.EndpointSlices} {
		stopRelay, err := startRelay(ctx, f, kind)
		if err != nil {
			return err
		}
		defer stopRelay()
	}
	if err := replicaExists(ctx, f); err != nil {
		return err
	}
	results, err := measure(ctx, f, arms, s)
	if err != nil {
		return err
	}
	own, err := ownStages(ctx, tributary)
	if err != nil {
		return err
	}
	fmt.Printf("%d samples an arm, arms change every %d\n\n", s.samples, turn)
	report(os.Stdout, results)
	printStages(os.Stdout, own)
	return nil
}

// The relay's objects have one name per kind; tributary's replica is "web".
func relayObject(kind latency.Kind) string {
	if kind == latency.Endpoints {
		return "relay-endpoints"
	}
	return "relay-slices"
}

// prepare makes the pods of all arms ready and returns the arms.
func prepare(ctx context.Context, f *fleet.Fleet) ([]latency.Arm, error) {
	member := f.Member(memberName)
	for _, site := range f.Sites() {
		if err := site.CreateNamespaces(ctx, namespace); err != nil {
			return nil, err
		}
	}
	if err := member.Create(ctx, fleet.NewService(namespace, "web")); err != nil {
		return nil, err
	}
	both := []latency.Kind{latency.Endpoints, latency.EndpointSlices}
	arms := []latency.Arm{{Name: "tributary", Namespace: namespace, Pod: "web-0", Object: "web", Kinds: both}}
	for _, kind := range both {
		object := relayObject(kind)
		arms = append(arms, latency.Arm{Name: "null relay, " + string(kind), Namespace: namespace, Pod: object, Object: object, Kinds: []latency.Kind{kind}})
		relay := latency.NullRelay{Ingress: f.Ingress.Client, Namespace: namespace, Pod: object, Object: object, Kind: kind}
		if err := relay.Create(ctx); err != nil {
			return nil, err
		}
	}
	for _, arm := range arms {
		app := arm.Pod
		if arm.Object == "web" {
			app = "web"
		}
		if err := member.RunPods(ctx, fleet.NewPod(namespace, arm.Pod, app)); err != nil {
			return nil, err
		}
	}
	return arms, nil
}

func startTributary(ctx context.Context, f *fleet.Fleet, binary string) (*fleet.Tributary, error) {
	listen, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(f.Dir, "tributary.yaml")
	if err := f.WriteConfig(config, listen); err != nil {
		return nil, err
	}
	return fleet.StartReady(ctx, fleet.TributaryOptions{Binary: binary, Config: config})
}

// replicaExists waits for the first fill, so that no arm measures it.
func replicaExists(ctx context.Context, f *fleet.Fleet) error {
	return fleet.Eventually(ctx, 30*time.Second, func(ctx context.Context) error {
		endpoints, err := f.Ingress.Client.CoreV1().Endpoints(namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(endpoints.Subsets) == 0 || len(endpoints.Subsets[0].Addresses) != 1 {
			return fmt.Errorf("replica %s/web has subsets %v, want one ready address", namespace, endpoints.Subsets)
		}
		return nil
	})
}
