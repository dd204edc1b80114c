// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// exitPending is the exit code of plan --detailed-exitcode when there is something to write;
// a misused command or an invalid file then ends with exitFailed.
const (
	exitPending      = 2
	detailedExitcode = "detailed-exitcode"
)

// detailed reports whether a command was called with --detailed-exitcode. The arguments tell
// where its flags could not be read.
func detailed(command *cobra.Command, args []string) bool {
	flag := command.Flags().Lookup(detailedExitcode)
	return flag != nil && (flag.Value.String() == "true" || slices.Contains(args, "--"+detailedExitcode) || slices.Contains(args, "--"+detailedExitcode+"=true"))
}

// newPlanCommand shows what run would write, and writes nothing.
func newPlanCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan --config FILE", Short: "Show what run would create, update and delete; nothing is written", Args: noArguments,
		Example: "  tributary plan --config tributary.yaml\n  tributary plan --config tributary.yaml --service shop/web -o yaml\n  tributary plan --config tributary.yaml --detailed-exitcode",
	}
	path, output, logs := addConfigFlag(cmd), addOutputFlag(cmd, "wide"), addLogFlags(cmd)
	timeout := cmd.Flags().Duration("timeout", 30*time.Second, "how long to wait for clusters to be listed")
	service := addServiceFlag(cmd, "only this replica")
	cluster := addClusterFlag(cmd, "only replicas that change because of this member")
	pending := cmd.Flags().Bool(detailedExitcode, false, "exit with 2 if there is something to write, with 0 if there is nothing, with 1 on any error, usage and configuration included")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		replica, err := parseService(*service)
		if err != nil {
			return err
		}
		if err := positive("--timeout", *timeout); err != nil {
			return err
		}
		watcher, err := openConfig(*path)
		if err != nil {
			return err
		}
		if err := usable(watcher.Loaded()); err != nil {
			return misused(err)
		}
		loaded, err := readSecrets(cmd.Context(), watcher, *timeout)
		if err != nil {
			return failed(err)
		}
		if *cluster != "" && !slices.ContainsFunc(loaded.Config.Clusters, func(c config.Cluster) bool { return c.Name == *cluster }) {
			return misused(fmt.Errorf("--cluster: %q is not in %s", *cluster, *path))
		}
		*logs.verbosity -= int(slog.LevelWarn - slog.LevelInfo) // the plan is the output; states are not news here
		planning := app.New(loaded, app.Options{Path: *path, Build: appBuild(), Logger: logs.newLogger(cmd.ErrOrStderr())})
		plans, missing, err := planning.Plan(cmd.Context(), *timeout)
		if err != nil {
			return failed(err)
		}
		for _, s := range missing {
			fmt.Fprintf(cmd.ErrOrStderr(), "tributary plan: cluster %s was not listed within %s (%s); what it contributes is taken as it stands\n", s.Name, *timeout, app.Describe(s))
		}
		if replica != nil && !slices.ContainsFunc(plans, func(p plan.Plan) bool { return p.Replica == *replica }) {
			return noReplica(*replica, plans)
		}
		plans = slices.DeleteFunc(plans, func(p plan.Plan) bool {
			return replica != nil && p.Replica != *replica || *cluster != "" && !concerns(&p, *cluster)
		})
		rules := slices.DeleteFunc(planning.RuleEffects(), func(r plan.RuleEffect) bool { return *cluster != "" && r.Cluster != *cluster })
		if err := printPlans(cmd.OutOrStdout(), output.value, plans, rules); err != nil {
			return err
		}
		switch {
		case len(missing) > 0:
			return &exit{code: exitFailed}
		case *pending && !plan.Summarise(plans).Empty():
			return &exit{code: exitPending}
		}
		return nil
	}
	return cmd
}

// noReplica says that no replica of a name stands or is planned, and which of its namespace do.
func noReplica(replica syncer.Key, plans []plan.Plan) error {
	var names []string
	for i := range plans {
		if of := plans[i].Replica; of.Namespace == replica.Namespace {
			names = append(names, of.String())
		}
	}
	return failedf("Service %q not found: no member that was listed has it, and nothing of that name stands in the ingress cluster; in namespace %s %s", replica, replica.Namespace, listed(names))
}

// concerns reports whether anything in a plan is about a member's own share.
func concerns(p *plan.Plan, cluster string) bool {
	for _, stage := range p.Stages {
		if slices.ContainsFunc(stage, func(a plan.Action) bool { return a.Slice != nil && a.Slice.Cluster == cluster }) {
			return true
		}
	}
	return slices.ContainsFunc(p.Conflicts, func(c plan.Conflict) bool { return c.Cluster == cluster }) ||
		slices.ContainsFunc(p.Held, func(h plan.Held) bool { return h.Cluster == cluster }) ||
		slices.ContainsFunc(p.Kept, func(k plan.Kept) bool { return k.Cluster == cluster })
}

func printPlans(w io.Writer, format string, plans []plan.Plan, rules []plan.RuleEffect) error {
	if format != "text" && format != "wide" {
		return printObject(w, format, plan.Document(plans, rules))
	}
	if err := plan.WriteText(w, plans, format == "wide"); err != nil {
		return failed(err)
	}
	return failed(printRules(w, rules))
}

// printRules prints what each rule does to what stands; nothing without rules.
func printRules(w io.Writer, rules []plan.RuleEffect) error {
	if len(rules) == 0 {
		return nil
	}
	var all [][]string
	for _, r := range rules {
		all = append(all, []string{
			r.Cluster, r.Rule, r.Then, strconv.Itoa(r.Matches), strconv.Itoa(r.Takes), strconv.Itoa(r.Held), strconv.FormatUint(r.Errors, 10), dash(r.LastError),
		})
	}
	if _, err := fmt.Fprint(w, "\nRules: the pods that each decides, the ready endpoints that stand and it takes away, and those of them that are held\n"); err != nil {
		return err
	}
	return rows(w, []string{"CLUSTER", "RULE", "THEN", "MATCHES", "TAKES", "HELD", "ERRORS", "LAST ERROR"}, all)
}
