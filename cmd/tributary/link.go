// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/cmd/tributary/internal/link"
)

// linkFlags are those of link and unlink.
type linkFlags struct {
	kubeconfig, context, server            string
	namespace, account                     string
	namespaces                             []string
	file, ingressContext, ingressNamespace string
	lifetime                               time.Duration
	dryRun                                 bool
}

func (f *linkFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` with your contexts (default: as kubectl)")
	flags.StringVar(&f.context, "context", "", "context of the member, with the rights of an administrator (required)")
	flags.StringVar(&f.server, "server", "", "`address` at which Tributary reaches the member's API server (default: the context's)")
	flags.StringVarP(&f.namespace, "namespace", "n", "tributary-system", "namespace of the account in the member")
	flags.StringVar(&f.account, "account", "tributary-member", "name of the account; one for each ingress cluster that the member feeds")
	flags.StringSliceVar(&f.namespaces, "namespaces", nil, "the namespaces that may be read, by Roles in them alone (default: all)")
	flags.StringVarP(&f.file, "file", "f", "", "where the kubeconfig is kept (default: NAME.kubeconfig)")
	flags.StringVar(&f.ingressContext, "ingress-context", "", "context of the ingress cluster: the kubeconfig is kept there, in a Secret called NAME, instead of a file")
	flags.StringVar(&f.ingressNamespace, "ingress-namespace", "tributary-system", "namespace of that Secret")
	completeContexts(cmd, "context", "ingress-context")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
}

// newLinkCommand makes a cluster a member.
func newLinkCommand() *cobra.Command {
	var f linkFlags
	cmd := &cobra.Command{
		Use: "link NAME --context CONTEXT", Short: "Make a cluster a member: account, least rights, kubeconfig", Args: cobra.ExactArgs(1),
		Long: "Make a cluster a member: an account that may read, with a token that expires and that Tributary renews, and the kubeconfig of it,\n" +
			"in a file or in a Secret of the ingress cluster. A second call changes only what differs. A file or Secret that link did not make is left alone.",
		Example: "  tributary link idc-a --context idc-a --ingress-context ingress\n  tributary link idc-b --context idc-b --namespaces shop,pay --file idc-b.kubeconfig\n" +
			"  tributary link idc-c --context idc-c --dry-run -o yaml | kubectl --context idc-c apply -f -",
	}
	f.add(cmd)
	cmd.Flags().DurationVar(&f.lifetime, "lifetime", 30*24*time.Hour, "how long the token lives; the API server may give less")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what the member would get, as YAML unless -o says json, and do nothing")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := f.options(cmd, args[0])
		if err != nil {
			return err
		}
		if f.dryRun {
			return printManifests(cmd.OutOrStdout(), output.value, o)
		}
		if err := f.connect(&o); err != nil {
			return err
		}
		result, err := link.Link(cmd.Context(), o)
		out := cmd.OutOrStdout()
		if err := cmp.Or(failed(err), printSteps(out, output.value, "Link", o.Name, result)); err != nil || output.value != "text" {
			return err
		}
		fmt.Fprintf(out, "\n%s is linked; its token ends %s, and Tributary renews it before.\n", o.Name, result.Expires.UTC().Format(time.RFC3339))
		if o.Keep.Ingress == nil {
			fmt.Fprintf(out, "Name it in the configuration:\n  clusters:\n  - name: %s\n    kubeconfig: %s\n", o.Name, o.Keep.File)
			if len(o.Namespaces) > 0 {
				fmt.Fprintf(out, "    namespaces: {include: [%s], exclude: []}\n", strings.Join(o.Namespaces, ", "))
			}
		}
		if o.Keep.Ingress != nil && o.Server.Loopback() {
			fmt.Fprintf(out, "Note: %s is an address of this machine alone; give --server if Tributary runs elsewhere.\n", o.Server.URL)
		}
		fmt.Fprintf(out, "To undo: tributary unlink %s, with the same flags.\n", o.Name)
		return nil
	}
	return cmd
}

// newUnlinkCommand takes away what link made.
func newUnlinkCommand() *cobra.Command {
	f := linkFlags{lifetime: time.Hour}
	cmd := &cobra.Command{
		Use: "unlink NAME --context CONTEXT", Short: "Take away what link made", Args: cobra.ExactArgs(1),
		Long: "Take away what link made: the kubeconfig, the account and its rights. The namespace stays.\n" +
			"What link did not make for this member, and another cluster than the member's, are refused.\n" +
			"The endpoints of the member stay, as reserves, or go with replicas.orphans: delete.",
		Example: "  tributary unlink idc-a --context idc-a --ingress-context ingress",
	}
	f.add(cmd)
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := f.options(cmd, args[0])
		if err != nil {
			return err
		}
		if err := f.connect(&o); err != nil {
			return err
		}
		result, err := link.Unlink(cmd.Context(), o)
		if err := cmp.Or(failed(err), printSteps(cmd.OutOrStdout(), output.value, "Unlink", o.Name, result)); err != nil || output.value != "text" {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "\n%s is not linked any more. What stands of it stays, unless replicas.orphans is delete.\n", o.Name)
		return nil
	}
	return cmd
}

// options are those of the flags, without clients.
func (f *linkFlags) options(cmd *cobra.Command, name string) (link.Options, error) {
	o := link.Options{
		Name: name, Namespace: f.namespace, Account: f.account, Namespaces: f.namespaces, Lifetime: f.lifetime,
		Server: link.Server{URL: f.server}, Keep: link.Keep{File: f.file, Namespace: f.ingressNamespace, Name: name},
	}
	if o.Keep.File == "" {
		o.Keep.File = name + ".kubeconfig"
	}
	if f.context == "" && !f.dryRun {
		return o, misused(errors.New("--context is missing; name the member's, for current-context may be any cluster"))
	}
	if cmd.Flags().Changed("namespaces") && len(f.namespaces) == 0 {
		return o, misused(errors.New("--namespaces names none; leave it out for all"))
	}
	if f.file != "" && f.ingressContext != "" {
		return o, misused(errors.New("--file and --ingress-context exclude each other: the kubeconfig is kept in one place"))
	}
	if err := o.Validate(); err != nil {
		return o, misused(err)
	}
	return o, nil
}

// connect adds the clients.
func (f *linkFlags) connect(o *link.Options) error {
	config, cluster, err := f.reach(f.context)
	if err != nil {
		return err
	}
	cluster.Server = cmp.Or(f.server, cluster.Server)
	if o.Server, err = link.ServerOf(cluster); err != nil {
		return misused(fmt.Errorf("--context: %w", err))
	}
	if o.Member, err = kubernetes.NewForConfig(config); err != nil {
		return failed(err)
	}
	if o.Objects, err = dynamic.NewForConfig(config); err != nil {
		return failed(err)
	}
	if f.ingressContext == "" {
		return nil
	}
	if config, _, err = f.reach(f.ingressContext); err != nil {
		return err
	}
	o.Keep.Ingress, err = kubernetes.NewForConfig(config)
	return failed(err)
}

// reach reads a context of the user's kubeconfig.
func (f *linkFlags) reach(name string) (*rest.Config, *api.Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loading := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name})
	raw, err := loading.RawConfig()
	if err != nil {
		return nil, nil, misused(err)
	}
	found := raw.Contexts[name]
	if found == nil || raw.Clusters[found.Cluster] == nil {
		return nil, nil, misused(fmt.Errorf("no context %q with a cluster in %s", name, strings.Join(rules.GetLoadingPrecedence(), ", ")))
	}
	config, err := loading.ClientConfig()
	if err != nil {
		return nil, nil, misused(err)
	}
	config.QPS = -1
	config.UserAgent = "tributary-link/" + readBuildVersion().Version
	cluster := raw.Clusters[found.Cluster].DeepCopy()
	if path := cluster.CertificateAuthority; path != "" && !filepath.IsAbs(path) {
		cluster.CertificateAuthority = filepath.Join(filepath.Dir(cluster.LocationOfOrigin), path)
	}
	return config, cluster, nil
}

// printManifests prints what a member would get: YAML unless JSON is asked for.
func printManifests(w io.Writer, format string, o link.Options) error {
	manifests, err := o.Manifests()
	if err != nil {
		return failed(err)
	}
	if format == "json" {
		text, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": manifests}, "", "  ")
		if err == nil {
			_, err = fmt.Fprintf(w, "%s\n", text)
		}
		return failed(err)
	}
	for i, object := range manifests {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return failed(err)
		}
		if i > 0 {
			fmt.Fprintln(w, "---")
		}
		if _, err := w.Write(text); err != nil {
			return failed(err)
		}
	}
	return nil
}

// linkReport is what link or unlink did, for programs.
type linkReport struct {
	Name  string      `json:"name"`
	Steps []link.Step `json:"steps"`
	// TokenExpires is when the token ends.
	TokenExpires time.Time `json:"tokenExpires,omitzero"`
}

// printSteps says what was done: one line an object, or what programs read.
func printSteps(w io.Writer, format, kind, name string, result link.Result) error {
	if format != "text" {
		return printObject(w, format, kind, linkReport{name, append([]link.Step{}, result.Steps...), result.Expires.UTC()})
	}
	for _, step := range result.Steps {
		fmt.Fprintf(w, "%-9s  %s\n", step.Did, step.What)
	}
	return nil
}
