// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/syncer"
)

var at = field.NewPath("rules")

// pod is a pod that has something of everything.
func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1", Generation: 3, Labels: map[string]string{"app": "web", "tier": "front"},
			Annotations: map[string]string{"ops.example.com/off": "yes", "noise": strings.Repeat("x", 1000)},
			Finalizers:  []string{"a/b"}, CreationTimestamp: metav1.Unix(1000, 0),
		},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{
			{Name: "web", Image: "nginx:1.25", Env: []corev1.EnvVar{{Name: "LONG", Value: strings.Repeat("y", 1000)}},
				Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Resources:      corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1500m")}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}}}},
			{Name: "sidecar", Image: "example.com/team/proxy:v2"},
		}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 2, PodIP: "10.1.2.3",
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Image: "docker.io/library/nginx:1.25"}, {Name: "sidecar", Image: "example.com/team/proxy:v2"}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

// imageNotYetRunning is the recipe of docs/rules.md.
const imageNotYetRunning = "!pod.spec.containers.all(c, pod.status.containerStatuses.exists(s, s.name == c.name && sameImage(s.image, c.image)))"

// compiled are rules of the member idc-a.
func compiled(t testing.TB, rules ...Rule) *Set {
	t.Helper()
	p, faults := Compile(at, rules)
	if len(faults) > 0 {
		t.Fatalf("%+v: %+v", rules, faults)
	}
	return p.For("idc-a")
}

// asked compiles one rule and asks it about a pod.
func asked(t *testing.T, when string, p *corev1.Pod) (matches bool, failed string) {
	t.Helper()
	s := compiled(t, Rule{Name: "r", When: when, Then: "Absent"})
	is, _, err := s.rules[0].program.Eval(map[string]any{varPod: podValue(p), varCluster: s.member})
	matches = s.Match(p) == 1
	if matches != (err == nil && is == types.True) {
		t.Errorf("%s: matches %t, and the rule says %v, %v", when, matches, is, err)
	}
	if err != nil {
		failed = err.Error()
	}
	return matches, failed
}

func TestExpressions(t *testing.T) {
	for when, want := range map[string]bool{
		"true": true, "cluster == 'idc-a'": true, "pod.spec.nodeName == 'n1'": true,
		"'ops.example.com/off' in pod.metadata.annotations":                                                       true,
		"'ops.example.com/on' in pod.metadata.annotations":                                                        false,
		"pod.metadata.annotations['noise'].size() == 1000":                                                        true,
		"'a/b' in pod.metadata.finalizers":                                                                        true,
		"pod.metadata.generation > pod.status.observedGeneration":                                                 true,
		"pod.metadata.deletionTimestamp == null":                                                                  true,
		"has(pod.metadata.deletionTimestamp) || has(pod.metadata.ownerReferences)":                                false,
		"pod.metadata.creationTimestamp < timestamp('2000-01-01T00:00:00Z')":                                      true,
		"pod.spec.containers[0].resources.limits['cpu'].isGreaterThan(quantity('1'))":                             true,
		"pod.spec.containers.exists(c, has(c.readinessProbe) && c.readinessProbe.httpGet.port == 'http')":         true,
		"pod.spec.containers[1].readinessProbe.httpGet.path == ''":                                                true,
		"pod.metadata.labels.exists(k, k.startsWith('ti'))":                                                       true,
		"pod.metadata.labels.all(k, v, v != '')":                                                                  true,
		"pod.spec.containers.map(c, c.name) == ['web', 'sidecar']":                                                true,
		"pod.spec.containers.filter(c, c.name == 'web')[0].image == 'nginx:1.25'":                                 true,
		"size(pod.spec.containers) == 2 && size(pod.spec.initContainers) == 0":                                    true,
		"pod.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')":                                true,
		"pod.metadata.?annotations[?'nothing'].orValue('x') == 'x'":                                               true,
		"pod.metadata.name.matches('^web-[0-9]+$')":                                                               true,
		"pod.metadata.name.find('[0-9]+') == '1' && size(pod.metadata.name.findAll('[a-z0-9]')) == 4":             true,
		"pod.spec.containers.map(c, c.name).indexOf('sidecar') == 1 && [1, 2].sum() == 3":                         true,
		"quantity('1Gi').add(quantity('1Gi')).compareTo(quantity('2Gi')) == 0 && quantity('3').asInteger() == 3":  true,
		"ip(pod.status.podIP).family() == 4 && cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && isIP('::1')":      true,
		"url('https://a.example/b?c=d').getHost() == 'a.example' && isURL('https://a.example')":                   true,
		"semver('1.36.3').isGreaterThan(semver('v1.9', true)) && semver('1.2.3').major() == 1":                    true,
		"!format.dns1123Label().validate('web-1').hasValue() && format.dns1123Label().validate('Web').hasValue()": true,
		"pod.spec.containers[0].resources.limits['cpu'] == quantity('1500m')":                                     true,
		"pod.spec.terminationGracePeriodSeconds == 0 && pod.spec.securityContext.runAsNonRoot == false":           true,
		imageNotYetRunning: false,
	} {
		if got, failed := asked(t, when, pod(nil)); got != want || failed != "" {
			t.Errorf("%s: %v %s", when, got, failed)
		}
	}
	other := pod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:1.26" })
	if got, failed := asked(t, imageNotYetRunning, other); !got || failed != "" {
		t.Errorf("another image does not match: %s", failed)
	}
	if got, failed := asked(t, imageNotYetRunning, &corev1.Pod{}); got || failed != "" {
		t.Errorf("a pod of nothing: %t, %s", got, failed)
	}
}

func TestARuleThatFailsDoesNotMatch(t *testing.T) {
	for _, when := range []string{
		"pod.metadata.annotations['nothing'] == 'x'", "pod.spec.containers[7].name == 'x'",
		"v1.Container{name: 'a'}.name == 'a'",
		"sameImage('sha256:0123', pod.spec.containers[0].image)", "quantity(pod.metadata.name).isGreaterThan(quantity('1'))",
	} {
		if got, failed := asked(t, when, pod(nil)); got || failed == "" {
			t.Errorf("%s: %v, failed %q", when, got, failed)
		}
	}
}

func TestFaults(t *testing.T) {
	for when, want := range map[string]string{
		"pod.metadata.nme == 'x'":                                       `1:13: undefined field 'nme'; kubectl explain pod --recursive names the fields`,
		"pod.spec.containers.exists(c, c.imagePullPolice == '')":        `1:32: undefined field 'imagePullPolice'; kubectl explain pod --recursive names the fields`,
		"pod.spec.containers.exists(c, has(c.img))":                     `1:34: undefined field 'img'; kubectl explain pod --recursive names the fields`,
		"pod.region == ''":                                              `1:4: undefined field 'region'; kubectl explain pod --recursive names the fields`,
		"pod.metadata.name == 1":                                        `1:19: found no matching overload for '_==_' applied to '(string, int)'; bring both sides to one type with string(x)`,
		"sameImage(pod.metadata.name)":                                  `1:10: found no matching overload for 'sameImage' applied to '(string)'; bring both sides to one type`,
		"true &&\n  pdo.metadata.name == ''":                            `2:3: undeclared reference to 'pdo'; variables are pod and cluster`,
		"sameimage('a', 'b')":                                           `1:10: undeclared reference to 'sameimage'; variables are pod and cluster`,
		"'ü' == 'ü' && zork":                                            `1:15: undeclared reference to 'zork'; variables are pod and cluster; texts stand in quotes`,
		"service.metadata.name == 'x'":                                  `1:1: undeclared reference to 'service'; variables are pod and cluster`,
		"pod.metadata.name":                                             `is of type string; write a condition`,
		"pod.metadata.name ==":                                          `1:21: Syntax error`,
		"pod.metadata.name.matches('[')":                                `1:27: invalid matches`,
		"duration('5 minutes') > duration('1s')":                        `1:10: invalid duration`,
		"timestamp('today') > timestamp('2006-01-02T15:04:05Z')":        `1:11: invalid timestamp`,
		"pod.metadata.name.all(c, true)":                                `1:13: expression of type 'string' cannot be range`,
		"pod.metadata.name.first == 'x'":                                `1:18: type 'string' does not support field selection; only objects`,
		"1 in [1, 'a']":                                                 `1:10: expected type 'int' but found 'string'; give all elements of a list`,
		"pod.spec.containers.exist(c, c.name == 'x' && c.image == 'y')": `1:26: undeclared reference to 'exist'; variables are pod and cluster`,
		"authorizer.path('/healthz').check('get').allowed()":            `1:1: undeclared reference to 'authorizer'; variables are pod and cluster`,
		"pod.spec.contaners.filtr(c, c.name == 'x').exist(d, d.name == 'y' && d.image != '')":                                                                     `1:9: undefined field 'contaners'; kubectl explain pod --recursive names the fields`,
		"pod.spec.containers.all(a, pod.spec.containers.all(b, pod.spec.containers.all(c, pod.spec.containers.all(d, a.name + b.name + c.name + d.name != ''))))": `may cost more than 10000000 on a large pod; nest fewer loops`,
		"optional.of(1)" + strings.Repeat(".optMap(x, x)", 40) + ".hasValue()":                                                                                    `is too dear to compile`,
		"pod.metadata.name == '" + strings.Repeat("a", longest) + "'":                                                                                             `is too dear to compile`,
		"": `write a condition in CEL`,
	} {
		_, faults := Compile(at, []Rule{{Name: "r", When: when, Then: "Absent"}})
		if len(faults) == 0 || !strings.HasPrefix(faults[0].Detail, want) || faults[0].Field != "rules[0].when" {
			t.Errorf("%q: %+v; want %s", when, faults, want)
		}
	}
	_, faults := Compile(at, []Rule{{When: "true", Then: "Ready"}, {When: "pod.a == pod.b", Then: "Gone"}})
	var where []string
	for _, f := range faults {
		where = append(where, f.Field)
	}
	if got := strings.Join(where, " "); got != "rules[1].when rules[1].when rules[1].then" {
		t.Errorf("not all that is wrong is told: %s", got)
	}
	if _, faults := Compile(at, make([]Rule, Most+1)); len(faults) != 1 || faults[0].Type != field.ErrorTypeTooMany {
		t.Errorf("%v", faults)
	}
	wide := "!pod.spec.containers.all(c, pod.status.containerStatuses.exists(s, s.name == c.name && (sameImage(s.image, c.image) || sameImage(s.imageID, c.image))))"
	if _, faults := Compile(at, []Rule{{Name: "r", When: wide, Then: "Ready"}}); len(faults) > 0 {
		t.Errorf("%q: %+v", wide, faults)
	}
}

func TestBitsAreThoseOfTheConfiguration(t *testing.T) {
	s := compiled(t,
		Rule{Name: "elsewhere", Clusters: []string{"idc-b"}, When: "true", Then: "Absent"},
		Rule{Name: "pay", Namespaces: []string{"pay-*"}, When: "true", Then: "NotReady"},
		Rule{Name: "labelled", ServiceSelector: "app=api", When: "true", Then: "Ready"},
		Rule{Name: "fails", When: "pod.metadata.annotations['nothing'] == ''", Then: "Absent"},
		Rule{Name: "keep", When: "pod.metadata.name == 'web-2'", Then: "Upstream"},
		Rule{Name: "rest", Clusters: []string{"idc-*"}, When: "true", Then: "Absent"},
	)
	for _, test := range []struct {
		name, namespace string
		labels          map[string]string
		want            string // matches and applies, rule 0 on the right
	}{
		{"web-1", "shop", nil, "100100 111000"},
		{"web-2", "shop", map[string]string{"app": "web"}, "110100 111000"},
		{"web-2", "pay-1", map[string]string{"app": "api"}, "110110 111110"},
	} {
		matches := s.Match(pod(func(p *corev1.Pod) { p.Name, p.Namespace = test.name, test.namespace }))
		applies := s.Applies(&syncer.Service{Key: syncer.Key{Namespace: test.namespace, Name: "web"}, Labels: test.labels})
		if got := fmt.Sprintf("%06b %06b", matches, applies); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	if s.Then()[1] != syncer.ThenNotReady || len(s.Then()) != 6 {
		t.Errorf("%v", s.Then())
	}
}

func TestSets(t *testing.T) {
	rules := []Rule{{Name: "b", Clusters: []string{"idc-b"}, When: "true", Then: "Absent"}, {Name: "a", Clusters: []string{"idc-a"}, When: "true", Then: "Absent"}}
	p, _ := Compile(at, rules)
	again, _ := Compile(at, rules)
	without, _ := Compile(at, rules[1:])
	switch {
	case !p.For("idc-c").Empty(), p.For("idc-a").Empty():
		t.Error("a member that no rule is about has rules")
	case p.For("idc-a").ID() != again.For("idc-a").ID(), p.For("idc-a").ID() == p.For("idc-b").ID():
		t.Error("sets are not told apart by their rules")
	case p.For("idc-a").ID() == without.For("idc-a").ID():
		t.Error("a rule with another bit is the same")
	}
	none := p.For("idc-c")
	if none.Match(pod(nil)) != 0 || none.Applies(&syncer.Service{}) != 0 || none.ID() != again.For("idc-c").ID() {
		t.Error("a Set of nothing says something")
	}
}

// TestCosts: a pod that is larger than any should be costs its rules, not the process.
func TestCosts(t *testing.T) {
	huge := pod(func(p *corev1.Pod) { p.Annotations["noise"] = strings.Repeat("x", 100_000) })
	// What it costs is reckoned from the lengths: a pattern that fails at the first letter costs no time.
	dear := "[1, 2, 3, 4, 5, 6, 7, 8].all(i, !pod.metadata.annotations['noise'].matches('^" + strings.Repeat("y", 120) + "$'))"
	if matches, failed := asked(t, dear, huge); matches || !strings.Contains(failed, "cost limit exceeded") {
		t.Errorf("matches %t, %q", matches, failed)
	}
	cheap := Rule{Name: "cheap", When: "true", Then: "Absent"}
	all := append(slices.Repeat([]Rule{{Name: "dear", When: dear, Then: "Absent"}}, perObjectLimit/perCallLimit), cheap)
	if matches := compiled(t, all[0], cheap).Match(huge); matches != 2 {
		t.Errorf("matches %b: the dear one fails, and leaves something", matches)
	}
	if matches := compiled(t, all...).Match(huge); matches != 0 {
		t.Errorf("matches %b: a rule is asked when nothing is left for it", matches)
	}
}

// FuzzCompile: no expression makes the compiler, or what it compiled, panic.
func FuzzCompile(f *testing.F) {
	f.Add(imageNotYetRunning)
	f.Add("pod.metadata.?annotations[?'a'].orValue('') == \"b\" && [1, 2].sum() == 3")
	f.Add("pod.spec.containers.exist(c, c.nme == 1)")
	f.Add("v1.Pod{}.spec == pod.spec || type(pod) == v1.Pod || dyn(pod).x == 1")
	f.Fuzz(func(t *testing.T, when string) {
		p, faults := Compile(at, []Rule{{Name: "r", When: when, Then: "Absent"}})
		if (p == nil) != (len(faults) > 0) {
			t.Fatalf("%v, %v", p, faults)
		}
		if p != nil {
			p.For("a").Match(pod(nil))
			p.For("a").Match(&corev1.Pod{})
		}
	})
}

// BenchmarkMatch is what reading a pod costs more with the three rules of
// docs/rules.md.
func BenchmarkMatch(b *testing.B) {
	s := compiled(b,
		Rule{Name: "image-not-yet-running", When: imageNotYetRunning, Then: "NotReady"},
		Rule{Name: "taken-off-by-hand", When: "'ops.example.com/off' in pod.metadata.annotations", Then: "NotReady"},
		Rule{Name: "change-not-yet-seen", When: "pod.metadata.generation > pod.status.observedGeneration && pod.status.observedGeneration > 0", Then: "NotReady"})
	of := pod(nil)
	for b.Loop() {
		s.Match(of)
	}
}
