// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// ambiguous are names that YAML, of one version or another, reads as something else where they are not quoted.
var ambiguous = []string{"on", "off", "y", "no", "null", "true", "false", "1e3", "0123", "0x1f", "0o17", "12", "1rel"}

// named puts a name wherever there is room for one.
const named = `
nameOverride: %[1]q
commonLabels: {team: %[1]q}
serviceAccount: {name: %[1]q, annotations: {a: %[1]q}}
kubeconfigs: {secretName: %[1]q}
image: {repository: %[1]q, tag: %[1]q}
imagePullSecrets: [{name: %[1]q}]
sinks: {secretName: %[1]q}
priorityClass: {name: %[1]q}
podLabels: {l: %[1]q}
podAnnotations: {a: %[1]q}
nodeSelector: {n: %[1]q}
spreadOver: [%[1]q]
extraArgs: [%[1]q]
extraEnv: [{name: X, value: %[1]q}]
networkPolicy: {from: [{namespaceSelector: {matchLabels: {n: %[1]q}}}]}
policies: {fencing: {enabled: true}, protect: {users: [%[1]q], groups: [%[1]q]}}
monitoring:
  serviceMonitor: {enabled: true, labels: {l: %[1]q}}
  prometheusRule: {enabled: true, labels: {l: %[1]q}}
  dashboards: {enabled: true, labels: {l: %[1]q}, annotations: {a: %[1]q}}
config:
  clusters: []
  instance: %[1]q
  namespace: %[1]q
  clustersFrom: {secrets: {}}
  ingress: {namespaces: [%[1]q]}
  sinks: [{name: slb, url: "https://slb.example.com"}]
`

// TestNamesStayNames: whatever a name looks like, every manifest is what its kind's schema wants, and has it as text.
func TestNamesStayNames(t *testing.T) {
	for _, name := range ambiguous {
		values := fmt.Sprintf(named, name)
		releases := []release{
			{chart: "tributary", name: name, namespace: name, values: values},
			{chart: "tributary-member", name: name, namespace: name, values: fmt.Sprintf("serviceAccount: {name: %q}\nnamespaces: [%[1]q]", name)},
		}
		if name[0] >= 'a' {
			releases = append(releases, release{chart: "tributary", name: name, namespace: name, values: values + "fullnameOverride: '" + name + "'"})
		}
		for _, r := range releases {
			text := mustRender(t, r)
			if times := strings.Count(text, "namespace: \""+name+"\"\n"); times < 5 && name != "1rel" {
				t.Errorf("%s %s: the namespace is quoted in %d places", r.chart, name, times)
			}
			for _, problem := range strictly(text) {
				t.Errorf("%s %s: %s", r.chart, name, problem)
			}
			if r.chart == "tributary" && settingOf(t, text, "instance") != name {
				t.Errorf("%s: the configuration's instance is %v", name, settingOf(t, text, "instance"))
			}
		}
	}
}

// strictly decodes manifests as an API server does that validates fields strictly. Of the kinds of others the schemas are
// not here: a test on an API server has them.
func strictly(text string) (problems []string) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for document := range strings.SplitSeq(text, "\n---\n") {
		if ofKinds(document, monitoringKinds...) != "\n" {
			continue
		}
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%v in\n%s", err, document))
			continue
		}
		// A Service's name must begin with a letter on servers before 1.34.
		if service, ok := object.(*corev1.Service); ok {
			problems = append(problems, validation.IsDNS1035Label(service.Name)...)
		}
	}
	return problems
}

// settingOf is a field of the configuration in a rendered chart.
func settingOf(t *testing.T, text, field string) any {
	t.Helper()
	for _, o := range objects(t, text) {
		data, _ := o.Object["data"].(map[string]any)
		if file, ok := data["tributary.yaml"].(string); ok {
			var config map[string]any
			if err := yaml.UnmarshalStrict([]byte(file), &config); err != nil {
				t.Fatal(err)
			}
			return config[field]
		}
	}
	return nil
}

// TestManifestsAreStrict: so is everything that the charts can render.
func TestManifestsAreStrict(t *testing.T) {
	for _, r := range []release{ingress(""), ingress(everything), {chart: "tributary-member", name: "m", namespace: "n"}} {
		if problems := strictly(mustRender(t, r)); len(problems) > 0 {
			t.Errorf("%s: %q", r.chart, problems)
		}
	}
	misspelt := strings.Replace(mustRender(t, ingress("")), "maxUnavailable:", "maxUnavailible:", 1)
	if problems := strictly(misspelt); !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, "unknown field") }) {
		t.Error("a misspelt field is accepted")
	}
}
