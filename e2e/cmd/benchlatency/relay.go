// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/latency"
)

// relayMain is the null relay as a process of its own, as tributary is one. It
// ends when its standard input does, so it cannot outlive its parent.
func relayMain(args []string) int {
	fs := flag.NewFlagSet("relay", flag.ExitOnError)
	member := fs.String("member", "", "kubeconfig of the member")
	ingress := fs.String("ingress", "", "kubeconfig of the ingress cluster")
	kind := fs.String("kind", "", "kind to write")
	fs.Parse(args)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := relay(ctx, *member, *ingress, latency.Kind(*kind)); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		return 1
	}
	return 0
}

func relay(ctx context.Context, memberConfig, ingressConfig string, kind latency.Kind) error {
	member, err := latency.RawClient(memberConfig)
	if err != nil {
		return err
	}
	ingress, err := latency.RawClient(ingressConfig)
	if err != nil {
		return err
	}
	r := latency.NullRelay{Member: member, Ingress: ingress, Namespace: namespace, Pod: relayObject(kind), Object: relayObject(kind), Kind: kind}
	return r.Run(ctx, func() { fmt.Println("relaying") })
}

// startRelay starts a relay process and waits until its watch is open.
func startRelay(ctx context.Context, f *fleet.Fleet, kind latency.Kind) (stop func(), err error) {
	child, err := latency.StartChild(ctx, "relay", "-kind", string(kind), "-member", f.Member(memberName).Kubeconfig, "-ingress", f.Ingress.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("start null relay: %w", err)
	}
	if _, err := bufio.NewReader(child.Output).ReadString('\n'); err != nil {
		child.End()
		return nil, fmt.Errorf("null relay for %s ended before its watch was open: %w", kind, err)
	}
	return func() { child.End() }, nil
}
