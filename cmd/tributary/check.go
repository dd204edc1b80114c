// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		watcher, err := config.Open(*path)
		if err != nil {
			return usage{err}
		}
		all, loaded := checkClusters(cmd.Context(), watcher)
		err = show(cmd.OutOrStdout(), *output, all, func(p *printer) {
			var rows [][]string
			for _, c := range all {
				rows = append(rows, []string{c.Cluster, c.Role, c.Result, c.Version, c.Server, stamp(c.Expires), strings.Join(c.Notes, "; ")})
			}
			p.table([]string{"CLUSTER", "ROLE", "RESULT", "VERSION", "SERVER", "CREDENTIAL ENDS", "NOTES"}, rows)
		})
		if err != nil {
			return err
		}
		problems := checkSinks(cmd.Context(), loaded.Config.Sinks)
		for _, c := range all {
			for _, problem := range c.Problems {
				problems = append(problems, fmt.Errorf("%s: %s", c.Cluster, problem))
			}
		}
		if err := loaded.Err(); err != nil {
			return usage{errors.Join(err, errors.Join(problems...))}
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
	// ranges are those that the addresses of a member may lie in.
	ranges []netip.Prefix
}

func (c *checked) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// problem records what keeps run from working, and sets the result.
func (c *checked) problem(result, format string, args ...any) {
	c.Result = result
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

// checkClusters asks the ingress cluster, for the Secrets that are members, too, and then
// every member at once.
func checkClusters(ctx context.Context, watcher *config.Watcher) ([]*checked, *config.Loaded) {
	loaded := watcher.Loaded()
	ingress, conf := &checked{Cluster: "ingress", Role: "ingress", Result: "ok"}, loaded.Config
	ingress.check(ctx, loaded.Ingress, func(ctx context.Context, session *kube.Session) {
		if v, err := utilversion.ParseGeneric(ingress.Version); err == nil && !v.AtLeast(utilversion.MajorMinor(1, 21)) {
			ingress.problem("failed", "it does not offer discovery.k8s.io/v1, which Kubernetes 1.21 and newer do")
		}
		if want := conf.Ingress.Identity; want != "" && ingress.identity != want {
			ingress.problem("failed", "%v: its kube-system namespace has UID %q, and ingress.identity is %q", kube.ErrOtherCluster, ingress.identity, want)
		}
		ingress.rights(ctx, session, ingressNeeds(conf))
		if conf.ClustersFrom.Secrets != nil {
			secrets, err := app.ReadSecrets(ctx, session, conf)
			if err != nil {
				ingress.problem("failed", "%v", err)
			} else if loaded = watcher.Use(slices.Collect(maps.Values(secrets))); len(secrets) == 0 {
				ingress.note("no Secret of namespace %s matches clustersFrom.secrets.selector (%s)", conf.Namespace, conf.ClustersFrom.Secrets.Selector)
			}
		}
	})
	all := []*checked{ingress}
	var group sync.WaitGroup
	for i := range loaded.Config.Clusters {
		member := &loaded.Config.Clusters[i]
		c := &checked{Cluster: member.Name, Role: "member", Result: "ok", ranges: member.Prefixes()}
		all = append(all, c)
		group.Go(func() {
			c.check(ctx, loaded.Members[member.Name], func(ctx context.Context, session *kube.Session) { c.rights(ctx, session, memberNeeds(member)) })
		})
	}
	group.Wait()
	noteOverlaps(all)
	return all, loaded
}

// check fills in what a cluster answers, and lets more be asked.
func (c *checked) check(ctx context.Context, access config.Access, more func(context.Context, *kube.Session)) {
	if access.REST == nil || access.Err != nil {
		c.Result = "kubeconfig refused"
		return // why is reported with all other faults of files
	}
	c.Server = access.REST.Host
	if access.Note != "" {
		c.note("%s", access.Note)
	}
	c.Expires = kubeconfig.Expires(access.REST)
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	session, err := kube.Open(ctx, access.REST, kube.Options{Version: build().Version})
	if err != nil {
		result, hint := "unreachable", "is the server's address right, and does it run?"
		switch _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); {
		case kube.NotAllowed(err):
			result, hint = "failed", "it is reached, and refuses the credential: put a new one in its place (of a member: tributary link)"
		case untrusted:
			hint = "are certificate-authority and tls-server-name of the kubeconfig this server's?"
		case access.REST.ExecProvider != nil:
			hint = "does the program print a credential here, and does the server run at this address?"
		}
		c.problem(result, "%v; %s", err, hint)
		return
	}
	defer session.Close()
	c.Version = session.Version()
	if c.identity = session.Identity(); c.identity == "" {
		c.note("may not read namespace kube-system: another cluster at the same address is not recognised")
	}
	if ahead := session.ClockOffset(); ahead.Abs() > skewAllowed {
		c.note("its clock and the one here differ by %s", duration.HumanDuration(ahead.Abs()))
	}
	more(ctx, session)
}

// need is a right that a command asks a cluster about: verbs on a resource in a namespace, or in all.
// without says what is lost when it is missing; empty when run cannot work without it.
type need struct{ verbs, resource, namespace, without string }

// memberNeeds are the rights that Tributary uses in a member.
func memberNeeds(c *config.Cluster) (needs []need) {
	const follow, asked = "list,watch", "what a list lacks is asked for by lists, which cost more"
	for _, namespace := range everywhere(c.Namespaces.Plain()) {
		needs = append(needs,
			need{follow, "services", namespace, ""},
			need{"get", "services", namespace, asked},
			need{follow, "pods", namespace, ""},
			need{"get", "pods", namespace, asked},
			need{follow, "endpoints", namespace, "Services without a selector are not replicated"},
			need{follow, "endpointslices.discovery.k8s.io", namespace, "hand-written EndpointSlices are not replicated"})
	}
	return needs
}

// ingressNeeds are the rights that Tributary uses in the ingress cluster.
func ingressNeeds(c *config.Config) (needs []need) {
	const follow, write = "list,watch", "create,update,delete"
	add := func(used bool, n need) {
		if used {
			needs = append(needs, n)
		}
	}
	for _, resource := range []string{"namespaces", "services", "endpoints", "endpointslices.discovery.k8s.io"} {
		add(true, need{follow, resource, "", ""})
	}
	for _, namespace := range everywhere((&config.Namespaces{Include: c.Ingress.Namespaces}).Plain()) {
		add(true, need{write, "services", namespace, ""})
		add(true, need{write, "endpointslices.discovery.k8s.io", namespace, ""})
		add(c.Replicas.WritesEndpoints(), need{write, "endpoints", namespace, ""})
		add(true, need{"create", "events", namespace, "conflicts are not shown as events"})
	}
	own := c.Namespace
	add(c.Replicas.CreateNamespaces, need{"create", "namespaces", "", ""})
	add(true, need{"get,create,update", "configmaps", own, "another cluster at a member's address is not recognised across a restart"})
	add(c.LeaderElection.Enabled, need{"get,create,update", "leases.coordination.k8s.io", own, ""})
	add(c.ClustersFrom.Secrets != nil, need{"list", "secrets", own, ""})
	add(c.ClustersFrom.Secrets != nil, need{"get,update", "secrets", own, "tokens of these members are not renewed"})
	return needs
}

// everywhere is all namespaces where none are named.
func everywhere(named []string) []string {
	if len(named) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return named
}

// rights asks the cluster which of the needs are not granted. Every request is a
// SelfSubjectAccessReview, which any user may send.
func (c *checked) rights(ctx context.Context, session *kube.Session, needs []need) {
	denied, errs := make([][]string, len(needs)), make([]error, len(needs))
	var group sync.WaitGroup
	for i, n := range needs {
		resource := schema.ParseGroupResource(n.resource)
		group.Go(func() {
			for verb := range strings.SplitSeq(n.verbs, ",") {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Group: resource.Group, Resource: resource.Resource, Verb: verb, Namespace: n.namespace},
				}}
				answer, err := session.Clientset().AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				if err != nil {
					errs[i] = err
				} else if !answer.Status.Allowed {
					denied[i] = append(denied[i], verb)
				}
			}
		})
	}
	group.Wait()
	for i, n := range needs {
		missing := strings.Join(denied[i], ",") + " " + n.resource
		if n.namespace != "" {
			missing += " in namespace " + n.namespace
		}
		switch {
		case errs[i] != nil:
			c.problem("failed", "ask for rights: %v", errs[i])
			return
		case len(denied[i]) == 0:
		case n.without == "":
			c.problem("failed", "the user of the kubeconfig may not %s; grant it by RBAC (deploy/ has the roles)", missing)
		default:
			c.note("may not %s: %s", missing, n.without)
		}
	}
}

// checkSinks says which receivers are not reached, or whose credentials are of no use.
func checkSinks(ctx context.Context, all []config.Sink) (problems []error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for i := range all {
		if err := sinks.Check(ctx, all[i].URL, app.SinkAuth(&all[i])); err != nil {
			problems = append(problems, fmt.Errorf("sinks[%d] (%s): %w", i, all[i].Name, err))
		}
	}
	return problems
}

// noteOverlaps says of two names for the same cluster, which is allowed and rarely meant, and of
// two members that may have addresses of the same ranges: an address then leads to whichever of
// them the network here knows.
func noteOverlaps(all []*checked) {
	for i, c := range all {
		for _, other := range all[:i] {
			if c.identity != "" && c.identity == other.identity {
				c.note("is the same cluster as %s", other.Cluster)
			}
			for _, prefix := range c.ranges {
				if slices.ContainsFunc(other.ranges, prefix.Overlaps) {
					c.note("allowedCIDRs of %s have addresses of %s as well", other.Cluster, prefix)
				}
			}
		}
	}
}
