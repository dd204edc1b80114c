// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command consumers measures the effect of events of pods on consumers of a replica: Traefik by both of its providers,
// Ingress and Gateway API, and CoreDNS. HTTP servers are the pods of two members, in a network namespace of their own.
// The arms alternate: tributary; stock controllers with a copier; and one member that the consumer reads directly.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/cluster/buildcache"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/podnet"
)

// insideEnv is set in the process that runs in the network namespace.
const insideEnv = "TRIBUTARY_CONSUMERS_INSIDE"

var everything = rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}

// programs are what is measured, and examples the directory with its configuration.
type programs struct{ binary, traefik, coredns, examples string }

const (
	podsOfArm = 6 // over its members
	// rate is the requests a second through each front.
	rate = 50
	// stormServices is the Services of a storm, in each member.
	stormServices = 500
	// throttle is Traefik's providersThrottleDuration.
	throttle = 100 * time.Millisecond
)

// graces are the grace periods of the roll-outs.
var graces = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}

func main() {
	var s programs
	flag.StringVar(&s.binary, "tributary", "", "tributary binary; empty: build it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "consumers:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, s programs) (code int, err error) {
	if s.traefik, err = build(ctx, traefikModule, "./cmd/traefik"); err != nil {
		return 1, err
	}
	if s.coredns, err = build(ctx, corednsModule, "."); err != nil {
		return 1, err
	}
	if s.binary == "" {
		if s.binary, err = fleet.BuildTributary(ctx, false); err != nil {
			return 1, err
		}
	}
	module, err := buildcache.ModuleDir()
	if err != nil {
		return 1, err
	}
	s.examples = filepath.Join(filepath.Dir(module), "deploy", "examples", "consumers")
	if os.Getenv(insideEnv) != "" {
		return measure(ctx, s)
	}
	// Modules cannot be downloaded in there.
	if _, err := cluster.Binary(ctx); err != nil {
		return 1, err
	}
	if _, err := moduleDir(ctx, gatewayModule); err != nil {
		return 1, err
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=yes")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return podnet.Run(cmd)
}

// row is one event as seen by one front of an arm.
type row struct {
	event, arm, front string
	tally             tally
	names             time.Duration
	named             bool
	clean             bool
}

func measure(ctx context.Context, s programs) (code int, err error) {
	w, err := newWorld(ctx, s)
	if err != nil {
		return 1, err
	}
	defer func() {
		if closed := w.close(); err == nil {
			err = closed
		}
	}()
	if err := w.startTributary(ctx); err != nil {
		return 1, err
	}
	arms := []string{armTributary, armStock, armDirect}
	for _, arm := range arms {
		if err := rollOut(ctx, w, arm, 5*time.Second); err != nil {
			return 1, err
		}
	}
	var rows []row
	for _, e := range w.events() {
		for _, arm := range arms {
			if e.only != "" && e.only != arm {
				continue
			}
			more, err := w.through(ctx, e, arm)
			if err != nil {
				return 1, fmt.Errorf("%s, %s: %w", e.name, arm, err)
			}
			rows = append(rows, more...)
		}
	}
	if err := w.failover(ctx, os.Stdout); err != nil {
		return 1, fmt.Errorf("failover: %w", err)
	}
	return report(os.Stdout, rows), nil
}

// fronts returns the fronts of an arm.
func fronts(arm string) []front {
	address := traefikAddress
	if arm == armDirect {
		address = directAddress
	}
	return []front{
		{"Traefik, Ingress", address, "ingress." + arm + ".example"},
		{"Traefik, Gateway API", address, "gateway." + arm + ".example"},
	}
}

// settle is how long everything is quiet before an event and after it.
const settle = 3 * time.Second

// through plays one event on one arm, under load.
func (w *world) through(ctx context.Context, e event, arm string) (rows []row, err error) {
	if err := w.serves(ctx, arm); err != nil {
		return nil, err
	}
	before := w.dead(arm)
	var loads []*load
	for _, f := range fronts(arm) {
		loads = append(loads, startLoad(ctx, f, rate))
	}
	var n *names
	if arm != armDirect {
		n = startNames(ctx, dnsAddress, service+"."+arm+".svc.cluster.local.")
	}
	fleet.Wait(ctx, settle)
	err = e.do(ctx, w, arm)
	fleet.Wait(ctx, settle)
	dead := slices.DeleteFunc(w.dead(arm), func(c *container) bool { return slices.Contains(before, c) })
	for i, l := range loads {
		r := row{event: e.name, arm: arm, front: l.front.name, tally: l.stop(), clean: e.clean}
		for _, c := range dead {
			if asked := c.asked.Load(); asked != 0 {
				r.tally.lastDead = max(r.tally.lastDead, time.Duration(asked-c.died.Load()))
			}
		}
		if i == 0 && n != nil {
			r.names, r.named = n.stop(dead), true
		}
		rows = append(rows, r)
	}
	for _, k := range w.kubelets {
		if err == nil {
			err = k.failed
		}
	}
	return rows, err
}

// serves waits until every front of an arm answers from a pod.
func (w *world) serves(ctx context.Context, arm string) error {
	for _, f := range fronts(arm) {
		l := &load{front: f}
		err := fleet.Eventually(ctx, time.Minute, func(ctx context.Context) error {
			l.tally = newTally()
			l.client = newClient()
			l.ask(ctx)
			if len(l.tally.by) == 0 {
				return fmt.Errorf("%s of %s: %s", f.name, arm, l.tally)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func report(out io.Writer, rows []row) (code int) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EVENT\tARM\tFRONT\tREQUESTS\tFAILED\tTO THE DEAD\tLAST TO THE DEAD AFTER ms\tLAST RECORD OF THE DEAD AFTER ms\tWHY")
	for _, r := range rows {
		names := "-"
		if r.named {
			names = strconv.FormatInt(max(0, r.names.Milliseconds()), 10)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", r.event, r.arm, r.front, r.tally.requests, r.tally.failed, r.tally.dead, r.tally.lastDead.Milliseconds(), names, r.tally)
	}
	table.Flush()
	for _, r := range rows {
		if r.clean && r.arm == armTributary && r.tally.failed > 0 {
			fmt.Fprintf(out, "MISSED: %s, %s: %d requests failed, none may\n", r.event, r.front, r.tally.failed)
			code = 1
		}
	}
	failed := map[string]int{}
	for _, r := range rows {
		if strings.HasPrefix(r.event, "roll-out in a storm") {
			failed[r.arm] += r.tally.failed
		}
	}
	if stock := failed[armStock]; stock > 0 {
		ratio := float64(failed[armTributary]) / float64(stock)
		fmt.Fprintf(out, "failures in a storm, tributary / stock: %.3f\n", ratio)
		if ratio > 0.01 {
			fmt.Fprintln(out, "MISSED: at most 0.01")
			code = 1
		}
	}
	return code
}

// metric returns the value of a gauge without labels.
func metric(exposition []byte, name string) float64 {
	for line := range bytes.Lines(exposition) {
		if value, found := bytes.CutPrefix(line, []byte(name+" ")); found {
			n, _ := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
			return n
		}
	}
	return -1
}
