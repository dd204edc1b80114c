// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func ingress(values string) release {
	return release{chart: "tributary", name: "tributary", namespace: "tributary-system", values: values}
}

// everything switches all on that a chart can carry.
const everything = `
monitoring:
  serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
  dashboards: {enabled: true, annotations: {folder: tributary}}
config: {clusters: [], clustersFrom: {secrets: {}}, ingress: {namespaces: [web, shop]}}
commonLabels: {team: edge}
`

// TestSchema: a slip of the hand is refused before anything is applied.
func TestSchema(t *testing.T) {
	for name, values := range map[string]string{
		"unknown field":           "replica: 2",
		"unknown in a part":       "image: {repo: x}",
		"a cluster without name":  "config: {clusters: [{kubeconfig: a}]}",
		"the chart's own field":   "config: {clusters: [], metricsListen: ':1'}",
		"a field that is none":    "config: {replicas: {mode: union}}",
		"metrics by TLS":          "metrics: {tls: {secretName: x}}",
		"a digest that is none":   "image: {digest: latest}",
		"a limit in bytes":        "resources: {limits: {memory: 1073741824}}",
		"a limit of fractions":    "resources: {limits: {memory: 1.5Gi}}",
		"no limit":                "resources: {limits: null}",
		"priority of Kubernetes":  "priorityClass: {value: 2000000000}",
		"a text where a list is":  "tolerations: none",
		"a field without value":   "config: {replicas: {createNamespaces: null}}",
		"an instance with blanks": "config: {instance: a b}",
		"several that all write":  "config: {leaderElection: {enabled: false}}",
		"no configuration":        "config: null",
		"no image":                "image: null",
		"braces":                  "config: {ingress: {namespaces: ['{a,b}']}}",
		"a tag of YAML":           "config: {ingress: {namespaces: ['!a']}}",
		"a namespace twice":       "config: {ingress: {namespaces: [web, web]}}",
		"a namespace's case":      "config: {ingress: {namespaces: [Web]}}",
		"a label of the chart":    "commonLabels: {app.kubernetes.io/managed-by: x}",
		"a label of a monitor":    "monitoring: {serviceMonitor: {labels: {helm.sh/chart: x}}}",
		"a label with a blank":    "commonLabels: {team: a b}",
		"a pod nobody selects":    "podLabels: {app.kubernetes.io/name: x}",
		"a name that is none":     "fullnameOverride: A_B",
		"a label that is none":    "nameOverride: A_B",
		"an account that is none": "serviceAccount: {name: A_B}",
		"two at one port":         "metrics: {port: 9440}",
		"two at one port, either": "config: {listen: '127.0.0.1:9441'}",
	} {
		if _, err := ingress(values).render(); err == nil {
			t.Errorf("%s: %q is accepted", name, values)
		}
	}
	for _, values := range []string{"", everything, "resources: {limits: {memory: 512Mi, cpu: '2'}}", "image: {digest: sha256:" + strings.Repeat("a", 64) + "}"} {
		if _, err := ingress(values).render(); err != nil {
			t.Errorf("%q: %v", values, err)
		}
	}
	for _, values := range []string{"namespaces: [Web]", "account: x"} {
		if _, err := (release{chart: "tributary-member", name: "m", namespace: "n", values: values}).render(); err == nil {
			t.Errorf("member: %q is accepted", values)
		}
	}
}

// TestNulls: a part without a value is one that is switched off.
func TestNulls(t *testing.T) {
	want := objects(t, mustRender(t, ingress("")))
	for values, less := range map[string]int{
		"config: {clusters: null, clustersFrom: null}": 0,
		"policies: null": 6, "policies: {protect: null, fencing: null}": 6, "policies: {protect: {users: null, groups: null}}": 0,
		"monitoring: null": 0, "monitoring: {serviceMonitor: null, prometheusRule: null, dashboards: null}": 0,
		"podDisruptionBudget: null": 1, "priorityClass: null": 1, "networkPolicy: null": 1, "metrics: null": 0, "sinks: null": 0, "openshift: null": 0,
		"nameOverride: null\nfullnameOverride: null\ncommonLabels: null\npodLabels: null\npodAnnotations: null":                            0,
		"nodeSelector: null\naffinity: null\ntolerations: null\nspreadOver: null\nextraArgs: null\nextraEnv: null\nimagePullSecrets: null": 0,
	} {
		r := ingress(values)
		r.lenient = true
		if got := objects(t, mustRender(t, r)); len(got) != len(want)-less {
			t.Errorf("%q: %d objects, want %d", values, len(got), len(want)-less)
		}
	}
}

// TestLabelsMeet: a monitor's own label wins over the common one, and neither is there twice.
func TestLabelsMeet(t *testing.T) {
	for _, o := range objects(t, mustRender(t, ingress("commonLabels: {team: edge}\nmonitoring: {serviceMonitor: {enabled: true, labels: {team: watch}}}"))) {
		want := "edge"
		if o.GetKind() == "ServiceMonitor" {
			want = "watch"
		}
		if got := o.GetLabels()["team"]; got != want {
			t.Errorf("%s %s: team %q, want %q", o.GetKind(), o.GetName(), got, want)
		}
	}
}

// TestNamesThatLookLikeNumbers stay names.
func TestNamesThatLookLikeNumbers(t *testing.T) {
	r := ingress("nameOverride: '12'\nconfig: {clusters: [], ingress: {namespaces: ['34']}}")
	r.name = "56"
	text := mustRender(t, r)
	for _, want := range []string{"name: \"12\"\n", "instance: \"56\"\n", "namespace: \"34\"\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
}

// TestMemoryLimit: the collector gets nine tenths of the limit.
func TestMemoryLimit(t *testing.T) {
	for limit, want := range map[string]string{"1Gi": "921MiB", "512Mi": "460MiB", "4Gi": "3686MiB"} {
		text := mustRender(t, ingress("resources: {limits: {memory: "+limit+"}}"))
		if !strings.Contains(text, "value: "+want+"\n") {
			t.Errorf("limit %s: no GOMEMLIMIT of %s", limit, want)
		}
	}
}

// grants lists the rights of all roles, as "Kind namespace: verbs resources".
func grants(objects []*unstructured.Unstructured) []string {
	var all []string
	for _, o := range objects {
		if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
		for _, rule := range rules {
			verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
			resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
			all = append(all, strings.TrimSpace(o.GetKind()+" "+o.GetNamespace())+": "+strings.Join(verbs, ",")+" "+strings.Join(resources, ","))
		}
	}
	slices.Sort(all)
	return all
}

// TestRightsFollowTheConfiguration: nothing is granted that this configuration does not need.
func TestRightsFollowTheConfiguration(t *testing.T) {
	const read, write = "get,list,watch ", "create,update,delete "
	in := func(role string, rights ...string) (out []string) {
		for _, right := range rights {
			out = append(out, role+": "+right)
		}
		return out
	}
	readsAlone := in("ClusterRole", read+"services,endpoints", read+"endpointslices", read+"namespaces")
	reads := in("ClusterRole", read+"services,endpoints", read+"endpointslices", "get,list,watch,create namespaces")
	writes := []string{"create events", write + "services,endpoints", write + "endpointslices"}
	own := func(namespace string) []string {
		return in("Role "+namespace, "get,create,update leases", "get,create,update configmaps")
	}
	const secrets = "get,list,update secrets"
	for name, c := range map[string]struct {
		config string
		want   [][]string
	}{
		"whole cluster":      {"clustersFrom: null", [][]string{reads, in("ClusterRole", writes...), own("tributary-system")}},
		"a glob":             {"clustersFrom: null, ingress: {namespaces: ['web-*']}", [][]string{reads, in("ClusterRole", writes...), own("tributary-system")}},
		"no namespaces made": {"clustersFrom: null, replicas: {createNamespaces: false}", [][]string{readsAlone, in("ClusterRole", writes...), own("tributary-system")}},
		"slices alone": {"clustersFrom: null, replicas: {write: [EndpointSlices]}", [][]string{
			reads, in("ClusterRole", "create events", write+"services", write+"endpointslices"), own("tributary-system")}},
		"named namespaces":   {"clustersFrom: null, ingress: {namespaces: [shop, web]}", [][]string{reads, in("Role shop", writes...), in("Role web", writes...), own("tributary-system")}},
		"members by Secrets": {"ingress: {namespaces: [shop]}, clustersFrom: {secrets: {selector: a}}", [][]string{reads, in("Role shop", writes...), own("tributary-system"), in("Role tributary-system", secrets)}},
		"another namespace":  {"ingress: {namespaces: [shop]}, namespace: own, clustersFrom: {secrets: {}}", [][]string{reads, in("Role shop", writes...), own("own"), in("Role own", secrets)}},
		"nothing said":       {"ingress: {namespaces: [shop]}, clustersFrom: null, leaderElection: {}", [][]string{reads, in("Role shop", writes...), own("tributary-system")}},
		"sinks":              {"ingress: {namespaces: [shop]}, clustersFrom: null, sinks: [{name: slb, url: 'https://slb'}]", [][]string{reads, in("Role shop", writes...), own("tributary-system")}},
		"by default":         {"ingress: {namespaces: [shop]}", [][]string{reads, in("Role shop", writes...), own("tributary-system"), in("Role tributary-system", secrets)}},
	} {
		want := slices.Concat(c.want...)
		slices.Sort(want)
		if got := grants(objects(t, mustRender(t, ingress("config: {"+c.config+"}")))); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestRightsOfOpenShift: its two rights are granted where it is one, and nowhere else.
func TestRightsOfOpenShift(t *testing.T) {
	asked := ingress("")
	asked.apis = []string{"security.openshift.io/v1"}
	for name, c := range map[string]struct {
		release
		want int
	}{
		"Kubernetes": {ingress(""), 0}, "OpenShift answers": {asked, 2}, "it is said": {ingress("openshift: true"), 2},
		"slices alone": {ingress("openshift: true\nconfig: {replicas: {write: [EndpointSlices]}}"), 1},
	} {
		if got := strings.Count(strings.Join(grants(objects(t, mustRender(t, c.release))), "\n"), "/restricted"); got != c.want {
			t.Errorf("%s: %d rights of its own, want %d", name, got, c.want)
		}
	}
}

// TestOwnNamespaceIsSaid: the configuration names the namespace of the release, unless it names another one.
func TestOwnNamespaceIsSaid(t *testing.T) {
	for values, want := range map[string]string{"": "edge", "config: {namespace: own}": "own"} {
		r := ingress(values)
		r.namespace = "edge"
		if got := settingOf(t, mustRender(t, r), "namespace"); got != want {
			t.Errorf("%q: namespace %v, want %s", values, got, want)
		}
	}
}

// TestSecretsOfSinks: what sinks prove themselves by is mounted where there is a Secret for it.
func TestSecretsOfSinks(t *testing.T) {
	for values, want := range map[string]int{"sinks: {secretName: slb}": 1, "": 0, "sinks: null": 0} {
		text := mustRender(t, ingress(values))
		objects(t, text)
		if got := strings.Count(text, "mountPath: /etc/tributary/sinks\n"); got != want || strings.Count(text, "secretName: slb\n") != want {
			t.Errorf("%q: mounted %d times", values, got)
		}
	}
}

// TestInstallationsDoNotMeet: two releases share no object, in one namespace or in two, and neither shares one with
// the member's side: a cluster can be both.
func TestInstallationsDoNotMeet(t *testing.T) {
	owner := map[string]string{}
	for _, r := range []release{
		{chart: "tributary", name: "tributary", namespace: "tributary-system", values: everything},
		{chart: "tributary", name: "tributary", namespace: "other", values: "config: {clusters: [], instance: other, ingress: {namespaces: [web]}}"},
		{chart: "tributary", name: "second", namespace: "tributary-system", values: "config: {clusters: [], instance: second}"},
		{chart: "tributary-member", name: "member", namespace: "tributary-system"},
	} {
		for _, o := range objects(t, mustRender(t, r)) {
			key := strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, "/")
			if other, taken := owner[key]; taken {
				t.Errorf("%s is of %s and of %s/%s", key, other, r.namespace, r.name)
			}
			owner[key] = r.namespace + "/" + r.name
		}
	}
}

// TestRunbooksAreFound: alerts and dashboards lead to them where they are published, and nowhere else.
func TestRunbooksAreFound(t *testing.T) {
	const ours, theirs = "https://tributary.dev/docs/operations.md", "https://wiki.example/tributary"
	usual := mustRender(t, ingress(everything))
	if strings.Count(usual, ours+"#tributaryconflict") == 0 {
		t.Error("no alert leads to its runbook")
	}
	text := mustRender(t, ingress(strings.Replace(everything, "monitoring:", "monitoring:\n  runbookURL: "+theirs, 1)))
	if strings.Contains(text, ours) || text != strings.ReplaceAll(usual, ours, theirs) {
		t.Errorf("%d links lead elsewhere", strings.Count(text, ours))
	}
}

// TestClassicHistograms are asked for, unless the operator is too old to be.
func TestClassicHistograms(t *testing.T) {
	for more, want := range map[string]int{"": 1, ", scrapeClassicHistograms: false": 0} {
		text := mustRender(t, ingress("monitoring: {serviceMonitor: {enabled: true"+more+"}}"))
		if got := strings.Count(text, "scrapeClassicHistograms: true\n"); got != want {
			t.Errorf("%q: asked for %d times", more, got)
		}
	}
}

// TestTemplateAsksNoVersion: helm template without flags takes the cluster for an old one, and renders all the same.
func TestTemplateAsksNoVersion(t *testing.T) {
	for _, name := range []string{"tributary", "tributary-member"} {
		chart, err := loader.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if chart.Metadata.KubeVersion != "" {
			t.Errorf("%s wants Kubernetes %s", name, chart.Metadata.KubeVersion)
		}
		mustRender(t, release{chart: name, name: "x", namespace: "x", kube: "v1.20.0"})
	}
}

// TestPoliciesNeedTheirVersion: an API server that has no such policies gets none.
func TestPoliciesNeedTheirVersion(t *testing.T) {
	for kube, want := range map[string]bool{"v1.29.9": false, "v1.30.0": true, "v1.36.3-eks-1": true} {
		r := ingress("")
		r.kube = kube
		if got := strings.Contains(mustRender(t, r), "kind: ValidatingAdmissionPolicy\n"); got != want {
			t.Errorf("%s: a policy is rendered: %v", kube, got)
		}
	}
}

// TestLabelsAreSettable: what looks for monitors, rules and dashboards by labels finds them.
func TestLabelsAreSettable(t *testing.T) {
	found := 0
	for _, o := range objects(t, mustRender(t, ingress(everything))) {
		labels := o.GetLabels()
		if labels["team"] != "edge" {
			t.Errorf("%s %s: no common label", o.GetKind(), o.GetName())
		}
		switch {
		case o.GetKind() == "ServiceMonitor", o.GetKind() == "PrometheusRule":
			if labels["release"] != "prometheus" {
				t.Errorf("%s: labels %v", o.GetKind(), labels)
			}
			found++
		case labels["grafana_dashboard"] == "1":
			found++
		}
	}
	if found != 4 {
		t.Errorf("%d of a monitor, a rule and two dashboards", found)
	}
}

// TestNotes: what they tell the user to type is for this installation.
func TestNotes(t *testing.T) {
	for values, want := range map[string]string{
		"{}": "Tributary v0 runs as edge/tributary, instance default.\n\nTHIS_CONTEXT is the context of your kubeconfig for this cluster. State of the members:\n" +
			"  tributary status --context THIS_CONTEXT --namespace edge\n\nA further member, of another context:\n" +
			"  tributary link NAME --context ITS_CONTEXT --ingress-context THIS_CONTEXT --ingress-namespace edge\n",
		"{config: {instance: blue, namespace: own}}": " --namespace own --instance blue\n\nA further member, of another context:\n" +
			"  tributary link NAME --context ITS_CONTEXT --ingress-context THIS_CONTEXT --ingress-namespace own --account tributary-blue\n",
		"{config: {clustersFrom: null}}":                             " --namespace edge\n",
		"{config: {clustersFrom: {secrets: {selector: team=edge}}}}": " --namespace edge\n",
	} {
		files, err := release{chart: "tributary", name: "tributary", namespace: "edge", values: values}.files()
		if err != nil {
			t.Fatal(err)
		}
		notes := regexp.MustCompile(`^Tributary \S+`).ReplaceAllString(files["tributary/templates/NOTES.txt"], "Tributary v0")
		if !strings.HasSuffix(notes, want) {
			t.Errorf("%s:\n%q\nwant %q", values, notes, want)
		}
	}
}
