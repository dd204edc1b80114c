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
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/reconcile/sinks"
)

const (
	// expiresSoon is when the end of a credential is worth a note.
	expiresSoon = 7 * 24 * time.Hour
	// skewAllowed is how far clocks may differ; servers tell whole seconds.
	skewAllowed = 5 * time.Second
)

// newCheckCommand says whether run would work with a configuration.
func newCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check --config FILE", Short: "Validate a configuration, reach every cluster, check versions and rights", Args: noArguments,
		Long: "Validate a configuration, reach every cluster, check versions and rights.\n\n" +
			"The exit code is 0 exactly when nothing would keep run from working with every cluster. Nothing is written.",
		Example: "  tributary check --config tributary.yaml\n  tributary check --config tributary.yaml --offline   # no cluster is asked",
	}
	path, output := addConfigFlag(cmd), addOutputFlag(cmd)
	timeout := cmd.Flags().Duration("timeout", 10*time.Second, "how long a cluster may take to answer")
	offline := cmd.Flags().Bool("offline", false, "look at the configuration and its kubeconfigs alone; no cluster is asked")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		watcher, err := openConfig(*path)
		if err != nil {
			return err
		}
		k := checker{watcher: watcher, loaded: watcher.Loaded(), timeout: *timeout, offline: *offline}
		found := k.all(cmd.Context())
		if output.value != "text" {
			err = printObject(cmd.OutOrStdout(), output.value, "Check", found)
		} else {
			err = failed(writeChecks(cmd.OutOrStdout(), found))
		}
		if err != nil {
			return err
		}
		var problems []error
		for _, c := range found.Clusters {
			for _, problem := range c.Problems {
				problems = append(problems, fmt.Errorf("%s: %s", c.Cluster, problem))
			}
		}
		for _, problem := range found.Problems {
			problems = append(problems, errors.New(problem))
		}
		if err := k.loaded.Err(); err != nil {
			return misused(errors.Join(append([]error{err}, problems...)...))
		}
		return failed(errors.Join(problems...))
	}
	return cmd
}

// checks are what was found out.
type checks struct {
	Clusters []*checked `json:"clusters"`
	// Problems are those of receivers outside of Kubernetes.
	Problems []string `json:"problems,omitempty"`
}

// checked is what was found out about one cluster.
type checked struct {
	Cluster string `json:"cluster"`
	Role    string `json:"role"`
	Result  string `json:"result"`
	Server  string `json:"server,omitempty"`
	Version string `json:"version,omitempty"`
	// Context is the one of the kubeconfig that is used.
	Context string `json:"context,omitempty"`
	// Expires is when the credential ends; zero: it does not, or does not say.
	Expires time.Time `json:"expires,omitzero"`
	// Problems keep run from working with this cluster; Notes do not.
	Problems []string `json:"problems,omitempty"`
	Notes    []string `json:"notes,omitempty"`

	identity string
}

// The roles of a cluster, and what comes of checking one.
const (
	roleIngress, roleMember          = "ingress", "member"
	resultOK, resultFailed           = "ok", "failed"
	resultRefused, resultUnreachable = "kubeconfig refused", "unreachable"
)

func (c *checked) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// problem notes what keeps run from working; the result says so from then on.
func (c *checked) problem(result string, err error) {
	c.Result = result
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w; a longer --timeout helps if the cluster is only slow", err)
	}
	c.Problems = append(c.Problems, err.Error())
}

// checker asks all clusters of a configuration.
type checker struct {
	watcher *config.Watcher
	loaded  *config.Loaded
	timeout time.Duration // for each cluster
	offline bool
}

// all asks the ingress cluster, for the Secrets that are members, and then every member at
// once.
func (k *checker) all(ctx context.Context) *checks {
	ingress := &checked{Cluster: "ingress", Role: roleIngress, Result: resultOK}
	k.one(ctx, ingress, k.loaded.Ingress, func(ctx context.Context, session *kube.Session) { k.ingress(ctx, ingress, session) })
	found := &checks{Clusters: []*checked{ingress}}
	var group sync.WaitGroup
	for i := range k.loaded.Config.Clusters {
		member := &k.loaded.Config.Clusters[i]
		c := &checked{Cluster: member.Name, Role: roleMember, Result: resultOK}
		found.Clusters = append(found.Clusters, c)
		group.Go(func() {
			access := k.loaded.Members[member.Name]
			if why := app.NotRenewed(access); why != "" {
				c.note("%s", why)
			}
			k.one(ctx, c, access, func(ctx context.Context, session *kube.Session) { c.rights(ctx, session, memberNeeds(member)) })
		})
	}
	group.Wait()
	noteTwins(found.Clusters)
	noteOverlaps(found.Clusters, k.loaded.Config.Clusters)
	found.Problems = k.sinks(ctx)
	return found
}

// one fills in what a cluster answers, and lets more be asked.
func (k *checker) one(ctx context.Context, c *checked, access config.Access, more func(context.Context, *kube.Session)) {
	if access.REST == nil || access.Err != nil {
		c.Result = resultRefused
		if access.Err != nil && c.Role == roleIngress && k.offline && access.File == "" {
			c.Result = resultOK // the credentials of the pod around are no part of the files
		}
		return // why is told with all other faults of files
	}
	c.Server, c.Context = access.REST.Host, access.Context
	if access.Note != "" {
		c.note("%s", access.Note)
	}
	c.Expires = kubeconfig.Expires(access.REST)
	switch left := time.Until(c.Expires); {
	case c.Expires.IsZero():
	case left <= 0:
		c.problem(resultFailed, fmt.Errorf("the credential of the kubeconfig ended %s ago; put a new one in its place (of a member: tributary link)", page.Coarse(-left)))
	case left < expiresSoon:
		c.note("the credential ends in %s", page.Coarse(left))
	}
	if k.offline {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	session, err := kube.Open(ctx, access.REST, kube.Options{Cluster: c.Cluster, Version: readBuildVersion().Version})
	if err == nil {
		defer session.Close()
		c.Version = session.Version()
	}
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		c.problem(resultFailed, fmt.Errorf("%w; it is reached, and refuses the credential: put a new one in its place (of a member: tributary link)", err))
		return
	case err != nil:
		c.problem(resultUnreachable, fmt.Errorf("%w; is the server's address right, and does it run?", err))
		return
	}
	if c.identity = session.Identity(); c.identity == "" {
		c.note("may not read namespace kube-system: another cluster at the same address is not recognised")
	}
	switch ahead := session.ClockOffset(); {
	case ahead > skewAllowed:
		c.note("its clock is %s ahead of the one here", page.Coarse(ahead))
	case ahead < -skewAllowed:
		c.note("its clock is %s behind the one here", page.Coarse(-ahead))
	}
	more(ctx, session)
}

// ingress asks what concerns the ingress cluster alone.
func (k *checker) ingress(ctx context.Context, c *checked, session *kube.Session) {
	conf := k.loaded.Config
	if v, err := utilversion.ParseGeneric(c.Version); err == nil && !v.AtLeast(utilversion.MajorMinor(1, 21)) {
		c.problem(resultFailed, errors.New("it does not offer discovery.k8s.io/v1, which Kubernetes 1.21 and newer do"))
	}
	if want := conf.Ingress.Identity; want != "" && c.identity != want {
		c.problem(resultFailed, fmt.Errorf("%w: its kube-system namespace has UID %q, and ingress.identity is %q", kube.ErrOtherCluster, c.identity, want))
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
		c.problem(resultFailed, err)
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
		c.problem(resultFailed, err)
		return
	}
	for _, n := range missing {
		if n.without == "" {
			c.problem(resultFailed, fmt.Errorf("the user of the kubeconfig may not %s; grant it by RBAC (deploy/ has the roles)", n))
			continue
		}
		c.note("may not %s: %s", n, n.without)
	}
}

// sinks says which receivers are not reached, or whose credentials are of no use.
func (k *checker) sinks(ctx context.Context) (problems []string) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	for i := range k.loaded.Config.Sinks {
		sink := &k.loaded.Config.Sinks[i]
		url := sink.URL
		if k.offline {
			url = ""
		}
		if err := sinks.Check(ctx, url, app.SinkAuth(sink)); err != nil {
			problems = append(problems, fmt.Sprintf("sinks[%d] (%s): %v", i, sink.Name, err))
		}
	}
	return problems
}

// noteTwins says which names lead to the same cluster: allowed, and rarely meant.
func noteTwins(all []*checked) {
	first := map[string]string{}
	for _, c := range all {
		if other, seen := first[c.identity]; seen && c.identity != "" {
			c.note("is the same cluster as %s", other)
		} else {
			first[c.identity] = c.Cluster
		}
	}
}

// noteOverlaps says which members may give addresses of the same ranges: an address then
// leads to whichever of them the network here knows.
func noteOverlaps(all []*checked, members []config.Cluster) {
	for i := range members {
		for j := range i {
			for _, prefix := range members[i].Prefixes() {
				if slices.ContainsFunc(members[j].Prefixes(), prefix.Overlaps) {
					all[i+1].note("allowedCIDRs of %s have addresses of %s as well", members[j].Name, prefix)
				}
			}
		}
	}
}

// writeChecks prints one line a cluster.
func writeChecks(w io.Writer, found *checks) error {
	p := &printer{w: w}
	var all [][]string
	for _, c := range found.Clusters {
		all = append(all, []string{c.Cluster, c.Role, c.Result, dash(c.Version), dash(c.Server), stamp(c.Expires), dash(strings.Join(c.Notes, "; "))})
	}
	p.table([]string{"CLUSTER", "ROLE", "RESULT", "VERSION", "SERVER", "CREDENTIAL ENDS", "NOTES"}, all)
	return p.err
}
