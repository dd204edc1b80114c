// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/syncer"
)

// manifests are the objects of ingress.yaml that have to do with scraping.
type manifests struct {
	config     corev1.ConfigMap
	service    corev1.Service
	deployment appsv1.Deployment
	policy     networkingv1.NetworkPolicy
}

func readManifests(t *testing.T) *manifests {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes/ingress.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := new(manifests)
	into := map[string]any{"ConfigMap": &m.config, "Service": &m.service, "Deployment": &m.deployment, "NetworkPolicy": &m.policy}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		object, ok := into[kind.Kind]
		if !ok {
			continue
		}
		delete(into, kind.Kind)
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
	}
	for kind := range into {
		t.Errorf("ingress.yaml has no %s", kind)
	}
	return m
}

// monitor is the part of a ServiceMonitor that says what it finds. Without a
// namespaceSelector it looks in its own namespace.
type monitor struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Selector          metav1.LabelSelector `json:"selector"`
		NamespaceSelector any                  `json:"namespaceSelector"`

		ScrapeClassicHistograms bool `json:"scrapeClassicHistograms"`
		Endpoints               []struct {
			Port string `json:"port"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// TestServiceMonitorFindsThePod: from the ServiceMonitor to the Service, to the
// pod and to the port on which the process listens.
func TestServiceMonitorFindsThePod(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kubernetes/servicemonitor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var mon monitor
	if err := yaml.Unmarshal(text, &mon); err != nil {
		t.Fatal(err)
	}
	if !mon.Spec.ScrapeClassicHistograms {
		t.Error("the ServiceMonitor lets native histograms take the place of the classic ones, which the queries read")
	}
	m := readManifests(t)
	selector, err := metav1.LabelSelectorAsSelector(&mon.Spec.Selector)
	if err != nil || selector.Empty() || mon.Spec.NamespaceSelector != nil || len(mon.Spec.Endpoints) == 0 {
		t.Fatalf("the ServiceMonitor selects %v (%v), in %v, %d endpoints", selector, err, mon.Spec.NamespaceSelector, len(mon.Spec.Endpoints))
	}
	if m.service.Namespace != mon.Metadata.Namespace || !selector.Matches(labels.Set(m.service.Labels)) {
		t.Errorf("%v in %s does not find the Service %s/%s with labels %v", selector, mon.Metadata.Namespace, m.service.Namespace, m.service.Name, m.service.Labels)
	}
	pod := m.deployment.Spec.Template
	if of := m.service.Spec.Selector; m.service.Namespace != m.deployment.Namespace || len(of) == 0 || !labels.SelectorFromSet(of).Matches(labels.Set(pod.Labels)) {
		t.Errorf("the Service selects %v in %s; the pod has %v in %s", of, m.service.Namespace, pod.Labels, m.deployment.Namespace)
	}
	listens := m.listenPort(t)
	for _, endpoint := range mon.Spec.Endpoints {
		port := m.servicePort(endpoint.Port)
		container := containerPort(pod.Spec, port.TargetPort.String())
		// No one translates the port of a headless Service.
		if port.Port != listens || container.ContainerPort != listens || !m.admits(container.Name) {
			t.Errorf("port %q is %+v of the Service, %+v of the pod, %d of the configuration, let in: %v",
				endpoint.Port, port, container, listens, m.admits(container.Name))
		}
	}
}

// TestOurServiceIsNoSource: where the ingress cluster is listed as a member, or
// another ingress cluster is one, this Service stays out, by its annotation.
func TestOurServiceIsNoSource(t *testing.T) {
	m := readManifests(t)
	service := syncer.Service{
		Key:    syncer.Key{Namespace: m.service.Namespace, Name: m.service.Name},
		Labels: m.service.Labels, Annotations: m.service.Annotations, Selector: m.service.Spec.Selector,
	}
	m.config.Data["tributary.yaml"] = strings.Replace(m.config.Data["tributary.yaml"], "clusters: []", "clusters: [{name: idc-a, kubeconfig: idc-a.kubeconfig}]", 1)
	member := m.parsed(t).Clusters[0]
	excluded := member.Replicates()
	if excluded(&service) == "" {
		t.Error("it would be replicated")
	}
	service.Annotations = nil
	if why := excluded(&service); why != "" {
		t.Errorf("it is not excluded by the annotation, but because %q", why)
	}
}

// parsed is the configuration of the manifests.
func (m *manifests) parsed(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Parse("tributary.yaml", []byte(m.config.Data["tributary.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (m *manifests) listenPort(t *testing.T) int32 {
	t.Helper()
	_, port, err := net.SplitHostPort(m.parsed(t).MetricsListen)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

func (m *manifests) servicePort(name string) (port corev1.ServicePort) {
	for _, p := range m.service.Spec.Ports {
		if p.Name == name {
			port = p
		}
	}
	return port
}

func containerPort(pod corev1.PodSpec, name string) (port corev1.ContainerPort) {
	for _, c := range pod.Containers {
		for _, p := range c.Ports {
			if p.Name == name {
				port = p
			}
		}
	}
	return port
}

// admits reports whether the NetworkPolicy lets scrapers reach the pod's port.
func (m *manifests) admits(name string) bool {
	selector, err := metav1.LabelSelectorAsSelector(&m.policy.Spec.PodSelector)
	if err != nil || !selector.Matches(labels.Set(m.deployment.Spec.Template.Labels)) {
		return false
	}
	for _, rule := range m.policy.Spec.Ingress {
		for _, p := range rule.Ports {
			if p.Port != nil && p.Port.String() == name {
				return true
			}
		}
	}
	return false
}
