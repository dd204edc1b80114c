// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
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
			Phase: corev1.PodRunning, ObservedGeneration: 2,
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

// decide compiles one rule and asks it about a pod, through what is kept of it.
func decide(t *testing.T, when string, p *corev1.Pod) (matches bool, failed string) {
	t.Helper()
	s, faults := Compile("idc-a", []Rule{{Name: "r", When: when, Then: Absent}})
	if len(faults) > 0 {
		t.Fatalf("%s: %+v", when, faults)
	}
	in := InputOf(s.KeepPod(p), s.KeepService(service()), Node{Name: "n1", Zone: "z1"}, "shop", service().Labels)
	return s.Decide(in).Then == Absent, s.Status()[0].LastError
}

func TestExpressions(t *testing.T) {
	for when, want := range map[string]bool{
		"true": true, "cluster == 'idc-a'": true, "node.zone == 'z1' && node.name == 'n1'": true,
		"'ops.example.com/off' in pod.metadata.annotations":                                               true,
		"'ops.example.com/on' in pod.metadata.annotations":                                                false,
		"pod.metadata.annotations['noise'].size() == 1000":                                                true,
		"'a/b' in pod.metadata.finalizers":                                                                true,
		"pod.metadata.generation > pod.status.observedGeneration":                                         true,
		"pod.metadata.deletionTimestamp == null":                                                          true,
		"has(pod.metadata.deletionTimestamp)":                                                             false,
		"pod.metadata.creationTimestamp < timestamp('2000-01-01T00:00:00Z')":                              true,
		"pod.spec.containers[0].resources.limits['cpu'].isGreaterThan(quantity('1'))":                     true,
		"pod.spec.containers.exists(c, has(c.readinessProbe) && c.readinessProbe.httpGet.port == 'http')": true,
		"service.spec.ports[0].targetPort == 8080":                                                        true,
		"service.metadata.annotations['strict'] == 'true'":                                                true,
		"pod.metadata.labels.exists(k, k.startsWith('ti'))":                                               true,
		"pod.metadata.labels.all(k, v, v != '')":                                                          true,
		"pod.spec.containers.map(c, c.name) == ['web', 'sidecar']":                                        true,
		"pod.spec.containers.filter(c, c.name == 'web')[0].image == 'nginx:1.25'":                         true,
		"size(pod.spec.containers) == 2":                                                                  true,
		"pod.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')":                        true,
		"pod.metadata.?annotations[?'nothing'].orValue('x') == 'x'":                                       true,
		"pod.metadata.name.matches('^web-[0-9]+$')":                                                       true,
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
		"pod.metadata.nme == 'x'":            {Line: 1, Column: 13, Message: "undefined field 'nme'"},
		"pod.metadata.name == 1":             {Line: 1, Column: 19, Message: "found no matching overload for '_==_' applied to '(string, int)'"},
		"true &&\n  pdo.metadata.name == ''": {Line: 2, Column: 3, Message: "undeclared reference to 'pdo' (in container '')"},
		"pod.metadata.name":                  {Message: "is of type string"},
		"pod.metadata.name ==":               {Line: 1, Column: 21},
		"pod.metadata.name.matches('[')":     {Line: 1, Column: 27},
		"pod.spec.containers.all(a, pod.spec.containers.all(b, pod.spec.containers.all(c, pod.spec.containers.all(d, a.name + b.name + c.name + d.name != ''))))": {Message: "may cost"},
		"": {},
	} {
		_, faults := Compile("idc-a", []Rule{{Name: "r", When: when, Then: Absent}})
		if len(faults) != 1 {
			t.Errorf("%q: %+v", when, faults)
			continue
		}
		got := faults[0]
		if got.Field != "when" || got.Message == "" || !strings.HasPrefix(got.Message, want.Message) || want.Line != 0 && (got.Line != want.Line || got.Column != want.Column) {
			t.Errorf("%q: %+v; want %+v", when, got, want)
		}
	}
	_, faults := Compile("idc-a", []Rule{
		{When: "true", Then: "Gone", Namespaces: []string{"a["}, ServiceSelector: "a==b=c"},
		{Name: "a", When: "true", Then: Ready}, {Name: "a", When: "true", Then: Ready, Clusters: []string{""}},
	})
	var fields []string
	for _, f := range faults {
		fields = append(fields, f.Field)
	}
	if got := strings.Join(fields, " "); got != "name namespaces then serviceSelector name clusters" {
		t.Errorf("faults of %s: %+v", got, faults)
	}
}

func TestTheFirstThatMatchesDecides(t *testing.T) {
	rules := []Rule{
		{Name: "elsewhere", Clusters: []string{"idc-b"}, When: "true", Then: Absent},
		{Name: "pay", Namespaces: []string{"pay-*"}, When: "true", Then: NotReady},
		{Name: "labelled", ServiceSelector: "app=api", When: "true", Then: Ready},
		{Name: "fails", When: "pod.metadata.annotations['nothing'] == ''", Then: Absent},
		{Name: "keep", When: "pod.metadata.name == 'web-2'", Then: Upstream},
		{Name: "rest", When: "true", Then: Absent},
	}
	s, faults := Compile("idc-a", rules)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for _, test := range []struct {
		name, namespace string
		labels          map[string]string
		want            Decision
	}{
		{"web-1", "shop", nil, Decision{"rest", Absent}},
		{"web-2", "shop", nil, Decision{"keep", Upstream}},
		{"web-2", "pay-1", nil, Decision{"pay", NotReady}},
		{"web-2", "shop", map[string]string{"app": "api", "b": "c"}, Decision{"labelled", Ready}},
	} {
		p := pod(func(p *corev1.Pod) { p.Name = test.name })
		for range 2 { // the second time from memory
			if got := s.Decide(InputOf(s.KeepPod(p), Kept{}, Node{}, test.namespace, test.labels)); got != test.want {
				t.Errorf("%+v: %+v", test, got)
			}
		}
	}
	if status := s.Status(); len(status) != 5 || status[2].Errors == 0 || status[2].LastError == "" || status[4].Matches == 0 {
		t.Errorf("status: %+v", status)
	}
	var none *Set
	if got := none.Decide(Input{}); got != (Decision{Then: Upstream}) || none.KeepPod(pod(nil)) != (Kept{}) || none.Status() != nil {
		t.Errorf("no rules: %+v", got)
	}
}

// TestOnlyWhatIsNamedIsKept: and pods that have the same of it share it.
func TestOnlyWhatIsNamedIsKept(t *testing.T) {
	s, faults := Compile("idc-a", []Rule{
		{Name: "image", When: imageNotYetRunning, Then: NotReady},
		{Name: "off", When: "'ops.example.com/off' in pod.metadata.annotations", Then: Absent},
		{Name: "generation", When: "pod.metadata.generation > pod.status.observedGeneration", Then: NotReady},
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	one := s.KeepPod(pod(nil))
	other := s.KeepPod(pod(func(p *corev1.Pod) { p.Name, p.Status.PodIP, p.Annotations["noise"] = "web-2", "10.0.0.2", "" }))
	if one != other {
		t.Errorf("pods that differ in what no rule names differ:\n%q\n%q", one.bytes(), other.bytes())
	}
	if n := len(one.bytes()); n > 300 {
		t.Errorf("%d bytes are kept: %q", n, one.bytes())
	}
	if changed := s.KeepPod(pod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:1.26" })); changed == one {
		t.Error("another image is not noticed")
	}
	if s.KeepService(service()) != (Kept{}) {
		t.Error("something is kept of Services that no rule names")
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
		same, problem := SameImage(test.a, test.b)
		if back, _ := SameImage(test.b, test.a); same != test.same || back != same || (problem != "") != test.fail {
			t.Errorf("%s, %s: %v %v %q", test.a, test.b, same, back, problem)
		}
	}
}

// FuzzCompile: whatever is written, it is compiled or refused, and what is compiled
// decides about any pod without a panic.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{imageNotYetRunning, "pod.metadata.labels.exists(k, v, k == v)", "pod.?spec", "[pod].all(p, p.spec.nodeName == '')", "{'a': pod.metadata}['a'].name == ''"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, when string) {
		s, faults := Compile("c", []Rule{{Name: "r", When: when, Then: Absent}})
		if len(faults) > 0 {
			return
		}
		for _, p := range []*corev1.Pod{{}, pod(nil)} {
			whole, err := s.variables(Input{Pod: keep(p), Service: keep(service()), Node: Node{"n1", "z1"}})
			if err != nil {
				t.Fatal(err)
			}
			left := uint64(perObjectLimit)
			want := s.rules[0].decides(whole, &left)
			if got := s.Decide(InputOf(s.KeepPod(p), s.KeepService(service()), Node{"n1", "z1"}, "shop", nil)).Then == Absent; got != want {
				t.Errorf("%q decides %v about what is kept, %v about the whole pod", when, got, want)
			}
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	for name, when := range map[string]string{"image": imageNotYetRunning, "annotation": "'ops.example.com/off' in pod.metadata.annotations"} {
		s, faults := Compile("idc-a", []Rule{{Name: "r", When: when, Then: Absent}})
		if len(faults) > 0 {
			b.Fatal(faults)
		}
		p := pod(nil)
		b.Run(name+"/new", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.evaluate(InputOf(s.KeepPod(p), Kept{}, Node{}, "shop", nil))
			}
		})
		b.Run(name+"/known", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Decide(InputOf(s.KeepPod(p), Kept{}, Node{}, "shop", nil))
			}
		})
	}
}
