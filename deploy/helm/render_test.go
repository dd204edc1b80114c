// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite deploy/kubernetes")

// release says how a chart is rendered.
type release struct {
	chart, name, namespace string
	// values is YAML; kube the version of the cluster, by default one of today.
	values, kube string
	// apis are those that the cluster has beside Kubernetes' own.
	apis []string
	// lenient takes a missing value for none, as Helm does; without it a slip in a template shows.
	lenient bool
}

// files are the rendered templates by name, the schema having judged the values.
func (r release) files() (map[string]string, error) {
	chart, err := loader.Load(r.chart)
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ReadValues([]byte(r.values))
	if err != nil {
		return nil, err
	}
	capabilities := *chartutil.DefaultCapabilities
	if r.kube == "" {
		r.kube = "v1.36.0"
	}
	version, err := chartutil.ParseKubeVersion(r.kube)
	if err != nil {
		return nil, err
	}
	capabilities.KubeVersion = *version
	capabilities.APIVersions = append(slices.Clone(capabilities.APIVersions), r.apis...)
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: r.name, Namespace: r.namespace, IsInstall: true}, &capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: !r.lenient}.Render(chart, all)
}

// render returns what Helm would apply.
func (r release) render() (string, error) {
	files, err := r.files()
	if err != nil {
		return "", err
	}
	var documents []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text := strings.TrimSpace(files[name]); strings.HasSuffix(name, ".yaml") && text != "" {
			documents = append(documents, strings.TrimPrefix(text, "---\n"))
		}
	}
	return strings.Join(documents, "\n---\n") + "\n", nil
}

func mustRender(t *testing.T, r release) string {
	t.Helper()
	text, err := r.render()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// objects decodes rendered manifests.
func objects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object.GetKind() == "" || object.GetName() == "" {
			t.Errorf("no kind or name in\n%s", document)
		}
		all = append(all, object)
	}
	return all
}

// ofKinds returns the objects of some kinds, in their order.
func ofKinds(text string, kinds ...string) string {
	var out []string
	for document := range strings.SplitSeq(strings.TrimSpace(text), "\n---\n") {
		if slices.ContainsFunc(kinds, func(kind string) bool { return regexp.MustCompile(`(?m)^kind: ` + kind + `$`).MatchString(document) }) {
			out = append(out, document)
		}
	}
	return strings.Join(out, "\n---\n") + "\n"
}

// helmsLabels mean something to Helm alone.
var helmsLabels = regexp.MustCompile(`(?m)^ *(helm\.sh/chart:|app\.kubernetes\.io/managed-by: Helm\b).*\n`)

const namespace = `apiVersion: v1
kind: Namespace
metadata:
  name: tributary-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
---
`

const generated = "# Rendered from deploy/helm (make generate); do not edit.\n"

var (
	policyKinds     = []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
	monitoringKinds = []string{"ServiceMonitor", "PrometheusRule"}
)

// newer are fields that the oldest servers of the plain manifests do not know.
var newer = regexp.MustCompile(`(?m)^ *unhealthyPodEvictionPolicy:.*\n`)

// plain are the files of deploy/kubernetes.
func plain(t *testing.T) map[string]string {
	t.Helper()
	ingress := mustRender(t, release{chart: "tributary", name: "tributary", namespace: "tributary-system", values: `
config:
  clusters: []
policies:
  fencing: {enabled: true}
monitoring:
  serviceMonitor: {enabled: true}
`})
	var protecting, fencing []string
	for document := range strings.SplitSeq(strings.TrimSpace(ingress), "\n---\n") {
		if strings.Contains(document, "name: tributary.tributary-system.fencing") {
			fencing = append(fencing, document)
		} else {
			protecting = append(protecting, document)
		}
	}
	var rest []string
	for document := range strings.SplitSeq(strings.TrimSpace(ingress), "\n---\n") {
		if ofKinds(document, slices.Concat(policyKinds, monitoringKinds)...) == "\n" {
			rest = append(rest, document)
		}
	}
	member := mustRender(t, release{chart: "tributary-member", name: "tributary-member", namespace: "tributary-system"})
	files := map[string]string{
		"ingress.yaml":        "# Tributary in the ingress cluster. Its members are labelled Secrets, as `tributary link` makes them. Others are named in the\n# ConfigMap (kubeconfig: /etc/tributary/kubeconfigs/NAME.kubeconfig), and their kubeconfigs are in a Secret:\n#   kubectl -n tributary-system create secret generic tributary-kubeconfigs --from-file=NAME.kubeconfig\n" + namespace + newer.ReplaceAllString(strings.Join(rest, "\n---\n"), "") + "\n",
		"policies.yaml":       "# For Kubernetes 1.30 and later.\n" + ofKinds(strings.Join(protecting, "\n---\n"), policyKinds...),
		"fencing.yaml":        "# For Kubernetes 1.30 and later, with leader election.\n" + ofKinds(strings.Join(fencing, "\n---\n"), policyKinds...),
		"servicemonitor.yaml": ofKinds(ingress, "ServiceMonitor"),
		"member.yaml":         "# What Tributary needs in a member; `tributary link` makes it, with a kubeconfig.\n" + namespace + member,
	}
	for name, text := range files {
		files[name] = generated + helmsLabels.ReplaceAllString(text, "")
	}
	return files
}

// TestPlainManifests: what is committed for kubectl is what the charts say.
func TestPlainManifests(t *testing.T) {
	const dir = "../kubernetes/"
	files := plain(t)
	for name, want := range files {
		if *update {
			if err := os.WriteFile(dir+name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(dir + name); err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("deploy/kubernetes/%s is not what the charts say (%v); run: make generate", name, err)
		}
		objects(t, want)
	}
	committed, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range committed {
		if _, ok := files[entry.Name()]; !ok {
			t.Errorf("deploy/kubernetes/%s is rendered by nothing", entry.Name())
		}
	}
}
