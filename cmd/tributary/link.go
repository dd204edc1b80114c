// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/cmd/tributary/internal/link"
)

// linkFlags are those of link and unlink.
type linkFlags struct {
	link.Options
	kubeconfig, context, ingressContext, server string
}

func (f *linkFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` with your contexts (default: as kubectl)")
	flags.StringVar(&f.context, "context", "", "`context` of the member, with the rights of an administrator (required)")
	flags.StringVarP(&f.Namespace, "namespace", "n", "tributary-system", "namespace of the account in the member")
	flags.StringVar(&f.Account, "account", "tributary-member", "name of the account; one for each ingress cluster that the member feeds")
	flags.StringSliceVar(&f.Namespaces, "namespaces", nil, "the namespaces that may be read, by Roles in them (default: all)")
	flags.StringVarP(&f.File, "file", "f", "", "`file` in which the kubeconfig is stored (default: NAME.kubeconfig)")
	flags.StringVar(&f.ingressContext, "ingress-context", "", "`context` of the ingress cluster: the kubeconfig is stored there, in Secret NAME, instead of a file")
	flags.StringVar(&f.IngressNamespace, "ingress-namespace", "tributary-system", "namespace of that Secret")
	cmd.MarkFlagsMutuallyExclusive("file", "ingress-context")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
}

// newLinkCommand makes a cluster a member.
func newLinkCommand() *cobra.Command {
	var f linkFlags
	cmd := &cobra.Command{
		Use: "link NAME --context CONTEXT", Short: "Make a cluster a member: account, least rights, kubeconfig", Args: cobra.ExactArgs(1),
		Long: "Make a cluster a member: an account that may read, with a token of 30 days that Tributary renews, and the kubeconfig of it,\n" +
			"in a file or in a Secret of the ingress cluster. A second call makes another token, and changes only what differs.\n" +
			"A file, Secret, account or role that link did not make for this member is left alone.",
		Example: "  tributary link idc-a --context idc-a --ingress-context ingress\n  tributary link idc-b --context idc-b --namespaces shop,pay --file idc-b.kubeconfig\n" +
			"  tributary link idc-c --context idc-c --dry-run -o yaml | kubectl --context idc-c apply -f -",
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.server, "server", "", "`address` at which Tributary reaches the member's API server (default: the context's)")
	dryRun := cmd.Flags().Bool("dry-run", false, "print what the member would get, and do nothing")
	addChoice(cmd, "output", "o", "form of --dry-run", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		f.Name = args[0]
		if *dryRun {
			if err := f.check(cmd); err != nil {
				return err
			}
			return f.Manifests(out)
		}
		if err := f.connect(cmd); err != nil {
			return err
		}
		if err := f.CheckServer(); err != nil {
			return usage{err}
		}
		expires, err := link.Link(cmd.Context(), &f.Options)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s is linked. Its token ends %s, and Tributary renews it before.\n", f.Name, expires.UTC().Format(time.RFC3339))
		if f.Ingress == nil {
			fmt.Fprintf(out, "Name it in the configuration:\n  clusters:\n  - name: %s\n    kubeconfig: %s\n", f.Name, f.File)
			if len(f.Namespaces) > 0 {
				fmt.Fprintf(out, "    %s\n", f.Settings())
			}
		}
		fmt.Fprintf(out, "To undo: tributary unlink %s, with the same flags.\n", f.Name)
		return nil
	}
	return cmd
}

// newUnlinkCommand removes what link made.
func newUnlinkCommand() *cobra.Command {
	var f linkFlags
	cmd := &cobra.Command{
		Use: "unlink NAME --context CONTEXT", Short: "Take away what link made", Args: cobra.ExactArgs(1),
		Long: "Take away what link made: the kubeconfig, the account, its rights, and the namespace if no other account is in it.\n" +
			"What link did not make for this member is left alone.\n" +
			"The ingress cluster keeps the endpoints of the member, as reserves, unless replicas.orphans is delete.",
		Example: "  tributary unlink idc-a --context idc-a --ingress-context ingress",
	}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.Name = args[0]
		if err := f.connect(cmd); err != nil {
			return err
		}
		if err := link.Unlink(cmd.Context(), &f.Options); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "\n%s is not linked any more. Its endpoints stay in the ingress cluster, unless replicas.orphans is delete.\n", f.Name)
		return nil
	}
	return cmd
}

// check says what is wrong with the flags.
func (f *linkFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("namespaces") && len(f.Namespaces) == 0 {
		return usage{errors.New("--namespaces names none; leave it out for all")}
	}
	if err := f.Validate(); err != nil {
		return usage{err}
	}
	return nil
}

// connect reads the flags and adds the clients.
func (f *linkFlags) connect(cmd *cobra.Command) error {
	if f.context == "" {
		return usage{errors.New("--context is missing; name the member's, for current-context may be any cluster")}
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	f.File = cmp.Or(f.File, f.Name+".kubeconfig")
	f.Report = func(did, what string) { fmt.Fprintf(cmd.OutOrStdout(), "%-9s  %s\n", did, what) }
	var err error
	if f.Server, f.Member, err = f.reach(f.context); err != nil {
		return err
	}
	if f.Tokens, err = corev1.NewForConfig(f.Server); err == nil && f.ingressContext != "" {
		_, f.Ingress, err = f.reach(f.ingressContext)
	}
	f.Server.Host = cmp.Or(f.server, f.Server.Host)
	return err
}

// reach reads a context of the user's kubeconfig.
func (f *linkFlags) reach(context string) (*rest.Config, dynamic.Interface, error) {
	access, err := loading(f.kubeconfig, context).ClientConfig()
	if err == nil {
		err = rest.LoadTLSFiles(access)
	}
	if err != nil {
		return nil, nil, usage{fmt.Errorf("context %q: %w", context, err)}
	}
	access.QPS = -1
	access.UserAgent = "tributary-link/" + build().Version
	client, err := dynamic.NewForConfig(access)
	return access, client, err
}
