// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Tributary at work on real clusters: an ingress cluster and
// two members with a rollout that never stops, a live table of what changes and
// how fast, and beside it the same change on its way through the member's own
// controller manager while that has a backlog. Meanwhile a rule is added to the
// configuration. Everything it starts ends with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

func main() {
	binary := flag.String("tributary", "", "tributary binary; empty: build it")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	limit, err := demoSeconds(os.Getenv("DEMO_SECONDS"))
	if err == nil {
		err = run(ctx, *binary, limit)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demoSeconds parses how long the demo lasts once its clusters run; 0 means
// until Ctrl-C.
func demoSeconds(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds <= 0 {
		return 0, fmt.Errorf("DEMO_SECONDS is %q; set it to a number of seconds above 0, or leave it out to run until Ctrl-C", text)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// run is the whole demo; it returns nil when the time is over or on Ctrl-C.
func run(ctx context.Context, binary string, limit time.Duration) error {
	say("starting an ingress cluster and two members: etcd and kube-apiserver, three times")
	f, err := fleet.Start(ctx, fleet.Options{Members: []string{"idc-a", "idc-b"}})
	if err != nil {
		return err
	}
	defer f.Close()
	rollouts, err := newRollouts(ctx, f)
	if err != nil {
		return err
	}
	if err := prepareRule(ctx, f.Member("idc-b")); err != nil {
		return err
	}
	config := filepath.Join(f.Dir, "tributary.yaml")
	proc, err := startTributary(ctx, f, binary, config)
	if err != nil {
		return err
	}
	defer proc.Kill()
	say("tributary runs; its page and metrics are at %s", proc.URL)

	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	board := newBoard(proc.URL, rollouts)
	group, running := errgroup.WithContext(ctx)
	for _, r := range rollouts {
		group.Go(func() error { return r.run(running) })
	}
	group.Go(func() error { return board.follow(running) })
	group.Go(func() error { return runContest(running, f.Member("idc-a"), f.Ingress, board) })
	group.Go(func() error { return runRule(running, config, board) })
	group.Go(func() error { return show(running, os.Stdout, board) })
	err = group.Wait()
	if ctx.Err() != nil {
		err = nil // the requested end
	}
	fmt.Println(board.summary())
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	return errors.Join(err, proc.Stop(stopping))
}

func startTributary(ctx context.Context, f *fleet.Fleet, binary, config string) (*fleet.Tributary, error) {
	listen := "127.0.0.1:9440" // of metrics and pages
	if !free(listen) {
		var err error
		if listen, err = cluster.FreeAddress(); err != nil {
			return nil, err
		}
	}
	if err := f.WriteConfig(config, listen); err != nil {
		return nil, err
	}
	return fleet.StartReady(ctx, fleet.TributaryOptions{Binary: binary, Config: config, Dir: f.Dir})
}

// say prints one line of what happens before the table appears.
func say(format string, args ...any) { fmt.Printf("· "+format+"\n", args...) }
