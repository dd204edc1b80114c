// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command checkmixin tests the dashboards and alerts of deploy/ on a real fleet
// whose pods come and go, with tributary and a Prometheus that scrapes it. Every
// query of every panel must return data; then each alert is caused, and must fire
// and end. The same Prometheus finds pods of both members through their replica,
// with kubernetes_sd, and scrapes them; so that they have addresses, all of it
// runs in a network namespace of its own.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/podnet"
)

// options are the flags.
type options struct {
	tributary, prometheus string
	discovery, native     bool
}

func main() {
	var o options
	flag.StringVar(&o.tributary, "tributary", "", "tributary binary; empty: build it")
	flag.StringVar(&o.prometheus, "prometheus", "", "Prometheus binary, such as that of `make bin/prometheus`")
	flag.BoolVar(&o.discovery, "discovery", true, "also let Prometheus find pods through replicas; it takes a network namespace (root, or user namespaces)")
	flag.BoolVar(&o.native, "native", true, "also scrape native histograms, which takes Prometheus 3.8 or later; false: scrape as before Prometheus 3")
	inside := flag.Bool("isolated", false, "for internal use: this is the network namespace")
	flag.Parse()
	if o.discovery && !*inside {
		code, err := isolated()
		if err != nil {
			fmt.Fprintln(os.Stderr, "checkmixin:", err, "(-discovery=false does without)")
		}
		os.Exit(code)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "checkmixin:", err)
		os.Exit(1)
	}
}

// isolated runs this program once more, in a network namespace where pods can have their addresses, and returns its exit code.
func isolated() (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	child := exec.Command(self, append(os.Args[1:], "-isolated")...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	return podnet.Run(child)
}

func run(ctx context.Context, o options) error {
	if o.prometheus == "" {
		return errors.New("-prometheus: set it to the path of a Prometheus binary")
	}
	var link *podnet.Link
	if o.discovery {
		var err error
		if link, err = podnet.NewLink(ctx); err != nil {
			return err
		}
	}
	fmt.Println("starting an ingress cluster and two members")
	f, err := fleet.Start(ctx, fleet.Options{Members: []string{"idc-a", "idc-b"}})
	if err != nil {
		return err
	}
	defer f.Close()
	scene, err := newScene(ctx, f, o.tributary)
	if err != nil {
		return err
	}
	defer scene.tributary.Kill()
	jobs := ""
	if o.discovery {
		if jobs, err = discoveryJobs(ctx, f.Ingress, f.Dir); err != nil {
			return err
		}
	}
	server, err := startPrometheus(ctx, f.Dir, o, scene.tributary.URL, jobs)
	if err != nil {
		return err
	}
	defer server.process.Kill()
	if err := churnAll(ctx, f); err != nil {
		return err
	}
	return check(ctx, o, server, scene, link)
}

// check checks the panels, then alerts and discovery.
func check(ctx context.Context, o options, server *prometheus, s *scene, link *podnet.Link) error {
	if err := checkPanels(ctx, server); err != nil {
		return err
	}
	if o.native {
		if err := hasData(ctx, server, `histogram_count(tributary_change_latency_seconds{stage="total"}) > 0`); err != nil {
			return fmt.Errorf("native histograms: %w", err)
		}
		fmt.Println("native histograms are scraped beside the classic ones")
	}
	if o.discovery {
		if err := checkDiscovery(ctx, server, s.fleet, link); err != nil {
			return err
		}
	}
	before := time.Now()
	if err := checkAlerts(ctx, server, s); err != nil {
		return err
	}
	return checkAnnotations(ctx, server, before)
}

// scene is a fleet with a tributary, and the file that it reads.
type scene struct {
	fleet     *fleet.Fleet
	tributary *fleet.Tributary
	config    string
}

func newScene(ctx context.Context, f *fleet.Fleet, binary string) (*scene, error) {
	listen, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &scene{fleet: f, config: filepath.Join(f.Dir, "tributary.yaml")}
	if err := f.WriteConfig(s.config, listen); err != nil {
		return nil, err
	}
	if err := observeNative(ctx, f, s.config); err != nil {
		return nil, err
	}
	for _, site := range f.Members {
		if err := errors.Join(endsIn(ctx, site, month), site.CreateNamespaces(ctx, namespace)); err != nil {
			return nil, err
		}
		for _, app := range apps {
			if err := site.Create(ctx, fleet.NewService(namespace, app)); err != nil {
				return nil, err
			}
		}
	}
	s.tributary, err = fleet.StartReady(ctx, fleet.TributaryOptions{Binary: binary, Config: s.config})
	return s, err
}

// observeNative runs the endpoints controller in the members and has tributary
// compare itself with it.
func observeNative(ctx context.Context, f *fleet.Fleet, config string) error {
	for _, site := range f.Members {
		if _, err := site.StartControllerManager(ctx, cluster.ControllerManagerOptions{Controllers: []string{"endpoints-controller"}}); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(config)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte("- kubeconfig:"), []byte("- observeNative: true\n  kubeconfig:"))
	return os.WriteFile(config, text, 0o644)
}
