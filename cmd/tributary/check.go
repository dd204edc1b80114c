// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/cmd/tributary/internal/app"
)

// checkCommand says whether run would work with a configuration.
func checkCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := newFlagSet("check", "--config FILE [flags]", "Validate a configuration, reach every cluster, check versions and rights.", stderr)
	path := addConfigFlag(fs)
	timeout := fs.Duration("timeout", 10*time.Second, "how long a cluster may take to answer")
	if code, done := parseFlags(fs, args, stdout, stderr); done {
		return code
	}
	watcher, code := openConfig("check", *path, stderr)
	if watcher == nil {
		return code
	}
	loaded := watcher.Loaded()
	results := checkAll(ctx, loaded, *timeout)
	printChecks(stdout, results)
	failed := false
	for _, r := range results {
		failed = failed || len(r.problems) > 0
		for _, problem := range r.problems {
			fmt.Fprintf(stderr, "tributary check: %s: %s\n", r.label(), problem)
		}
	}
	if faults := loaded.Faults(); len(faults) > 0 {
		printError(stderr, "check", faults)
		return exitUsage
	}
	if failed {
		return exitFailed
	}
	return exitOK
}

// checked is what was found out about one cluster.
type checked struct {
	name, role, server, version string
	// refused is set when the kubeconfig was not accepted, so nothing was asked.
	refused bool
	// problems keep run from working with this cluster; notes do not.
	problems, notes []string
}

func (c *checked) label() string {
	if c.role == "ingress" {
		return "ingress cluster"
	}
	return "cluster " + c.name
}

// checkAll asks every cluster at once; the ingress cluster comes first.
func checkAll(ctx context.Context, loaded *config.Loaded, timeout time.Duration) []checked {
	results := []checked{{name: "ingress", role: "ingress"}}
	for _, c := range loaded.Config.Clusters {
		results = append(results, checked{name: c.Name, role: "member"})
	}
	identities := make([]string, len(results))
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			asking, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			identities[i] = results[i].ask(asking, loaded)
		})
	}
	group.Wait()
	noteTwins(results, identities)
	return results
}

// ask fills in what the cluster answers and returns its identity, empty if it
// could not be read.
func (c *checked) ask(ctx context.Context, loaded *config.Loaded) (identity string) {
	access := loaded.Ingress
	if c.role == "member" {
		access = loaded.Members[c.name]
	}
	if access.REST == nil || access.Err != nil {
		c.refused = true
		return ""
	}
	c.server = access.REST.Host
	connection, err := connectForCheck(access.REST, c.label())
	if err != nil {
		c.problem(err)
		return ""
	}
	defer connection.Close()
	version, err := connection.Version(ctx)
	if err != nil {
		c.problem(fmt.Errorf("%w; is the server's address right, and does it run?", err))
		return ""
	}
	c.version = version.String()
	identity, _ = connection.Identity(ctx) // a missing right shows among the rights
	if c.role == "ingress" {
		c.askIngress(ctx, connection, loaded)
	} else {
		c.askMember(ctx, connection, loaded)
	}
	return identity
}

func connectForCheck(access *rest.Config, label string) (*kube.Connection, error) {
	return kube.Connect(access, kube.ConnectOptions{Cluster: label, Version: readBuildVersion().Version})
}

func (c *checked) askIngress(ctx context.Context, connection *kube.Connection, loaded *config.Loaded) {
	offered, err := app.OffersSlices(ctx, connection)
	if err != nil {
		c.problem(err)
		return
	}
	write := slices.Contains(loaded.Config.Replicas.Write, config.WriteEndpointSlices)
	if write && !offered {
		c.problem(app.ErrNoSlices)
	}
	c.askRights(ctx, connection, ingressNeeds(write && offered, loaded.Config.Replicas.CreateNamespaces, app.LeaseNamespace(&loaded.Config)))
}

func (c *checked) askMember(ctx context.Context, connection *kube.Connection, loaded *config.Loaded) {
	offered, err := app.OffersSlices(ctx, connection)
	if err != nil {
		c.problem(err)
		return
	}
	if !offered {
		c.notes = append(c.notes, "no discovery.k8s.io/v1: hand-written EndpointSlices are not replicated")
	}
	i := slices.IndexFunc(loaded.Config.Clusters, func(m config.Cluster) bool { return m.Name == c.name })
	c.askRights(ctx, connection, memberNeeds(loaded.Config.Clusters[i].Namespaces.Only(), offered))
}

func (c *checked) askRights(ctx context.Context, connection *kube.Connection, needs []need) {
	missing, err := missingRights(ctx, connection.Clientset(), needs)
	if err != nil {
		c.problem(err)
		return
	}
	for _, n := range missing {
		if n.without == "" {
			c.problem(fmt.Errorf("the user of the kubeconfig may not %s; grant it by RBAC (deploy/ has the roles)", n))
			continue
		}
		c.notes = append(c.notes, fmt.Sprintf("may not %s: %s", n, n.without))
	}
}

func (c *checked) problem(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w; a longer --timeout helps if the cluster is only slow", err)
	}
	c.problems = append(c.problems, err.Error())
}

// noteTwins says which names lead to the same cluster: allowed, and rarely
// meant.
func noteTwins(results []checked, identities []string) {
	first := map[string]string{}
	for i := range results {
		id := identities[i]
		if id == "" {
			continue
		}
		if other, seen := first[id]; seen {
			results[i].notes = append(results[i].notes, fmt.Sprintf("is the same cluster as %s", other))
			continue
		}
		first[id] = results[i].name
	}
}

// printChecks prints one line a cluster, and its notes below.
func printChecks(w io.Writer, results []checked) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tROLE\tRESULT\tVERSION\tSERVER\tNOTES")
	for _, r := range results {
		result := "ok"
		switch {
		case r.refused:
			result = "kubeconfig refused"
		case r.version == "":
			result = "unreachable"
		case len(r.problems) > 0:
			result = "failed"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.name, r.role, result, dash(r.version), dash(r.server), dash(strings.Join(r.notes, "; ")))
	}
	table.Flush()
}
