// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// definition defines a kind of another project. Its schema is structural and preserves no unknown fields: strict
// validation refuses them.
const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]s.%[2]s
  annotations: {api-approved.kubernetes.io: unapproved}
spec:
  group: %[2]s
  scope: Namespaced
  names: {plural: %[1]s, kind: %[3]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec: {type: object%[4]s}
`

const (
	// prometheusDuration is how the operator and Prometheus write a length of time.
	prometheusDuration = `{type: string, pattern: '^([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$'}`
	texts              = `{type: object, additionalProperties: {type: string}}`
	dnsLabel           = `{type: string, maxLength: 63, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'}`
	portNumber         = `{type: integer, minimum: 1, maximum: 65535}`
)

// specs are the schemas of the kinds that the chart and the page use, as their projects document them.
var specs = map[string]string{
	"ServiceMonitor": `, required: [selector, endpoints], properties: {
  selector: {type: object, properties: {matchLabels: ` + texts + `}},
  namespaceSelector: {type: object, properties: {any: {type: boolean}, matchNames: {type: array, items: ` + dnsLabel + `}}},
  scrapeClassicHistograms: {type: boolean},
  endpoints: {type: array, items: {type: object, properties: {port: {type: string}, path: {type: string}, interval: ` + prometheusDuration + `}}}}`,
	"PrometheusRule": `, properties: {groups: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {
  name: {type: string, minLength: 1}, interval: ` + prometheusDuration + `,
  rules: {type: array, items: {type: object, required: [expr], properties: {
    alert: {type: string}, expr: {x-kubernetes-int-or-string: true}, for: ` + prometheusDuration + `, labels: ` + texts + `, annotations: ` + texts + `}}}}}}}`,
	"HTTPRoute": `, properties: {
  parentRefs: {type: array, items: {type: object, required: [name], properties: {name: {type: string}, namespace: ` + dnsLabel + `, sectionName: {type: string}, port: ` + portNumber + `}}},
  hostnames: {type: array, items: {type: string}},
  rules: {type: array, items: {type: object, properties: {backendRefs: {type: array, items: {type: object, required: [name], properties: {name: {type: string}, namespace: ` + dnsLabel + `, port: ` + portNumber + `}}}}}}}`,
}

// define creates the definition of a kind.
func (s *site) define(group, kind string) {
	s.Helper()
	path := filepath.Join(s.TempDir(), "crd.yaml")
	plural := strings.ToLower(kind) + "s"
	s.must(os.WriteFile(path, fmt.Appendf(nil, definition, plural, group, kind, specs[kind]), 0o600))
	s.sh("kubectl --context ingress apply -f " + path)
	s.sh("kubectl --context ingress wait --for=condition=Established --timeout=60s crd/" + plural + "." + group)
}

// apply makes a server validate manifests without storing any.
const apply = " apply --server-side --force-conflicts --dry-run=server --validate=strict -f "

// everything switches on everything that the chart can render beside its defaults.
const everything = ` --set monitoring.serviceMonitor.enabled=true --set monitoring.serviceMonitor.interval=15s` +
	` --set monitoring.serviceMonitor.labels.release=prometheus --set monitoring.prometheusRule.enabled=true --set monitoring.dashboards.enabled=true --set policies.fencing.enabled=true --set openshift=true`

// manifestsAreValid has the API server validate every plain manifest, and all that the chart can render, without storing
// any. Misspelt fields are refused, also in kinds with schemas of ours.
func (s *site) manifestsAreValid() {
	s.Helper()
	s.define("monitoring.coreos.com", "ServiceMonitor")
	s.define("monitoring.coreos.com", "PrometheusRule")
	manifests, err := filepath.Glob(filepath.Join(s.root, "deploy/kubernetes/*.yaml"))
	s.must(err)
	if len(manifests) < 5 {
		s.Fatalf("%d manifests", len(manifests))
	}
	s.sh("kubectl --context idc-c create namespace tributary-system")
	for _, path := range manifests {
		in := "ingress"
		if filepath.Base(path) == "member.yaml" {
			in = "idc-c"
		}
		s.sh("kubectl --context " + in + apply + path)
	}
	const all = "helm template tributary deploy/helm/tributary --namespace tributary-system --kube-version 1.36.0" + everything
	s.sh("kubectl --context ingress" + apply + "<(" + all + ")")
	for _, misspelt := range []string{"s/scrapeClassicHistograms/scrapeClassicHistogram/", "s/annotations:/anotations:/", "s/maxUnavailable/maxUnavailible/"} {
		out := s.sh("kubectl --context ingress" + apply + "<(" + all + " | sed '" + misspelt + "') 2>&1 && echo TAKEN || true")
		if strings.Contains(out, "TAKEN") || !strings.Contains(out, "unknown field") && !strings.Contains(out, "field not declared in schema") {
			s.Errorf("%s: a misspelt field is taken:\n%s", misspelt, out)
		}
	}
	s.sh("kubectl --context idc-c" + apply + "<(tributary link x --dry-run -o yaml)")
	s.sh("kubectl --context idc-c delete namespace tributary-system --wait=false")
	// Nothing here finishes the deletion of a namespace.
	s.sh(`kubectl --context idc-c get namespace tributary-system -o json | sed 's/"finalizers": \[/"was": [/' | kubectl --context idc-c replace --raw /api/v1/namespaces/tributary-system/finalize -f -`)
}
