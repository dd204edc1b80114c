// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command benchscale measures tributary at the size of a large company: what a cold fill, a start with nothing to write,
// memory and an event that changes nothing cost, beside a bare loop of the same writes, a bare read of the same objects
// and client-go's informers of them, all on the same real clusters in one run. With -former other binaries take their
// turns as well, with -shards several installations that share the namespaces. Latency at that size is measured by
// benchlatency.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

type settings struct {
	tributary, former, shards string
	services, pods, members   int
	rounds, events            int
	settle                    time.Duration
	served                    bool
}

const (
	// writers is how many the bare loop has.
	writers = 64
	// environment is the variables of a pod's container, which make pods as large as real ones are.
	environment = 20
)

func main() {
	if len(os.Args) > 1 && (os.Args[1] == readOnce || os.Args[1] == readAndKeep || os.Args[1] == watchOnly) {
		if err := bare(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "benchscale:", err)
			os.Exit(1)
		}
		return
	}
	var s settings
	flag.StringVar(&s.tributary, "tributary", "", "tributary binary; empty: build it")
	flag.StringVar(&s.former, "former", "", "other tributary binaries, with commas between, that take their turns, too")
	flag.StringVar(&s.shards, "shards", "", "numbers of installations, with commas between, that share the namespaces and take their turns, too")
	flag.IntVar(&s.services, "services", 13000, "Services")
	flag.IntVar(&s.pods, "pods", 12, "pods of each Service, over its members")
	flag.IntVar(&s.members, "members", 1, "members; each Service is in three of them, if there are so many")
	flag.IntVar(&s.rounds, "rounds", 3, "starts with nothing to write, of each arm")
	flag.IntVar(&s.events, "events", 10000, "pod events that change nothing")
	flag.DurationVar(&s.settle, "settle", 5*time.Minute, "how long after the last write memory is read")
	flag.BoolVar(&s.served, "served", false, "members are no clusters, but served from what was prepared: for more of them than a machine carries; nothing changes in them, so that -events is 0")
	flag.Parse()
	if s.served {
		s.events = 0
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "benchscale:", err)
		os.Exit(1)
	}
}

// arm is a tributary, or several installations of it that share the namespaces, and their results together.
type arm struct {
	name, binary                 string
	shards                       int
	fill                         time.Duration
	starts                       []time.Duration
	written                      bool // whether a start wrote something
	filled, started, peak, event float64
	bareEvent                    float64 // of a bare watch at the same time
}

func run(ctx context.Context, s settings) error {
	members := s.members
	if s.served {
		members = 0
	}
	f, err := startFleet(ctx, members)
	if err != nil {
		return err
	}
	defer f.Close()
	b := &bench{settings: s, fleet: f}
	defer func() {
		for _, one := range b.stubs {
			one.close()
		}
	}()
	began := time.Now()
	if err := b.populate(ctx); err != nil {
		return err
	}
	fmt.Printf("%d Services and %d pods over %d members, stored in %.1f s\n", s.services, s.services*s.pods, s.members, time.Since(began).Seconds())
	bareRate, err := b.bareFill(ctx)
	if err != nil {
		return err
	}
	arms := []*arm{{name: "tributary", binary: s.tributary, shards: 1}}
	for _, binary := range strings.FieldsFunc(s.former, func(r rune) bool { return r == ',' }) {
		arms = append(arms, &arm{name: filepath.Base(binary), binary: binary, shards: 1})
	}
	for _, one := range strings.FieldsFunc(s.shards, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(one)
		if err != nil || n < 1 || n > namespaces {
			return fmt.Errorf("-shards: %q is no number from 1 to %d", one, namespaces)
		}
		arms = append(arms, &arm{name: one + " installations", binary: s.tributary, shards: n})
	}
	var reads []time.Duration
	for _, a := range arms {
		read, err := b.measure(ctx, a)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		reads = append(reads, read...)
	}
	informers, err := b.informers(ctx)
	if err != nil {
		return err
	}
	b.report(os.Stdout, arms, bareRate, median(reads), informers)
	return nil
}

// startFleet starts an ingress cluster and members, which share one etcd where they are many.
func startFleet(ctx context.Context, members int) (f *fleet.Fleet, err error) {
	options := fleet.Options{Adjust: func(name string, o *cluster.Options) {
		if name != fleet.IngressName && name != memberName(0) {
			o.EtcdOf = f.Members[0].Cluster
		}
	}}
	if f, err = fleet.Start(ctx, options); err != nil {
		return nil, err
	}
	for i := range members {
		if _, err := f.AddMember(ctx, memberName(i)); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

func memberName(i int) string { return fmt.Sprintf("idc-%02d", i) }
