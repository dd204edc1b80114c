// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/reconcile/sinks"
)

const (
	// checkTimeout is how long a cluster, or a receiver, may take to answer.
	checkTimeout = 15 * time.Second
	// expiresSoon is when the end of a credential is worth a note.
	expiresSoon = 7 * 24 * time.Hour
	// skewAllowed is how far clocks may differ; servers tell whole seconds.
	skewAllowed = 5 * time.Second
)

// newCheckCommand says whether run would work with a configuration.
func newCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check --config FILE", Short: "Validate a configuration, reach every cluster, check versions and rights", Args: cobra.NoArgs,
		Long: "Validate a configuration, reach every cluster, check versions and rights. Nothing is written.\n\n" +
			"The exit code is 0 exactly when nothing would keep run from working with every cluster, 2 if the configuration\n" +
			"or a kubeconfig is not valid, and 1 if something else is wrong.",
		Example: "  tributary check --config tributary.yaml",
	}
	path, output := addConfigFlag(cmd), addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		watcher, err := openConfig(*path)
		if err != nil {
			return err
		}
		k := checker{watcher: watcher, loaded: watcher.Loaded()}
		all := k.clusters(cmd.Context())
		if err := show(cmd.OutOrStdout(), *output, all, func(p *printer) { printChecks(p, all) }); err != nil {
			return err
		}
		var problems []error
		for _, c := range all {
			for _, problem := range c.Problems {
				problems = append(problems, fmt.Errorf("%s: %s", c.Cluster, problem))
			}
		}
		problems = append(problems, k.sinks(cmd.Context())...)
		if err := k.loaded.Err(); err != nil {
			return usage{errors.Join(append([]error{err}, problems...)...)}
		}
		return errors.Join(problems...)
	}
	return cmd
}

// checked is what was found out about one cluster.
type checked struct {
	Cluster string `json:"cluster"`
	Role    string `json:"role"`
	// Result is "ok", "failed", "unreachable" or "kubeconfig refused".
	Result  string `json:"result"`
	Server  string `json:"server,omitempty"`
	Version string `json:"version,omitempty"`
	// Expires is when the credential ends; zero: it does not, or does not say.
	Expires time.Time `json:"expires,omitzero"`
	// Problems keep run from working with this cluster; Notes do not.
	Problems []string `json:"problems,omitempty"`
	Notes    []string `json:"notes,omitempty"`

	identity string
}

func (c *checked) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// problem notes what keeps run from working; the result says so from then on.
func (c *checked) problem(result, format string, args ...any) {
	c.Result = result
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

// checker asks all clusters of a configuration.
type checker struct {
	watcher *config.Watcher
	loaded  *config.Loaded
}

// clusters asks the ingress cluster, for the Secrets that are members, too, and then every
// member at once.
func (k *checker) clusters(ctx context.Context) []*checked {
	ingress := &checked{Cluster: "ingress", Role: "ingress", Result: "ok"}
	ingress.check(ctx, k.loaded.Ingress, func(ctx context.Context, session *kube.Session) { k.ingress(ctx, ingress, session) })
	all := []*checked{ingress}
	var group sync.WaitGroup
	for i := range k.loaded.Config.Clusters {
		member := &k.loaded.Config.Clusters[i]
		c := &checked{Cluster: member.Name, Role: "member", Result: "ok"}
		all = append(all, c)
		group.Go(func() {
			access := k.loaded.Members[member.Name]
			c.check(ctx, access, func(ctx context.Context, session *kube.Session) { c.rights(ctx, session, memberNeeds(member)) })
		})
	}
	group.Wait()
	noteOverlaps(all, k.loaded.Config.Clusters)
	return all
}

// check fills in what a cluster answers, and lets more be asked.
func (c *checked) check(ctx context.Context, access config.Access, more func(context.Context, *kube.Session)) {
	if access.REST == nil || access.Err != nil {
		c.Result = "kubeconfig refused"
		return // why is told with all other faults of files
	}
	c.Server = access.REST.Host
	if access.Note != "" {
		c.note("%s", access.Note)
	}
	c.Expires = kubeconfig.Expires(access.REST)
	switch left := time.Until(c.Expires); {
	case c.Expires.IsZero():
	case left <= 0:
		c.problem("failed", "the credential of the kubeconfig ended %s ago; put a new one in its place (of a member: tributary link)", duration.HumanDuration(-left))
	case left < expiresSoon:
		c.note("the credential ends in %s", duration.HumanDuration(left))
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	session, err := kube.Open(ctx, access.REST, kube.Options{Cluster: c.Cluster, Version: build().Version})
	if err == nil {
		defer session.Close()
		c.Version = session.Version()
	}
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		c.problem("failed", "%v; it is reached, and refuses the credential: put a new one in its place (of a member: tributary link)", err)
		return
	case err != nil:
		c.problem("unreachable", "%v; is the server's address right, and does it run?", err)
		return
	}
	if c.identity = session.Identity(); c.identity == "" {
		c.note("may not read namespace kube-system: another cluster at the same address is not recognised")
	}
	if ahead := session.ClockOffset(); ahead.Abs() > skewAllowed {
		c.note("its clock and the one here differ by %s", duration.HumanDuration(ahead.Abs()))
	}
	more(ctx, session)
}

// ingress asks what concerns the ingress cluster alone.
func (k *checker) ingress(ctx context.Context, c *checked, session *kube.Session) {
	conf := k.loaded.Config
	if v, err := utilversion.ParseGeneric(c.Version); err == nil && !v.AtLeast(utilversion.MajorMinor(1, 21)) {
		c.problem("failed", "it does not offer discovery.k8s.io/v1, which Kubernetes 1.21 and newer do")
	}
	if want := conf.Ingress.Identity; want != "" && c.identity != want {
		c.problem("failed", "%v: its kube-system namespace has UID %q, and ingress.identity is %q", kube.ErrOtherCluster, c.identity, want)
	}
	if !conf.LeaderElection.Enabled {
		c.note("leader election is turned off: run one process alone")
	}
	c.rights(ctx, session, ingressNeeds(conf))
	if conf.ClustersFrom.Secrets == nil {
		return
	}
	secrets, err := app.ReadSecrets(ctx, session, conf)
	if err != nil {
		c.problem("failed", "%v", err)
		return
	}
	if len(secrets) == 0 {
		c.note("no Secret of namespace %s matches clustersFrom.secrets.selector (%s)", conf.Namespace, conf.ClustersFrom.Secrets.Selector)
	}
	k.loaded = k.watcher.Use(secrets)
}

// rights asks the cluster which of the needs are not granted.
func (c *checked) rights(ctx context.Context, session *kube.Session, needs []need) {
	missing, err := missingRights(ctx, session.Clientset(), needs)
	if err != nil {
		c.problem("failed", "%v", err)
		return
	}
	for _, n := range missing {
		if n.without == "" {
			c.problem("failed", "the user of the kubeconfig may not %s; grant it by RBAC (deploy/ has the roles)", n)
			continue
		}
		c.note("may not %s: %s", n, n.without)
	}
}

// sinks says which receivers are not reached, or whose credentials are of no use.
func (k *checker) sinks(ctx context.Context) (problems []error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for i := range k.loaded.Config.Sinks {
		sink := &k.loaded.Config.Sinks[i]
		if err := sinks.Check(ctx, sink.URL, app.SinkAuth(sink)); err != nil {
			problems = append(problems, fmt.Errorf("sinks[%d] (%s): %w", i, sink.Name, err))
		}
	}
	return problems
}

// noteOverlaps says of two names for the same cluster, which is allowed and rarely meant, and of
// two members that may give addresses of the same ranges: an address then leads to whichever of
// them the network here knows. The first of all is the ingress cluster.
func noteOverlaps(all []*checked, members []config.Cluster) {
	for i, c := range all {
		for j, other := range all[:i] {
			if c.identity != "" && c.identity == other.identity {
				c.note("is the same cluster as %s", other.Cluster)
			}
			if j == 0 {
				continue
			}
			for _, prefix := range members[i-1].Prefixes() {
				if slices.ContainsFunc(members[j-1].Prefixes(), prefix.Overlaps) {
					c.note("allowedCIDRs of %s have addresses of %s as well", other.Cluster, prefix)
				}
			}
		}
	}
}

// printChecks prints one line a cluster, and what is to be known about it.
func printChecks(p *printer, all []*checked) {
	var rows [][]string
	for _, c := range all {
		rows = append(rows, []string{c.Cluster, c.Role, c.Result, c.Version, c.Server, stamp(c.Expires), strings.Join(c.Notes, "; ")})
	}
	p.table([]string{"CLUSTER", "ROLE", "RESULT", "VERSION", "SERVER", "CREDENTIAL ENDS", "NOTES"}, rows)
}
