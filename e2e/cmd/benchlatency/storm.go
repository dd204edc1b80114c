// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/latency"
)

// In a storm all Services of a member are relabelled as fast as its API server accepts it,
// and meanwhile pods become not ready. The relay forwards only the latter; tributary has
// to write every relabelled replica, too. The relay's storm is the same without a
// tributary, repeated until it has lasted as long.

const (
	stormNamespace = "storm"
	// basePort is below the ports that pods get in a storm of ports.
	basePort = 9000
	// stormSettle is the pause for the servers after a fill.
	stormSettle = 2 * time.Second
)

// stormArm is what carries the changes of one storm: the tributary binary, or the null relay
// alone if it is "".
type stormArm struct{ name, binary string }

// stormResult are the removals of one arm, those of a relay beside it, and how long it
// took until all replicas were relabelled.
type stormResult struct {
	removals, beside []time.Duration
	bulk             []time.Duration
}

const relayAlone = "null relay alone"

func runStorm(ctx context.Context, f *fleet.Fleet, arms []latency.Arm, s settings) error {
	if err := populateStorm(ctx, f, s.services); err != nil {
		return err
	}
	stopRelay, err := startRelay(ctx, f, latency.Endpoints)
	if err != nil {
		return err
	}
	defer stopRelay()
	contenders := []stormArm{{relayAlone, ""}, {"tributary", s.tributary}}
	for _, binary := range strings.FieldsFunc(s.former, func(r rune) bool { return r == ',' }) {
		contenders = append(contenders, stormArm{filepath.Base(binary), binary})
	}
	results := map[string]*stormResult{}
	for _, c := range contenders {
		results[c.name] = &stormResult{}
	}
	storm := &storm{fleet: f, services: s.services, ports: s.ports, pause: s.pause, arms: arms, clear: s.former != ""}
	for round := range s.rounds {
		for i := range contenders {
			c := contenders[(i+round)%len(contenders)] // the order rotates
			if err := storm.measure(ctx, c, results[c.name]); err != nil {
				return fmt.Errorf("%s, round %d: %w", c.name, round+1, err)
			}
		}
	}
	fmt.Printf("%d Services relabelled in each of %d rounds, arms take turns\n\n", s.services, s.rounds)
	reportStorm(contenders, results)
	return nil
}

func populateStorm(ctx context.Context, f *fleet.Fleet, n int) error {
	member := f.Member(memberName)
	if err := member.CreateNamespaces(ctx, stormNamespace); err != nil {
		return err
	}
	// The process that relabels uses the existing kubeconfig.
	relabels := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"patch"}}
	if err := member.Grant(ctx, fleet.ProductUser, append(fleet.MemberRules(), relabels)...); err != nil {
		return err
	}
	return member.LoadStorm(ctx, stormNamespace, n)
}

// storm raises storms on one fleet.
type storm struct {
	fleet    *fleet.Fleet
	services int
	ports    bool // they change, too
	pause    time.Duration
	arms     []latency.Arm
	// raised counts the relabellings: each sets another value.
	raised int
	// clear makes each tributary recreate its replicas, because another version may consider
	// them somebody else's.
	clear bool
}

// cleared deletes what a tributary that has ended has created.
func (s *storm) cleared(ctx context.Context) error {
	client := s.fleet.Ingress.Client
	for _, ns := range []string{stormNamespace, namespace} {
		for resource, of := range map[string]rest.Interface{
			"services": client.CoreV1().RESTClient(), "endpoints": client.CoreV1().RESTClient(), "endpointslices": client.DiscoveryV1().RESTClient(),
		} {
			err := of.Delete().Namespace(ns).Resource(resource).Param("labelSelector", "app.kubernetes.io/managed-by=tributary").Do(ctx).Error()
			if err != nil {
				return fmt.Errorf("clear %s of %s: %w", resource, ns, err)
			}
		}
	}
	return nil
}

// measure raises one storm, and flips pods until it is over.
func (s *storm) measure(ctx context.Context, c stormArm, into *stormResult) (err error) {
	flipped := s.arms[1:2] // the relay's Endpoints
	if c.name != relayAlone {
		t, err := startTributary(ctx, s.fleet, c.binary)
		if err != nil {
			return err
		}
		defer func() {
			if stopped := t.Stop(context.WithoutCancel(ctx)); err == nil && stopped == nil && s.clear {
				err = s.cleared(ctx)
			} // it is killed with the fleet
		}()
		if err := s.filled(ctx); err != nil {
			return err
		}
		flipped = s.arms[:2]
	}
	time.Sleep(stormSettle)
	sessions, close, err := open(ctx, s.fleet, latency.Observer{Patience: time.Minute, Events: true}, flipped...)
	if err != nil {
		return err
	}
	defer close()
	passed := make(chan error, 1)
	start := time.Now()
	go func() { passed <- s.raise(ctx, len(flipped) > 1) }()
	for {
		for i, session := range sessions {
			sample, err := session.Flip(ctx)
			if err != nil {
				return err
			}
			last := slices.Max(slices.Collect(maps.Values(sample)))
			if len(sessions) == 1 || i == 0 {
				into.removals = append(into.removals, last)
			} else {
				into.beside = append(into.beside, last)
			}
			if _, err := session.Flip(ctx); err != nil { // back
				return err
			}
			time.Sleep(s.pause)
		}
		select {
		case err := <-passed:
			into.bulk = append(into.bulk, time.Since(start))
			return err
		default:
		}
	}
}

// relayStorms is how many relabellings in a row last about as long as one that tributary
// replicates.
const relayStorms = 3

// raise relabels all Services and returns when the replicas have the label, too; without
// replicas it relabels several times.
func (s *storm) raise(ctx context.Context, replicas bool) error {
	if replicas {
		s.raised++
		seen, err := s.watchReplicas(ctx, s.value())
		if err != nil {
			return err
		}
		if err := s.relabel(ctx); err != nil {
			return err
		}
		return seen()
	}
	for range relayStorms {
		s.raised++
		if err := s.relabel(ctx); err != nil {
			return err
		}
	}
	return nil
}

// value is the label's value after the last storm.
func (s *storm) value() string { return fmt.Sprint("v", s.raised) }

// relabel runs in a process of its own, so that it shares no connection with the
// observer.
func (s *storm) relabel(ctx context.Context) error {
	args := []string{"relabel", "-member", s.fleet.Member(memberName).Kubeconfig, "-services", fmt.Sprint(s.services), "-value", s.value()}
	if s.ports {
		args = append(args, "-port", fmt.Sprint(basePort+s.raised))
	}
	child, err := latency.StartChild(ctx, args...)
	if err != nil {
		return err
	}
	return child.End()
}

// relabelMain is that process.
func relabelMain(args []string) int {
	flags := flag.NewFlagSet("relabel", flag.ExitOnError)
	config := flags.String("member", "", "kubeconfig of the member")
	services := flags.Int("services", 0, "number of Services")
	value := flags.String("value", "", "value of the label")
	port := flags.Int("port", 0, "number of the pods' port; 0: as it is")
	_ = flags.Parse(args) // it exits on an error
	member, err := latency.RawClient(*config)
	if err == nil {
		further := ""
		if *port > 0 {
			further = fmt.Sprintf(`,"spec":{"ports":[{"name":"http","port":80,"targetPort":%d}]}`, *port)
		}
		err = fleet.RelabelStorm(context.Background(), member, stormNamespace, *services, *value, further)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "relabel:", err)
		return 1
	}
	return 0
}

// watchReplicas returns a function that waits until the Endpoints of all replicas have
// the label's value.
func (s *storm) watchReplicas(ctx context.Context, value string) (wait func() error, err error) {
	client := s.fleet.Ingress.Client.CoreV1().Endpoints(stormNamespace)
	list, err := client.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	stream, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		seen := map[string]bool{}
		for event := range stream.ResultChan() {
			if e, ok := event.Object.(*corev1.Endpoints); ok && event.Type != watch.Deleted && e.Labels[fleet.StormLabel] == value {
				if seen[e.Name] = true; len(seen) == s.services {
					return
				}
			}
		}
	}()
	return func() error {
		defer stream.Stop()
		select {
		case <-done:
			return nil
		case <-time.After(3 * time.Minute):
			return fmt.Errorf("not all replicas have the label %s=%s after 3 minutes", fleet.StormLabel, value)
		}
	}, nil
}

// filled waits until all replicas are complete, so that no arm measures the fill.
func (s *storm) filled(ctx context.Context) error {
	if err := replicaExists(ctx, s.fleet); err != nil {
		return err
	}
	value := ""
	if s.raised > 0 {
		value = s.value()
	}
	return fleet.Eventually(ctx, 3*time.Minute, func(ctx context.Context) error {
		list, err := s.fleet.Ingress.Client.CoreV1().Endpoints(stormNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		complete := 0
		for i := range list.Items {
			if list.Items[i].Labels[fleet.StormLabel] == value {
				complete++
			}
		}
		if complete < s.services {
			return fmt.Errorf("%d of %d replicas are complete", complete, s.services)
		}
		return nil
	})
}
