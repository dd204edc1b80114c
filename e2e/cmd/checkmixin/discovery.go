// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/podnet"
)

// scraped is the Service whose pods Prometheus finds through its replica.
const scraped = "scraped"

// discoveries are the roles of kubernetes_sd that read what Tributary writes; each
// is a job of its name. Only ready endpoints are scraped.
const discoveries = `
- job_name: endpoints
  kubernetes_sd_configs: [{role: endpoints, kubeconfig_file: %[1]q}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_namespace, __meta_kubernetes_service_name, __meta_kubernetes_endpoint_port_name], separator: /, regex: %[2]q, action: keep}
  - {source_labels: [__meta_kubernetes_endpoint_ready], regex: "true", action: keep}
- job_name: endpointslices
  kubernetes_sd_configs: [{role: endpointslice, kubeconfig_file: %[1]q}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_namespace, __meta_kubernetes_service_name, __meta_kubernetes_endpointslice_port_name], separator: /, regex: %[2]q, action: keep}
  - {source_labels: [__meta_kubernetes_endpointslice_endpoint_conditions_ready], regex: "true", action: keep}
  - {source_labels: [__meta_kubernetes_endpointslice_label_multicluster_kubernetes_io_source_cluster], target_label: source}
`

// discoveryJobs is the configuration by which Prometheus reads the ingress cluster,
// as a user who may read and nothing else.
func discoveryJobs(ctx context.Context, ingress *fleet.Site, dir string) (string, error) {
	read := []string{"get", "list", "watch"}
	user, err := ingress.NewUser(ctx, "prometheus",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services", "endpoints", "pods"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read})
	if err != nil {
		return "", err
	}
	text, err := ingress.Cluster.Kubeconfig(user)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "prometheus.kubeconfig")
	return fmt.Sprintf(discoveries, path, namespace+"/"+scraped+"/"+fleet.PodPortName), os.WriteFile(path, text, 0o600)
}

// village is a set of pods that each have an address and answer at it.
type village struct {
	link    *podnet.Link
	members map[string]*fleet.Site  // by pod
	pods    map[string]*corev1.Pod  // by name
	servers map[string]*http.Server // by name
}

// settle runs two pods of each member.
func settle(ctx context.Context, f *fleet.Fleet, link *podnet.Link) (*village, error) {
	v := &village{link: link, members: map[string]*fleet.Site{}, pods: map[string]*corev1.Pod{}, servers: map[string]*http.Server{}}
	for _, site := range f.Members {
		if err := site.Create(ctx, fleet.NewService(namespace, scraped)); err != nil {
			return v, err
		}
		for i := range 2 {
			if err := v.move(ctx, site, fmt.Sprintf("%s-%s-%d", scraped, site.Name(), i)); err != nil {
				return v, err
			}
		}
	}
	return v, nil
}

// move assigns an address to a pod, serves there, and then reports the pod ready.
func (v *village) move(ctx context.Context, site *fleet.Site, name string) error {
	pod := fleet.NewPod(namespace, name, scraped)
	pod.Status.PodIP = site.NextIP().String()
	if err := v.link.Add(ctx, pod.Status.PodIP); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", instanceOf(pod))
	if err != nil {
		return fmt.Errorf("pod %s: %w", name, err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "checkmixin_pod_info{pod=%q,member=%q} 1\n", name, site.Name())
	})}
	go server.Serve(listener) // ends with leave or close
	v.members[name], v.pods[name], v.servers[name] = site, pod, server
	return site.RunPods(ctx, pod)
}

// leave removes a pod from its member, and then its address.
func (v *village) leave(ctx context.Context, name string) error {
	site, pod := v.members[name], v.pods[name]
	if err := site.Remove(ctx, namespace, name); err != nil {
		return err
	}
	v.servers[name].Close()
	delete(v.members, name)
	delete(v.pods, name)
	delete(v.servers, name)
	return v.link.Remove(ctx, pod.Status.PodIP)
}

func (v *village) close() {
	for _, server := range v.servers {
		server.Close()
	}
}

func instanceOf(pod *corev1.Pod) string {
	return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(fleet.PodPort))
}

// checkDiscovery makes Prometheus find the pods of two members through the replica,
// scrape them, and drop those that go.
func checkDiscovery(ctx context.Context, server *prometheus, f *fleet.Fleet, link *podnet.Link) error {
	v, err := settle(ctx, f, link)
	defer v.close()
	if err != nil {
		return err
	}
	a, b := f.Members[0], f.Members[1]
	gone, unready := fmt.Sprintf("%s-%s-0", scraped, a.Name()), fmt.Sprintf("%s-%s-0", scraped, b.Name())
	for _, step := range []struct {
		what string
		do   func() error
		not  string // the pod that must not be scraped
	}{
		{"%d pods of two members are found and scraped", func() error { return nil }, ""},
		{"the target of a pod that was removed is gone, %d are scraped", func() error { return v.leave(ctx, gone) }, ""},
		{"the target of a pod that became not ready is gone, %d are scraped", func() error { return b.MarkNotReady(ctx, namespace, unready) }, unready},
		{"it is back when the pod is ready again, %d are scraped", func() error { return b.MarkReady(ctx, namespace, unready) }, ""},
	} {
		if err := step.do(); err != nil {
			return err
		}
		start := time.Now()
		want := map[string]*corev1.Pod{}
		for name, pod := range v.pods {
			if name != step.not {
				want[instanceOf(pod)] = pod
			}
		}
		err := fleet.Eventually(ctx, limit, func(ctx context.Context) error {
			return errors.Join(v.scraped(ctx, server, "endpoints", want), v.scraped(ctx, server, "endpointslices", want))
		})
		if err != nil {
			return fmt.Errorf(step.what+": %w", len(want), err)
		}
		fmt.Printf("kubernetes_sd, endpoints and endpointslice: "+step.what+", after %.1f s\n", len(want), time.Since(start).Seconds())
	}
	return nil
}

// scraped reports how the targets of a job differ from what is wanted, by
// instance: no other target, each up, and behind each the pod that it should be.
func (v *village) scraped(ctx context.Context, server *prometheus, job string, want map[string]*corev1.Pod) error {
	targets, err := server.targets(ctx, job)
	if err != nil {
		return err
	}
	for _, t := range targets {
		pod := want[t.Labels["instance"]]
		if pod == nil {
			return fmt.Errorf("%s: %s is a target", job, t.Labels["instance"])
		}
		if source := t.Labels["source"]; job == "endpointslices" && source != v.members[pod.Name].Name() {
			return fmt.Errorf("%s: %s is said to be of %q", job, pod.Name, source)
		}
		if t.Health != "up" {
			return fmt.Errorf("%s: %s is %s: %s", job, t.Labels["instance"], t.Health, t.LastError)
		}
	}
	if len(targets) != len(want) {
		return fmt.Errorf("%s: %d targets; want %d", job, len(targets), len(want))
	}
	for instance, pod := range want {
		expr := fmt.Sprintf(`up{job=%q,instance=%q} == 1 and on (instance) checkmixin_pod_info{job=%[1]q,pod=%[3]q,member=%[4]q}`, job, instance, pod.Name, v.members[pod.Name].Name())
		if samples, err := server.query(ctx, expr); err != nil || len(samples) != 1 {
			return fmt.Errorf("%s: %d samples of %s (%w)", job, len(samples), expr, err)
		}
	}
	return nil
}
