// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/store"
)

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

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"strict": "true"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
}

// imageNotYetRunning is the recipe of docs/rules.md.
const imageNotYetRunning = "!(pod.spec.containers.all(c, pod.status.containerStatuses.exists(s, s.name == c.name && sameImage(s.image, c.image))))"

// compiled are rules of the member idc-a.
func compiled(t testing.TB, rules ...Rule) *Set {
	t.Helper()
	p, faults := Compile(rules)
	if len(faults) > 0 {
		t.Fatalf("%+v", faults)
	}
	return p.For("idc-a")
}

// subject is a pod of the Service as far as rules need it.
func subject(s *Set, p *corev1.Pod) store.Subject {
	k := (*Keeper)(nil).Next(s)
	return store.Subject{Pod: k.Pod(p), Service: k.Service(service()), Namespace: "shop", Labels: service().Labels, Node: "n1", Zone: "z1"}
}

// first is what the rules decide where none is held.
func first(s *Set, in store.Subject) store.Decision { return s.Decide(in, nil)[0] }

// decide compiles one rule and asks it about a pod, through what is kept of it.
func decide(t *testing.T, when string, p *corev1.Pod) (matches bool, failed string) {
	t.Helper()
	s := compiled(t, Rule{Name: "r", When: when, Then: store.Absent})
	return first(s, subject(s, p)).Then == store.Absent, s.Status()[0].LastError
}

func TestExpressions(t *testing.T) {
	for when, want := range map[string]bool{
		"true": true, "cluster == 'idc-a'": true, "node.zone == 'z1' && node.name == 'n1'": true,
		"'ops.example.com/off' in pod.metadata.annotations":                                                       true,
		"'ops.example.com/on' in pod.metadata.annotations":                                                        false,
		"pod.metadata.annotations['noise'].size() == 1000":                                                        true,
		"'a/b' in pod.metadata.finalizers":                                                                        true,
		"pod.metadata.generation > pod.status.observedGeneration":                                                 true,
		"pod.metadata.deletionTimestamp == null":                                                                  true,
		"has(pod.metadata.deletionTimestamp)":                                                                     false,
		"pod.metadata.creationTimestamp < timestamp('2000-01-01T00:00:00Z')":                                      true,
		"pod.spec.containers[0].resources.limits['cpu'].isGreaterThan(quantity('1'))":                             true,
		"pod.spec.containers.exists(c, has(c.readinessProbe) && c.readinessProbe.httpGet.port == 'http')":         true,
		"service.spec.ports[0].targetPort == 8080":                                                                true,
		"service.metadata.annotations['strict'] == 'true'":                                                        true,
		"pod.metadata.labels.exists(k, k.startsWith('ti'))":                                                       true,
		"pod.metadata.labels.all(k, v, v != '')":                                                                  true,
		"pod.spec.containers.map(c, c.name) == ['web', 'sidecar']":                                                true,
		"pod.spec.containers.filter(c, c.name == 'web')[0].image == 'nginx:1.25'":                                 true,
		"size(pod.spec.containers) == 2":                                                                          true,
		"pod.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')":                                true,
		"pod.metadata.?annotations[?'nothing'].orValue('x') == 'x'":                                               true,
		"pod.metadata.name.matches('^web-[0-9]+$')":                                                               true,
		"pod.metadata.name.find('[0-9]+') == '1' && size(pod.metadata.name.findAll('[a-z0-9]')) == 4":             true,
		"pod.spec.containers.map(c, c.name).indexOf('sidecar') == 1 && [1, 2].sum() == 3":                         true,
		"[3, 1].max() == 3 && [3, 1].min() == 1 && ['a', 'b'].isSorted() && !['b', 'a'].isSorted()":               true,
		"quantity('1Gi').add(quantity('1Gi')).compareTo(quantity('2Gi')) == 0 && quantity('3').asInteger() == 3":  true,
		"ip(pod.status.podIP).family() == 4 && cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && isIP('::1')":      true,
		"url('https://a.example/b?c=d').getHost() == 'a.example' && isURL('https://a.example')":                   true,
		"semver('1.36.3').isGreaterThan(semver('v1.9', true)) && semver('1.2.3').major() == 1":                    true,
		"!format.named('dns1123Label').value().validate(pod.metadata.name).hasValue()":                            true,
		"!format.dns1123Label().validate('web-1').hasValue() && format.dns1123Label().validate('Web').hasValue()": true,
		"pod.spec.containers[0].resources.limits['cpu'] == quantity('1500m')":                                     true,
		"pod.spec.terminationGracePeriodSeconds == 0 && pod.spec.securityContext.runAsNonRoot == false":           true,
		imageNotYetRunning: false,
	} {
		if got, failed := decide(t, when, pod(nil)); got != want || failed != "" {
			t.Errorf("%s: %v %s", when, got, failed)
		}
	}
}

// TestAPartIsAsGoodAsTheWhole: what is kept of a pod decides like the pod.
func TestAPartIsAsGoodAsTheWhole(t *testing.T) {
	old := pod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:1.26" })
	if got, failed := decide(t, imageNotYetRunning, old); !got || failed != "" {
		t.Errorf("another image does not match: %s", failed)
	}
}

func TestARuleThatFailsDoesNotMatch(t *testing.T) {
	for _, when := range []string{
		"pod.metadata.annotations['nothing'] == 'x'", "pod.spec.containers[7].name == 'x'",
		"sameImage('sha256:0123', pod.spec.containers[0].image)", "quantity(pod.metadata.name).isGreaterThan(quantity('1'))",
	} {
		if got, failed := decide(t, when, pod(nil)); got || failed == "" {
			t.Errorf("%s: %v, failed %q", when, got, failed)
		}
	}
}

func TestFaults(t *testing.T) {
	for when, want := range map[string]Fault{
		"pod.metadata.nme == 'x'":                                {Line: 1, Column: 13, Message: "undefined field 'nme'", Remedy: `did you mean "name"?`},
		"pod.spec.containers.exists(c, c.imagePullPolice == '')": {Line: 1, Column: 32, Message: "undefined field 'imagePullPolice'", Remedy: `did you mean "imagePullPolicy"?`},
		"pod.spec.containers.exists(c, has(c.img))":              {Line: 1, Column: 34, Message: "undefined field 'img'", Remedy: `did you mean "image"?`},
		"node.region == ''":                                      {Line: 1, Column: 5, Message: "undefined field 'region'", Remedy: `known here: name, zone`},
		"pod.metadata.name == 1":                                 {Line: 1, Column: 19, Message: "found no matching overload for '_==_' applied to '(string, int)'", Remedy: "bring both sides to one type: string(x)"},
		"sameImage(pod.metadata.name)":                           {Line: 1, Column: 10, Message: "found no matching overload for 'sameImage'", Remedy: "it is written sameImage(string, string), sameImage(string, string, string)"},
		"true &&\n  pdo.metadata.name == ''":                     {Line: 2, Column: 3, Message: "undeclared reference to 'pdo'", Remedy: `did you mean "pod"?`},
		"sameimage('a', 'b')":                                    {Line: 1, Column: 10, Message: "undeclared reference to 'sameimage'", Remedy: `did you mean "sameImage"?`},
		"'ü' == 'ü' && zork":                                     {Line: 1, Column: 15, Message: "undeclared reference to 'zork'", Remedy: "variables are pod, service, node, cluster; texts stand in quotes"},
		"pod.metadata.name":                                      {Message: "is of type string", Remedy: "write a condition"},
		"pod.metadata.name ==":                                   {Line: 1, Column: 21, Message: "Syntax error", Remedy: "look for a bracket"},
		"pod.metadata.name.matches('[')":                         {Line: 1, Column: 27, Message: "invalid matches", Remedy: "write a regular expression"},
		"duration('5 minutes') > duration('1s')":                 {Line: 1, Column: 10, Message: "invalid duration", Remedy: "write a duration"},
		"timestamp('today') > timestamp('2006-01-02T15:04:05Z')": {Line: 1, Column: 11, Message: "invalid timestamp", Remedy: "write a time"},
		"pod.metadata.name.all(c, true)":                         {Message: "expression of type 'string' cannot be range", Remedy: "loops (all, exists, map, filter) go over"},
		"pod.metadata.name.first == 'x'":                         {Message: "type 'string' does not support field selection", Remedy: "only objects"},
		"1 in [1, 'a']":                                          {Message: "expected type 'int' but found 'string'", Remedy: "give all elements of a list"},
		"pod.spec.containers.all(a, pod.spec.containers.all(b, pod.spec.containers.all(c, pod.spec.containers.all(d, a.name + b.name + c.name + d.name != ''))))": {Message: "may cost", Remedy: "nest fewer loops"},
		"optional.of(1)" + strings.Repeat(".optMap(x, x)", 40) + ".hasValue()":                                                                                    {Message: "is too dear to compile"},
		"pod.metadata.name == '" + strings.Repeat("a", longest) + "'":                                                                                             {Message: "is too dear to compile"},
		strings.Repeat("[", 49) + strings.Repeat("]", 49) + " == []":                                                                                              {Message: "is too dear to compile: it has 51 parts, 50 deep; at most 2000 parts, 48 deep", Remedy: "make several rules"},
		"[1]" + strings.Repeat(".map(x, [x])", 200) + " == []":                                                                                                    {Message: "is too dear to compile", Remedy: "make several rules"},
		"true" + strings.Repeat(" && [1].map(x, [x]) == []", 200):                                                                                                 {Message: "is too dear to compile", Remedy: "make several rules"},
		"pod.spec.containers.exist(c, c.name == 'x' && c.image == 'y')":                                                                                           {Line: 1, Column: 26, Message: "undeclared reference to 'exist'", Remedy: `did you mean "exists"?`},
		"authorizer.path('/healthz').check('get').allowed()":                                                                                                      {Line: 1, Column: 1, Message: "undeclared reference to 'authorizer'", Remedy: "variables are pod, service, node, cluster"},
		"pod.spec.contaners.filtr(c, c.name == 'x').exist(d, d.name == 'y' && d.image != '')":                                                                     {Line: 1, Column: 9, Message: "undefined field 'contaners'", Remedy: `did you mean "containers"?`},
		"": {},
	} {
		_, faults := Compile([]Rule{{Name: "r", When: when, Then: store.Absent}})
		if len(faults) != 1 {
			t.Errorf("%q: %+v", when, faults)
			continue
		}
		got := faults[0]
		if got.Message == "" || got.Remedy == "" || !strings.HasPrefix(got.Message, want.Message) || !strings.HasPrefix(got.Remedy, want.Remedy) || want.Line != 0 && (got.Line != want.Line || got.Column != want.Column) {
			t.Errorf("%q: %+v; want %+v", when, got, want)
		}
	}
	// What is allowed when it is compiled is what Kubernetes allows, ten times of what it may take.
	wide := "!pod.spec.containers.all(c, pod.status.containerStatuses.exists(s, s.name == c.name && (sameImage(s.image, c.image) || sameImage(s.imageID, c.image))))"
	if _, faults := Compile([]Rule{{Name: "r", When: wide, Then: store.NotReady}}); len(faults) > 0 {
		t.Errorf("%q: %+v", wide, faults)
	}
	if _, faults := Compile([]Rule{{When: "pod.spec.containers.exist(c, zork == c.name)"}}); len(faults) != 2 {
		t.Errorf("what is wrong beside a misspelt loop is not told: %+v", faults)
	}
	if _, faults := Compile([]Rule{{When: "node.region == '' || node.region == 'x'"}}); len(faults) != 2 || faults[1].Remedy != "known here: name, zone" {
		t.Errorf("what is missing twice: %+v", faults)
	}
	if _, faults := Compile([]Rule{{When: "true"}, {When: "pod.a == pod.b"}}); len(faults) != 2 || faults[0].Rule != 1 || faults[1].Column != 13 {
		t.Errorf("not all that is wrong is told: %+v", faults)
	}
}

func TestTheFirstThatMatchesDecides(t *testing.T) {
	s := compiled(t,
		Rule{Name: "elsewhere", Clusters: []string{"idc-b"}, When: "true", Then: store.Absent},
		Rule{Name: "pay", Namespaces: []string{"pay-*"}, When: "true", Then: store.NotReady},
		Rule{Name: "labelled", ServiceSelector: "app=api", When: "true", Then: store.Ready},
		Rule{Name: "fails", When: "pod.metadata.annotations['nothing'] == ''", Then: store.Absent},
		Rule{Name: "keep", When: "pod.metadata.name == 'web-2'", Then: store.Upstream},
		Rule{Name: "rest", When: "true", Then: store.Absent},
	)
	for _, test := range []struct {
		name, namespace string
		labels          map[string]string
		want            store.Decision
	}{
		{"web-1", "shop", nil, store.Decision{Rule: "rest", Then: store.Absent}},
		{"web-2", "shop", nil, store.Decision{Rule: "keep", Then: store.Upstream}},
		{"web-2", "pay-1", nil, store.Decision{Rule: "pay", Then: store.NotReady}},
		{"web-2", "shop", map[string]string{"app": "api", "b": "c"}, store.Decision{Rule: "labelled", Then: store.Ready}},
	} {
		in := subject(s, pod(func(p *corev1.Pod) { p.Name = test.name }))
		in.Namespace, in.Labels = test.namespace, test.labels
		if got := first(s, in); got != test.want {
			t.Errorf("%+v: %+v", test, got)
		}
	}
	if status := s.Status(); len(status) != 5 || status[2].Name != "fails" || status[2].Errors == 0 || status[2].LastError == "" || status[4].Evaluations == 0 || status[2].Cost == 0 {
		t.Errorf("status: %+v", status)
	}
	in := subject(s, pod(func(p *corev1.Pod) { p.Name = "web-2" }))
	for held, want := range map[string]string{"": "keep", "rest": "keep rest", "keep": "keep rest", "keep rest": "keep rest -", "fails labelled": "keep"} {
		var got []string
		for _, d := range s.Decide(in, func(rule string) bool { return slices.Contains(strings.Fields(held), rule) }) {
			got = append(got, cmp.Or(d.Rule, "-"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q are held, and match or decide: %q, not %q", held, got, want)
		}
	}
	p, _ := Compile([]Rule{{Name: "elsewhere", Clusters: []string{"idc-b"}, When: "true", Then: store.Absent}})
	if p.For("idc-a") != nil || (*Program)(nil).For("idc-a") != nil {
		t.Error("a member that no rule is about has rules")
	}
	if one, other := p.For("idc-b"), p.For("idc-b"); one.ID() != other.ID() || one.ID() == s.ID() {
		t.Error("sets are not told apart by their rules")
	}
}

// TestRulesOverAZoneThatIsNotKnown match nothing, and say so; those over a node's name do.
func TestRulesOverAZoneThatIsNotKnown(t *testing.T) {
	s := compiled(t, Rule{Name: "elsewhere", When: "node.zone != 'z1'", Then: store.Absent}, Rule{Name: "whole", When: "[node].all(n, n.zone == '')", Then: store.Absent},
		Rule{Name: "named", When: "node.name == 'n1'", Then: store.NotReady})
	if got := fmt.Sprint(s.ReadZone()); got != "[elsewhere whole]" {
		t.Errorf("the zone is read by %s", got)
	}
	in := subject(s, pod(nil))
	in.Zone = ""
	for _, test := range []struct {
		zoneless bool
		rule     string
	}{{false, "elsewhere"}, {true, "named"}, {false, "elsewhere"}} {
		if in.Zoneless = test.zoneless; first(s, in).Rule != test.rule {
			t.Errorf("zoneless: %t, %q decides", test.zoneless, first(s, in).Rule)
		}
	}
	if status := s.Status(); status[0].Errors != 1 || !strings.Contains(status[0].LastError, "nodes of this member cannot be read") || status[2].Errors != 0 {
		t.Errorf("status: %+v", status)
	}
}

// TestErrorsAreShort: what a pod says makes no rule's error long.
// TestWhatRulesRead: a start waits with what a pod that stands is by rules until what they read is listed.
func TestWhatRulesRead(t *testing.T) {
	for name, c := range map[string]struct {
		rule                   Rule
		node, service, readies bool
	}{
		"a pod":                    {Rule{When: "pod.spec.nodeName == 'n'", Then: store.Absent}, false, false, false},
		"a zone":                   {Rule{When: "node.zone == 'a'", Then: store.Ready}, true, false, true},
		"a Service":                {Rule{When: "service.metadata.name == 'web'", Then: store.NotReady}, false, true, false},
		"Services that are chosen": {Rule{When: "true", ServiceSelector: "tier=web", Then: store.Ready}, false, true, true},
		"Services of a namespace":  {Rule{When: "true", Namespaces: []string{"shop"}, Then: store.Ready}, false, false, true},
	} {
		if s := compiled(t, c.rule); s.ReadsNode() != c.node || s.ReadsService() != c.service || s.Readies() != c.readies {
			t.Errorf("%s: reads nodes %t, Services %t, makes ready %t", name, s.ReadsNode(), s.ReadsService(), s.Readies())
		}
	}
}

func TestErrorsAreShort(t *testing.T) {
	matches, failed := decide(t, "pod.metadata.labels[pod.metadata.annotations['k']] == 'x'", pod(func(p *corev1.Pod) { p.Annotations["k"] = strings.Repeat("é", 50_000) }))
	if matches || !strings.HasPrefix(failed, "no such key: é") || len(failed) > 310 || !utf8.ValidString(failed) {
		t.Errorf("matches %t, an error of %d bytes: %.320q", matches, len(failed), failed)
	}
}

// theThree are the rules of docs/rules.md.
var theThree = []Rule{
	{Name: "image-not-yet-running", When: imageNotYetRunning, Then: store.NotReady},
	{Name: "taken-off-by-hand", When: "'ops.example.com/off' in pod.metadata.annotations", Then: store.Absent},
	{Name: "change-not-yet-seen", When: "pod.metadata.generation > pod.status.observedGeneration && pod.status.observedGeneration > 0", Then: store.NotReady},
}

// TestTheRulesOfTheDocumentation: they compile, and are those that are measured here.
func TestTheRulesOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	var documented struct{ Rules []Rule }
	if err := yaml.Unmarshal([]byte(block), &documented); err != nil {
		t.Fatal(err)
	}
	words := func(r Rule) string {
		return r.Name + ": " + strings.NewReplacer("!(", "!", "))))", ")))").Replace(strings.Join(strings.Fields(r.When), "")) + " " + string(r.Then)
	}
	if len(documented.Rules) != len(theThree) {
		t.Fatalf("%d rules: %+v", len(documented.Rules), documented.Rules)
	}
	for i, r := range documented.Rules {
		if got, want := words(theThree[i]), words(r); got != want {
			t.Errorf("the documentation has\n%s\nand what is measured is\n%s", want, got)
		}
	}
	if _, faults := Compile(documented.Rules); len(faults) > 0 {
		t.Errorf("%+v", faults)
	}
}

// TestWhatTheDocumentationNames: each expression in its text compiles, and each field of a
// pod in it is one.
func TestWhatTheDocumentationNames(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	expressions := 0
	for i, span := range strings.Split(strings.ReplaceAll(string(text), "```", "\x00"), "`") {
		if field, _, _ := strings.Cut(span, "."); slices.Contains([]string{"metadata", "spec", "status"}, field) {
			span = "pod." + strings.ReplaceAll(span, "[]", "[0]")
		}
		if is := strings.HasPrefix(span, "sameImage(s") || strings.HasPrefix(span, "pod.") || strings.HasPrefix(span, "node."); i%2 == 0 || !is {
			continue
		}
		expressions++
		when := "pod.spec.containers.exists(c, pod.status.containerStatuses.exists(s, dyn(" + span + ") != null))"
		if _, faults := Compile([]Rule{{Name: "r", When: when, Then: store.Absent}}); len(faults) > 0 {
			t.Errorf("%s: %+v", span, faults)
		}
	}
	if expressions < 8 {
		t.Errorf("%d expressions", expressions)
	}
}

// TestOnlyWhatIsNamedIsKept: and pods that have the same of it share it.
func TestOnlyWhatIsNamedIsKept(t *testing.T) {
	k := (*Keeper)(nil).Next(compiled(t, theThree...))
	one := k.Pod(pod(nil))
	other := k.Pod(pod(func(p *corev1.Pod) { p.Name, p.Status.PodIP, p.Annotations["noise"] = "web-2", "10.0.0.2", "" }))
	if one != other {
		t.Errorf("pods that differ in what no rule names differ:\n%q\n%q", one.Text, other.Text)
	}
	if n := len(one.Text); n > 300 {
		t.Errorf("%d bytes are kept: %q", n, one.Text)
	}
	if changed := k.Pod(pod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:1.26" })); changed == one {
		t.Error("another image is not noticed")
	}
	if k.Service(service()).Text != "" {
		t.Error("something is kept of Services that no rule names")
	}
	long := k.Pod(pod(func(p *corev1.Pod) { p.Annotations["ops.example.com/off"] = strings.Repeat("x", 1000) }))
	if long != one {
		t.Errorf("what is asked for alone is kept with its value: %q", long.Text)
	}
	if got := (*Keeper)(nil).Pod(pod(nil)); got != (store.Kept{}) {
		t.Errorf("without rules %v is kept", got)
	}
}

// TestToAskWhetherSomethingIsThereKeepsNoMore: nor does to ask how long it is.
func TestToAskWhetherSomethingIsThereKeepsNoMore(t *testing.T) {
	const long = 3000
	p := pod(func(p *corev1.Pod) { p.Annotations["a"] = strings.Repeat("é", long) })
	for when, most := range map[string]int{
		"has(pod.metadata.annotations)":                                                              6,
		"has(pod.metadata.annotations) && 'a' in pod.metadata.annotations":                           9,
		"has(pod.metadata.annotations.a) && has(pod.spec.containers)":                                14,
		"pod.metadata.?annotations[?'a'].hasValue()":                                                 9,
		"'a' in pod.metadata.?annotations.orValue({})":                                               9,
		"pod.metadata.annotations['a'].size() == 3000":                                               11,
		"size(pod.metadata.?annotations.a.orValue('')) == 3000 && has(pod.metadata.annotations.a)":   11,
		"pod.metadata.annotations.all(k, v, size(v) > 2)":                                            44,
		"pod.metadata.annotations.size() == 3 && 'a' in pod.metadata.annotations":                    40,
		"pod.metadata.annotations.exists(k, k == 'a') && pod.metadata.annotations['a'].size() > 5":   40,
		"size(pod.spec.containers) > 1 && pod.spec.containers.size() < 3":                            8,
		"has(pod.status.containerStatuses) && pod.status.containerStatuses.all(s, s.image != 'x')":   64,
		"pod.spec.containers[?0].hasValue() && pod.spec.containers.exists(c, has(c.readinessProbe))": 12,
	} {
		s := compiled(t, Rule{Name: "r", When: when, Then: store.Absent})
		in := subject(s, p)
		if n := len(in.Pod.Text); n > most {
			t.Errorf("%s keeps %d bytes, more than %d: %.100q", when, n, most, in.Pod.Text)
		}
		if first(s, in).Then != store.Absent || s.Status()[0].LastError != "" {
			t.Errorf("%s does not match what is kept, %.100q: %s", when, in.Pod.Text, s.Status()[0].LastError)
		}
	}
}

// TestMoreIsAskedForOnlyIfItIsNotKept: an edit that reads less, or the same, needs no
// other reading of the pods.
func TestMoreIsAskedForOnlyIfItIsNotKept(t *testing.T) {
	reads := func(when string) *Set { return compiled(t, Rule{Name: "r", When: when, Then: store.Absent}) }
	images := reads("pod.spec.containers.exists(c, c.image == 'a')")
	k := (*Keeper)(nil).Next(images)
	more := func(k, next *Keeper) bool { return next.since != k.since }
	for _, test := range []struct {
		when string
		more bool
	}{
		{"true", false}, {"cluster == 'a' && node.zone == 'b'", false}, {"pod.spec.containers.all(c, c.image != 'b')", false}, {"pod.spec.containers[0].image == 'b'", false},
		{"pod.spec.containers[0].name == 'b'", true}, {"pod.spec.containers == []", true}, {"pod.metadata.name == 'b'", true}, {"service.metadata.name == 'b'", true},
	} {
		if got := more(k, k.Next(reads(test.when))); got != test.more {
			t.Errorf("%s: more is %v", test.when, got)
		}
	}
	if less := k.Next(nil); more(k, less) || less.Pod(pod(nil)) != (store.Kept{}) || !more(less, less.Next(images)) {
		t.Error("what was let go of is not asked for again")
	}
	both := k.Next(images, reads("pod.metadata.annotations['a'] == ''"))
	if !more(both, both.Next(reads("'b' in pod.metadata.annotations"))) {
		t.Error("another annotation is not asked for")
	}
	if all := both.Next(reads("pod.metadata.annotations.exists(k, k == 'b')")); more(all, all.Next(reads("'c' in pod.metadata.annotations"))) {
		t.Error("one of all annotations is asked for again")
	}
	if got := k.Since(images); got != (store.KeptSince{Pod: 1}) {
		t.Errorf("since is %v", got)
	}
}

func TestSameImage(t *testing.T) {
	const digest = "@sha256:9b1fd9e3e0c1c0cbe7e0b0d1bb0c3b4e0e9d0d7c4b3a2f1e0d9c8b7a6f5e4d3c"
	const another = "@sha256:0b1fd9e3e0c1c0cbe7e0b0d1bb0c3b4e0e9d0d7c4b3a2f1e0d9c8b7a6f5e4d3c"
	for _, test := range []struct {
		a, b string
		same bool
		fail bool
	}{
		{"nginx:1.25", "docker.io/library/nginx:1.25", true, false},
		{"nginx", "docker.io/library/nginx:latest", true, false},
		{"team/web:1", "index.docker.io/team/web:1", true, false},
		{"nginx:1.25", "nginx:1.26", false, false},
		{"nginx:1.25", "quay.io/nginx:1.25", false, false},
		{"localhost:5000/web:1", "localhost:5000/web:1", true, false},
		{"nginx" + digest, "docker.io/library/nginx" + digest, true, false},
		{"nginx:1.25" + digest, "nginx:1.26" + another, false, false},
		{"nginx:1.25" + digest, "nginx:1.25", true, false},
		{"nginx" + digest, "nginx:1.25", false, true},
		{"sha256:0123", "nginx", false, true},
		{"", "", false, true},
		{"Nginx", "nginx", false, true},
	} {
		same, problem := SameImage(test.a, "", test.b)
		if back, _ := SameImage(test.b, "", test.a); same != test.same || back != same || (problem != "") != test.fail {
			t.Errorf("%s, %s: %v %v %q", test.a, test.b, same, back, problem)
		}
	}
}

// TestSameImageAsRuntimesSpellIt: what containerd, CRI-O and Docker report as image and
// imageID of a container that runs what a pod asks for, and of one that runs another.
func TestSameImageAsRuntimesSpellIt(t *testing.T) {
	const one, other = "@sha256:9b1fd9e3e0c1c0cbe7e0b0d1bb0c3b4e0e9d0d7c4b3a2f1e0d9c8b7a6f5e4d3c", "@sha256:0b1fd9e3e0c1c0cbe7e0b0d1bb0c3b4e0e9d0d7c4b3a2f1e0d9c8b7a6f5e4d3c"
	for _, test := range []struct {
		runtime, image, id, wanted, another string
	}{
		{"containerd", "docker.io/library/nginx:1.25", "docker.io/library/nginx" + one, "nginx:1.25", "nginx:1.26"},
		{"containerd", "docker.io/library/nginx:1.25", "docker.io/library/nginx" + one, "nginx" + one, "nginx" + other},
		{"containerd, of a digest without a tag", "docker.io/library/nginx" + one, "docker.io/library/nginx" + one, "nginx" + one, "nginx" + other},
		{"containerd", "registry.example.com:5000/shop/web:v1", "registry.example.com:5000/shop/web" + one, "registry.example.com:5000/shop/web:v1" + one, "registry.example.com:5000/shop/web:v1" + other},
		{"CRI-O", "docker.io/library/nginx:1.25", "docker.io/library/nginx" + one, "nginx:1.25", "nginx:1.26"},
		{"CRI-O, built on the node", "localhost/web:v1", "localhost/web" + one, "web:v1", "web:v2"},
		{"CRI-O, built on the node", "localhost/team/web:v1", "0123456789012345678901234567890123456789012345678901234567890123", "team/web:v1", "team/web:v2"},
		{"Docker", "nginx:1.25", "docker-pullable://nginx" + one, "nginx:1.25", "nginx:1.26"},
		{"Docker", "nginx:1.25", "docker-pullable://nginx" + one, "nginx" + one, "nginx" + other},
		{"Docker, built on the node", "web:v1", "docker://sha256:0123", "web:v1", "web:v2"},
		{"another registry", "quay.io/team/web:v1", "quay.io/team/web" + one, "quay.io/team/web" + one, "team/web" + one},
	} {
		if same, problem := SameImage(test.image, test.id, test.wanted); !same || problem != "" {
			t.Errorf("%s: %s does not run %s: %s", test.runtime, test.image, test.wanted, problem)
		}
		if same, problem := SameImage(test.image, test.id, test.another); same || problem != "" {
			t.Errorf("%s: %s runs %s: %v %s", test.runtime, test.image, test.another, same, problem)
		}
	}
}

// TestImagesAreRememberedWithinBounds: whatever names come.
func TestImagesAreRememberedWithinBounds(t *testing.T) {
	for i := range 3 * mostImages {
		imageNamed(fmt.Sprintf("example.com/web:v%d", i))
	}
	imageNamed(strings.Repeat("a", longestImage+1))
	if n := len(known.images); n > mostImages || known.images[strings.Repeat("a", longestImage+1)] != nil {
		t.Errorf("%d are remembered", n)
	}
}

// FuzzCompile: whatever is written, it is compiled or refused, and what is compiled
// decides about any pod without a panic, and the same by what is kept as by the whole.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{imageNotYetRunning, "pod.metadata.labels.exists(k, v, k == v)", "pod.?spec", "[pod].all(p, p.spec.nodeName == '')",
		"{'a': pod.metadata}['a'].name == ''", "has(pod.metadata.labels.app) && size(pod.metadata.labels.app) == pod.metadata.labels.size()", "pod.metadata.?labels.?app.orValue('') == 'web'",
		"pod.metadata.labels.exists(k, size(k) == 3 && k in pod.metadata.annotations)", "has(pod.metadata.labels) ? has(pod.spec.hostAliases) : 'a' in pod.metadata.finalizers", "service.spec.ports.map(p, p.port).sum() == 80", "pod.metadata.name.find('x') == ''", "has(pod.spec.affinity) || pod == pod"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, when string) {
		p, faults := Compile([]Rule{{Name: "r", When: when, Then: store.Absent}})
		if len(faults) > 0 {
			return
		}
		s := p.For("c")
		whole := &Keeper{writePod: classOf[corev1.Pod]().writer(wholly), writeService: classOf[corev1.Service]().writer(wholly)}
		k := (*Keeper)(nil).Next(s)
		for _, p := range []*corev1.Pod{{}, pod(nil)} {
			in := store.Subject{Namespace: "shop", Node: "n1", Zone: "z1", Pod: whole.Pod(p), Service: whole.Service(service())}
			want := first(s, in)
			in.Pod, in.Service = k.Pod(p), k.Service(service())
			if got := first(s, in); got != want {
				t.Errorf("%q decides %v about what is kept, %v about the whole pod", when, got, want)
			}
			if r := s.rules[0]; r.plain != nil {
				v := s.view(&in)
				got, _, failed := r.plain.Eval(v)
				if is, _, counted := r.counting.Eval(v); v.usual && fmt.Sprint(got, failed) != fmt.Sprint(is, counted) {
					t.Errorf("%q comes to %v %v, and counting to %v %v", when, got, failed, is, counted)
				}
			}
		}
	})
}

// unlike returns an event of a pod that is unlike all before to one of the documentation's
// rules, or to all of them: what is kept of it, and the evaluation. Each is another image
// and generation, and nothing that came of asking is remembered. No rule matches.
func unlike(tb testing.TB, s *Set) (event func()) {
	k := (*Keeper)(nil).Next(s)
	p := pod(func(p *corev1.Pod) { delete(p.Annotations, "ops.example.com/off") })
	n := int64(0)
	return func() {
		n++
		p.Spec.Containers[0].Image = fmt.Sprint("shop/checkout:", n)
		p.Status.ContainerStatuses[0].Image = "docker.io/" + p.Spec.Containers[0].Image
		p.Generation, p.Status.ObservedGeneration = n, n
		clear(s.asked)
		if first(s, store.Subject{Pod: k.Pod(p), Namespace: "shop"}).Rule != "" || s.Status()[0].Evaluations != uint64(n) {
			tb.Fatal("a rule matches, or none was asked")
		}
	}
}

// TestWhatAnEventCosts: 15 µs a rule are allowed, where to read a pod off the wire takes
// more than 2. It is held against that, in turns and by the shortest of many: a busy or slow
// machine takes longer for both.
func TestWhatAnEventCosts(t *testing.T) {
	wire, err := pod(nil).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read := func() {
		var p corev1.Pod
		if err := p.Unmarshal(wire); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range theThree {
		event := unlike(t, compiled(t, rule))
		if n := testing.AllocsPerRun(100, event); n > 80 {
			t.Errorf("%s: %.0f allocations an event; 80 are allowed", rule.Name, n)
		}
		best := func(shortest time.Duration, run func()) time.Duration {
			began := time.Now()
			for range 20 {
				run()
			}
			return min(shortest, time.Since(began)/20)
		}
		reading, asking := time.Hour, time.Hour
		for range 100 {
			reading, asking = best(reading, read), best(asking, event)
		}
		t.Logf("%s: %v an event, %v to read a pod", rule.Name, asking, reading)
		if asking > 5*reading {
			t.Errorf("%s: an event takes %v, more than five times the %v to read a pod", rule.Name, asking, reading)
		}
	}
}

// BenchmarkEvent is what an event of a pod costs more by a rule where no pod was like that
// before. Bar: 15 µs a rule.
func BenchmarkEvent(b *testing.B) {
	for _, test := range append([]Rule{{Name: "all three"}}, theThree...) {
		rules := []Rule{test}
		if test.When == "" {
			rules = theThree
		}
		event := unlike(b, compiled(b, rules...))
		b.Run(strings.ReplaceAll(test.Name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				event()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*len(rules)), "ns/rule")
		})
	}
}
