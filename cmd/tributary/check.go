// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/reconcile/sinks"
)

// newCheckCommand says whether run would work with a configuration.
func newCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check --config FILE", Short: "Validate a configuration, reach every cluster, check versions and rights", Args: noArguments,
		Long: "Validate a configuration, reach every cluster, check versions and rights.\n\n" +
			"The exit code is 0 exactly when run would work with every cluster. Nothing is written: of what run would\n" +
			"write first the ingress cluster makes a dry run, so that quotas, policies and webhooks are asked, too.",
		Example: "  tributary check --config tributary.yaml\n  tributary check --config tributary.yaml --offline   # no cluster is asked\n  tributary check --config tributary.yaml --dial      # are pods reached from here?",
	}
	path, output := addConfigFlag(cmd), addOutputFlag(cmd, "wide")
	timeout := cmd.Flags().Duration("timeout", 10*time.Second, "how long a cluster may take to answer")
	offline := cmd.Flags().Bool("offline", false, "look at the configuration and its kubeconfigs alone; no cluster is asked")
	dial := cmd.Flags().Bool("dial", false, "try to reach one ready pod of each member from here, over TCP")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *offline && *dial {
			return misused(errors.New("--dial asks clusters, and --offline asks none: leave one of them out"))
		}
		if err := positive("--timeout", *timeout); err != nil {
			return err
		}
		watcher, err := openConfig(*path)
		if err != nil {
			return err
		}
		loaded := watcher.Loaded()
		if *offline {
			loaded = withoutPod(loaded)
		} else {
			// Without them the rights of the ingress cluster say why.
			loaded, _ = readSecrets(cmd.Context(), watcher, *timeout)
		}
		k := checker{loaded: loaded, timeout: *timeout, offline: *offline, dial: *dial}
		found := checks{APIVersion: config.APIVersion, Kind: "Check", Clusters: k.all(cmd.Context()), Problems: k.askAround(cmd.Context(), *path)}
		if !*offline && len(loaded.Faults()) == 0 && !slices.ContainsFunc(found.Clusters, func(c checked) bool { return len(c.Problems) > 0 }) {
			k.tryOut(cmd.Context(), *path, &found.Clusters[0])
		}
		if err := printChecks(cmd.OutOrStdout(), output.value, &found); err != nil {
			return err
		}
		broken := len(found.Problems) > 0
		for _, problem := range found.Problems {
			fmt.Fprintln(cmd.ErrOrStderr(), problem)
		}
		for _, r := range found.Clusters {
			broken = broken || len(r.Problems) > 0
			if r.Result == resultRefused {
				continue // told below, with all other faults of files
			}
			for _, problem := range r.Problems {
				fmt.Fprintf(cmd.ErrOrStderr(), "tributary check: %s: %s\n", r.label(), problem)
			}
		}
		switch faults := loaded.Faults(); {
		case len(faults) > 0:
			return misused(faults)
		case broken:
			return &exit{code: exitFailed}
		}
		return nil
	}
	return cmd
}

// withoutPod takes the credentials of the pod around out of a configuration: they are no
// part of its files, and whoever looks at those alone is rarely in that pod.
func withoutPod(loaded *config.Loaded) *config.Loaded {
	if loaded.Config.Ingress.Kubeconfig != "" {
		return loaded
	}
	files := *loaded
	files.Ingress = config.Access{}
	return &files
}

// checks are what was found out.
type checks struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Clusters   []checked `json:"clusters"`
	// Problems are those of this machine and of receivers outside of Kubernetes.
	Problems []string `json:"problems,omitempty"`
}

// checker asks all clusters of a configuration.
type checker struct {
	loaded        *config.Loaded
	timeout       time.Duration // for each cluster
	offline, dial bool
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
	known    map[string]string // identities of members, as the ingress cluster has them recorded
	networks []netip.Prefix    // of pods
}

// The roles of a cluster, and what comes of checking one.
const (
	roleIngress, roleMember = "ingress", "member"

	resultOK, resultFailed           = "ok", "failed"
	resultRefused, resultUnreachable = "kubeconfig refused", "unreachable"
)

func (c *checked) label() string {
	if c.Role == roleIngress {
		return "ingress cluster"
	}
	return "cluster " + c.Cluster
}

// all asks every cluster at once; the ingress cluster comes first.
func (k checker) all(ctx context.Context) []checked {
	results := []checked{{Cluster: "ingress", Role: roleIngress, Result: resultOK}}
	for _, c := range k.loaded.Config.Clusters {
		results = append(results, checked{Cluster: c.Name, Role: roleMember, Result: resultOK})
	}
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			asking, cancel := context.WithTimeout(ctx, k.timeout)
			defer cancel()
			k.one(asking, &results[i])
		})
	}
	group.Wait()
	refuseOthers(results)
	noteTwins(results)
	noteOverlaps(results)
	return results
}

// askAround says why run could not serve its pages from this machine, or tell sinks.
func (k checker) askAround(ctx context.Context, path string) (problems []string) {
	fault := func(field string, err error, remedy string) {
		problems = append(problems, k.loaded.Fault(field, err.Error(), remedy).Error())
	}
	if !k.offline {
		if field, err := askHere(ctx, &k.loaded.Config); err != nil {
			fault(field, err, "")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	for i := range k.loaded.Config.Sinks {
		sink, at := k.loaded.Config.Sinks[i].Resolved(path), fmt.Sprintf("sinks[%d]", i)
		if err := sinks.Check(ctx, "", app.SinkAuth(&sink)); err != nil {
			fault(at+".auth", err, "")
		} else if !k.offline {
			if err := sinks.Check(ctx, sink.URL, app.SinkAuth(&sink)); err != nil {
				fault(at+".url", fmt.Errorf("%s is not reached: %w", sink.Name, err), "is the address right, and does the receiver run?")
			}
		}
	}
	return problems
}

// tryOut says what the ingress cluster would refuse of what run writes first, as a webhook, a
// policy or a quota does.
func (k checker) tryOut(ctx context.Context, path string, ingress *checked) {
	planning := app.New(k.loaded, app.Options{Path: path, Build: appBuild(), Logger: slog.New(slog.DiscardHandler)})
	denied, err := planning.TryOut(ctx, k.timeout)
	for _, refusal := range denied {
		ingress.problem(fmt.Errorf("%w; correct what denies it", refusal))
	}
	if err != nil {
		ingress.note(fmt.Sprintf("no write was tried: %v", err))
	}
}

// one fills in what a cluster answers.
func (k checker) one(ctx context.Context, c *checked) {
	access, member := k.loaded.Ingress, &config.Cluster{RolesOnly: k.loaded.Config.Ingress.RolesOnly}
	if c.Role == roleMember {
		access, member = k.loaded.Members[c.Cluster], k.member(c.Cluster)
	}
	if k.offline && c.Role == roleIngress && access.REST == nil && access.Err == nil {
		c.note("ingress.kubeconfig is left out: run uses the credentials of the pod that it is in")
		return
	}
	if access.REST == nil || access.Err != nil {
		c.Result = resultRefused
		if access.Err != nil { // a line for each fault
			c.Problems = strings.Split(access.Err.Error(), "\n")
		}
		return
	}
	c.Server, c.Context = access.REST.Host, access.Context
	if access.Followed != "" {
		c.note(access.Followed)
	}
	if strings.HasPrefix(access.REST.Host, "http:") {
		c.note("its server is asked by http: no credential is sent, and nothing proves who answers")
	}
	if c.Expires = kubeconfig.Expires(access.REST); !c.Expires.IsZero() {
		c.noteExpiry(time.Now())
	}
	if why := app.NotRenewed(access, member.Context); why != "" && c.Role == roleMember {
		c.note(why)
	}
	if k.offline {
		return
	}
	var clock kube.Clock
	connection, err := kube.Connect(access.REST, kube.ConnectOptions{Cluster: c.Cluster, Version: readBuildVersion().Version, Wrap: clock.Wrap, RolesOnly: member.RolesOnly})
	if err != nil {
		c.Result = resultUnreachable
		c.problem(err)
		return
	}
	defer connection.Close()
	version, err := connection.Version(ctx)
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		c.problem(fmt.Errorf("%w; it is reached, and refuses the credential: put a new one in its place (of a member: tributary link)", err))
		return
	case err != nil:
		c.Result = resultUnreachable
		c.problem(fmt.Errorf("%w; is the server's address right, and does it run?", err))
		return
	}
	c.Version = version.String()
	c.noteSkew(&clock)
	c.identity, _ = connection.Identity(ctx) // a missing right shows among the rights
	if c.Role == roleIngress {
		c.askIngress(ctx, connection, k.loaded)
	} else {
		c.askMember(ctx, connection, member)
	}
	if !member.RolesOnly {
		c.askNetworks(ctx, connection.Clientset())
	}
	if k.dial && c.Role == roleMember {
		c.dialPod(ctx, connection.Clientset(), member.Namespaces.Only())
	}
}

// refuseOthers finds members at whose address another cluster answers than the one that
// run has known by that name.
func refuseOthers(results []checked) {
	known := results[0].known
	for i := range results[1:] {
		c := &results[i+1]
		if was := known[c.Cluster]; was != "" && c.identity != "" && c.identity != was {
			c.problem(fmt.Errorf("%w: its kube-system namespace has UID %.64q, and %.64q is recorded of this name; correct the address, or give the new cluster another name", kube.ErrOtherCluster, c.identity, was))
		}
	}
}

// member is the configuration of one.
func (k checker) member(name string) *config.Cluster {
	all := k.loaded.Config.Clusters
	return &all[slices.IndexFunc(all, func(m config.Cluster) bool { return m.Name == name })]
}

func (c *checked) askIngress(ctx context.Context, connection *kube.Connection, loaded *config.Loaded) {
	var err error
	if c.known, err = app.KnownIdentities(ctx, connection.Clientset(), &loaded.Config, c.identity); err != nil {
		c.problem(err)
	}
	offered, err := app.OffersSlices(ctx, connection.Clientset())
	if err != nil {
		c.problem(err)
		return
	}
	write := slices.Contains(loaded.Config.Replicas.Write, config.WriteEndpointSlices)
	if write && !offered {
		c.problem(app.ErrNoSlices)
	}
	needs := ingressNeeds(loaded.Config.Ingress.Only(), write && offered, loaded.Config.Replicas.CreateNamespaces, loaded.Config.OwnNamespace(), loaded.Config.LeaseNamespace())
	if loaded.Config.Ingress.RolesOnly {
		needs = slices.DeleteFunc(needs, func(n need) bool { return n.resource == "namespaces" })
	}
	if !loaded.Config.Replicas.CreateNamespaces {
		c.note("Services wait whose namespace is missing here (replicas.createNamespaces: false)")
	}
	if !loaded.Config.Ingress.RolesOnly {
		c.askOwnNamespace(ctx, connection.Clientset(), loaded.Config.OwnNamespace())
	}
	if from := loaded.Config.ClustersFrom.Secrets; from != nil && !loaded.SecretsUnread && !slices.ContainsFunc(loaded.Config.Clusters, func(m config.Cluster) bool { return loaded.Members[m.Name].Secret != "" }) {
		c.note(fmt.Sprintf("no Secret of namespace %s that is a member matches clustersFrom.secrets.selector (%s)", app.SecretNamespace(loaded), from.Selector))
	}
	if loaded.Config.LeaderElection.Enabled {
		needs = append(needs, electionNeed(app.ElectionNamespace(&loaded.Config)))
	} else {
		c.Notes = append(c.Notes, "leader election is turned off: run one process alone")
	}
	if loaded.Config.MetricsTokenReview {
		needs = append(needs, reviewNeeds...)
	}
	if len(loaded.Config.Sinks) > 0 {
		needs = append(needs, sinkNeed(loaded.Config.OwnNamespace()))
	}
	c.askRights(ctx, connection, append(needs, secretNeeds(app.SecretNamespace(loaded))...))
}

// askOwnNamespace notes what comes of it if Tributary's own namespace is not there and may
// not be made. One that may not be read is taken to be there.
func (c *checked) askOwnNamespace(ctx context.Context, client kubernetes.Interface, own string) {
	if _, err := client.CoreV1().Namespaces().Get(ctx, own, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return
	}
	create := need{resource: "namespaces", verbs: []string{"create"}}
	if missing, err := missingRights(ctx, client, []need{create}); err != nil || len(missing) > 0 {
		c.note(fmt.Sprintf("namespace %s is missing and may not be made: no leader election, and another cluster at the same address is not recognised across a restart", own))
	}
}

func (c *checked) askMember(ctx context.Context, connection *kube.Connection, member *config.Cluster) {
	offered, err := app.OffersSlices(ctx, connection.Clientset())
	if err == nil && !offered {
		c.note("no discovery.k8s.io/v1: hand-written EndpointSlices are not replicated")
	}
	c.askRights(ctx, connection, memberNeeds(member, offered || err != nil))
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
		c.note(fmt.Sprintf("may not %s: %s", n, n.without))
	}
}

// printChecks prints one line a cluster; -o wide has what is noted in a column.
func printChecks(w io.Writer, format string, found *checks) error {
	if format == "json" || format == "yaml" {
		return printObject(w, format, found)
	}
	headings := []string{"CLUSTER", "ROLE", "RESULT", "VERSION", "SERVER"}
	if format == "wide" {
		headings = append(headings, "EXPIRES")
	}
	headings = append(headings, "NOTES")
	var all [][]string
	for _, r := range found.Clusters {
		row := []string{r.Cluster, r.Role, r.Result, dash(r.Version), dash(r.Server)}
		if format == "wide" {
			row = append(row, stamp(r.Expires))
		}
		all = append(all, append(row, dash(strings.Join(r.Notes, "; "))))
	}
	return failed(rows(w, headings, all))
}
