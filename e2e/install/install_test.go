// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

const (
	own  = "tributary-system"
	page = "docs/install.md"
	// soon is how long a change may take to become visible on a busy machine.
	soon = 30 * time.Second
)

// site is the environment of the page: an ingress cluster, members, and an operator's tools.
type site struct {
	*testing.T
	fleet *fleet.Fleet
	root  string
	env   []string
	page  map[string][]string
	proc  *fleet.Tributary
	// pod is the pod that proc represents, started is how many there were.
	pod     string
	started int
	kubelet *kubelet
	// local describes the running process.
	local local
	// before are the inventories of the clusters before the installation.
	before map[*fleet.Site]inventory
}

func newSite(t *testing.T, page string, members ...string) *site {
	t.Helper()
	root, err := repository()
	s := &site{T: t, root: root}
	s.must(err)
	s.page, err = commands(filepath.Join(root, page))
	s.must(err)
	tools, err := buildTools(t.Context())
	s.must(err)
	binary, err := fleet.BuildTributary(t.Context(), false)
	s.must(err)
	bin := t.TempDir()
	s.must(os.Symlink(binary, filepath.Join(bin, "tributary")))
	s.fleet = fleettest.Start(t, fleet.Options{Members: members, Adjust: recordEverything})
	for _, c := range append([]*fleet.Site{s.fleet.Ingress}, s.fleet.Members...) {
		s.must(c.Revoke(t.Context(), fleet.ProductUser)) // the chart's account has that name, and its rights come from the chart alone
	}
	s.startKubelet()
	s.before = map[*fleet.Site]inventory{}
	for _, c := range append([]*fleet.Site{s.fleet.Ingress}, s.fleet.Members...) {
		s.before[c] = s.inventory(c)
	}
	s.env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG="+s.kubeconfig(), "PATH="+bin+":"+tools+":"+os.Getenv("PATH"))
	return s
}

// recordEverything audits reads, too.
func recordEverything(_ string, o *cluster.Options) {
	policy := filepath.Join(o.Dir, "everything.yaml")
	if err := os.WriteFile(policy, []byte(auditReads), 0o600); err != nil {
		panic(err)
	}
	// Like servers before 1.34 they do not stream lists, so that the right to list is needed.
	o.APIServerFlags = append(o.APIServerFlags, "--feature-gates=WatchList=false", "--audit-policy-file="+policy, "--audit-log-path="+filepath.Join(o.Dir, "requests.log"),
		"--audit-log-mode=blocking", "--audit-log-maxsize=65536")
}

func requestLog(s *fleet.Site) string { return filepath.Join(s.Dir(), "requests.log") }

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// kubeconfig has a context for every cluster, with the rights of an administrator.
func (s *site) kubeconfig() string {
	s.Helper()
	file := clientcmdapi.NewConfig()
	for _, c := range append([]*fleet.Site{s.fleet.Ingress}, s.fleet.Members...) {
		admin := c.AdminConfig()
		file.Clusters[c.Name()] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
		file.AuthInfos[c.Name()] = &clientcmdapi.AuthInfo{Token: admin.BearerToken}
		file.Contexts[c.Name()] = &clientcmdapi.Context{Cluster: c.Name(), AuthInfo: c.Name()}
	}
	path := filepath.Join(s.TempDir(), "kubeconfig")
	s.must(clientcmd.WriteToFile(*file, path))
	return path
}

// sh runs a command as typed in a checkout.
func (s *site) sh(command string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail; "+command)
	cmd.Dir, cmd.Env = s.root, s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("$ %s\n%s\n%v", command, out, err)
	}
	s.Logf("$ %s\n%s", command, out)
	return string(out)
}

// lines returns the commands of the page under a heading, none of which has run yet.
func (s *site) lines(heading string) []string {
	s.Helper()
	lines := s.page[heading]
	if len(lines) == 0 {
		s.Fatalf("the page has no commands under %q", heading)
	}
	delete(s.page, heading)
	return lines
}

// run runs a command of the page, exactly as written there.
func (s *site) run(line string) string {
	s.Helper()
	if strings.HasPrefix(line, "tributary ") && s.pod != "" {
		s.leads() // which it does not at once after its start
	}
	return s.sh(line)
}

// section runs the commands of the page under a heading.
func (s *site) section(heading string) {
	s.Helper()
	for _, line := range s.lines(heading) {
		s.run(line)
	}
}

// done checks that every command of the page was run.
func (s *site) done() {
	s.Helper()
	for heading := range s.page {
		s.Errorf("the commands under %q were not run", heading)
	}
}

// start runs tributary as the chart's Deployment would: as a pod with its container's command and its account.
func (s *site) start() {
	s.Helper()
	pod, kubeconfig := s.newPod()
	s.pod, s.local = pod.Name, s.localOf(pod, kubeconfig)
	s.proc = fleettest.RunTributary(s.T, fleet.TributaryOptions{Config: s.local.config, Dir: s.TempDir(), Container: s.local.args, Env: s.local.env})
	s.kubelet.serve(pod.Name, strings.TrimPrefix(s.proc.URL, "http://"))
	s.must(s.proc.WaitReady(s.Context()))
	s.must(s.local.probe(pod.Spec.Containers[0].ReadinessProbe))
	s.must(s.local.probe(pod.Spec.Containers[0].LivenessProbe))
	metrics := s.local.address("metrics")
	s.sh(fmt.Sprintf("curl -sf http://%[1]s/metrics | grep -c ^tributary_ && ! curl -sf http://%[1]s/debug/status", metrics))
}

func (s *site) restart() {
	s.Helper()
	s.stop()
	s.start()
}

// shows waits until a replica, in namespace shop unless name has another, has endpoints of exactly these members.
func (s *site) shows(name string, members ...string) {
	s.Helper()
	slices.Sort(members)
	namespace := "shop"
	if in, of, found := strings.Cut(name, "/"); found {
		namespace, name = in, of
	}
	fleettest.Eventually(s.T, soon, func(ctx context.Context) error {
		list, err := s.fleet.Ingress.Client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
		if err != nil {
			return err
		}
		var got []string
		for _, slice := range list.Items {
			if len(slice.Endpoints) > 0 {
				got = append(got, slice.Labels["multicluster.kubernetes.io/source-cluster"])
			}
		}
		if slices.Sort(got); !slices.Equal(got, members) {
			return fmt.Errorf("%s has endpoints of %q, want %q", name, got, members)
		}
		return nil
	})
}

// writes counts the writes of replicas in the ingress cluster.
func (s *site) writes() int {
	s.Helper()
	sent, err := requests(requestLog(s.fleet.Ingress), "system:serviceaccount:"+own+":tributary")
	s.must(err)
	n := 0
	for _, r := range sent {
		if !strings.Contains(r.URI, "dryRun=") && slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) && slices.Contains([]string{"services", "endpoints", "endpointslices", "namespaces"}, r.ObjectRef.Resource) {
			n++
		}
	}
	return n
}

// TestInstall follows docs/install.md.
func TestInstall(t *testing.T) {
	s := newSite(t, page, "idc-a", "idc-b", "idc-c")
	s.populate()
	s.section("Before you begin")
	for i, line := range s.lines("1. Tributary into the ingress cluster") {
		if out := s.run(line); i == 0 {
			s.hinted(out)
		}
	}
	s.manifestsAreValid()
	s.podIsRestricted()
	s.start()
	s.section("2. The first member")
	s.shows("web", "idc-a")
	s.define("gateway.networking.k8s.io", "HTTPRoute")
	s.section("3. The first Ingress")
	s.section("4. The second member")
	s.shows("web", "idc-a", "idc-b")
	s.third()
	s.shows("web", "idc-a", "idc-b", "idc-c")
	s.shows("stock/depot", "idc-c")
	a, c := s.fleet.Member("idc-a"), s.fleet.Member("idc-c")
	renewed := []func(context.Context) error{s.age(a), s.age(c)}
	s.protected()
	s.work()
	s.interrupted(a, c)
	s.upgrade()
	for _, renewal := range renewed {
		fleettest.Eventually(t, 3*soon, renewal) // tokens are checked each minute
	}
	s.judgeRights("tributary-member", a, c)
	s.standBy()
	s.judgeRights("tributary", s.fleet.Ingress)
	s.checked()
	s.section("Uninstall")
	s.must(s.proc.Stop(t.Context()))
	s.nothingIsLeft()
	s.done()
}

// TestInstallByRoles confines the chart to a namespace: Roles suffice, in the ingress cluster and in a member.
func TestInstallByRoles(t *testing.T) {
	s := newSite(t, page, "idc-a", "idc-c")
	s.populate()
	s.must(s.fleet.Ingress.CreateNamespaces(t.Context(), "shop"))
	s.sh(s.page["1. Tributary into the ingress cluster"][0] + ` --set-json 'config.ingress={"namespaces":["shop"]}'`)
	s.start()
	s.section("2. The first member")
	s.third()
	s.shows("web", "idc-a", "idc-c")
	s.shows("stock/depot") // there is no Role
	renewed := s.age(s.fleet.Member("idc-a"))
	s.work()
	fleettest.Eventually(t, 3*soon, renewed) // tokens are checked each minute
	s.standBy()
	s.refusedNothing("tributary", s.fleet.Ingress)
}

// hinted runs the command that the chart's notes have for adding a member.
func (s *site) hinted(notes string) {
	s.Helper()
	for line := range strings.Lines(notes) {
		if command := strings.TrimSpace(line); strings.HasPrefix(command, "tributary link ") {
			s.sh(strings.NewReplacer("NAME", "x", "ITS_CONTEXT", "idc-a", "THIS_CONTEXT", "ingress").Replace(command) + " --dry-run")
			return
		}
	}
	s.Error("the notes of the chart do not say how to add a member")
}

// protected checks that only Tributary, not even an administrator, can change marked objects or mark others.
func (s *site) protected() {
	s.Helper()
	s.sh("kubectl --context ingress -n shop create service clusterip foreign --tcp=80")
	const mark = "app.kubernetes.io/managed-by=tributary tributary.dev/instance=default"
	for _, command := range []string{
		"label service web app.kubernetes.io/managed-by-",
		"label service web tributary.dev/instance=other --overwrite",
		`patch service web --subresource status --type merge -p '{"metadata":{"labels":{"tributary.dev/instance":null}}}'`,
		`patch service web --type merge -p '{"spec":{"selector":{"app":"web"}}}'`,
		`patch endpoints web --type merge -p '{"subsets":null}'`,
		"label endpointslices -l kubernetes.io/service-name=web tributary.dev/instance-",
		"delete endpointslices -l kubernetes.io/service-name=web",
		"delete endpoints web",
		"delete service web",
		"label service foreign " + mark,
		`patch service foreign --subresource status --type merge -p '{"metadata":{"labels":{"app.kubernetes.io/managed-by":"tributary","tributary.dev/instance":"default"}}}'`,
	} {
		s.denied("-n shop " + command)
	}
	s.denied("-n tributary-system label lease tributary-leader.default tributary.dev/instance-")
	s.sh("kubectl --context ingress -n shop delete service foreign")
	slice := func(service string) string {
		return fmt.Sprintf(`echo '{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"stray","labels":{"kubernetes.io/service-name":"%s"}},`+
			`"addressType":"IPv4","endpoints":[{"addresses":["10.66.6.6"]}],"ports":[{"port":80}]}' | kubectl --context ingress -n shop apply -f - 2>&1 || true`, service)
	}
	if out := s.sh(slice("foreign")); !strings.Contains(out, "created") {
		s.Errorf("a slice of another Service is denied:\n%s", out)
	}
	if out := s.sh(slice("web")); !strings.Contains(out, "Tributary writes the EndpointSlices of Service web") {
		s.Errorf("a slice of a replica is not denied:\n%s", out)
	}
	s.sh("kubectl --context ingress -n shop delete endpointslice stray")
}

// denied runs a command that only Tributary is allowed.
func (s *site) denied(command string) {
	s.Helper()
	out := s.sh("kubectl --context ingress " + command + " 2>&1 && echo IT WAS DONE || true")
	if !strings.Contains(out, "denied request: Tributary writes this ") || strings.Contains(out, "IT WAS DONE") {
		s.Errorf("%s: not denied:\n%s", command, out)
	}
}

// populate creates the Service of the page in every member.
func (s *site) populate() {
	s.Helper()
	for _, m := range s.fleet.Members {
		s.must(m.CreateNamespaces(s.Context(), "shop"))
		s.must(m.Create(s.Context(), fleet.NewService("shop", "web")))
		s.must(m.RunPods(s.Context(), fleet.NewPod("shop", "web-0", "web"), fleet.NewPod("shop", "web-1", "web")))
	}
}

// third links a member by Roles alone; a second link changes only the token.
func (s *site) third() {
	s.Helper()
	c := s.fleet.Member("idc-c")
	s.must(c.CreateNamespaces(s.Context(), "stock"))
	s.must(c.Create(s.Context(), fleet.NewService("stock", "depot")))
	s.must(c.RunPods(s.Context(), fleet.NewPod("stock", "depot-0", "depot")))
	const link = "tributary link idc-c --context idc-c --ingress-context ingress --namespaces shop,stock"
	s.sh(link)
	if again := s.sh(link); strings.Contains(again, "created ") || strings.Count(again, "updated ") != 1 || !strings.Contains(again, "updated    Secret ") {
		s.Errorf("a second link changes something:\n%s", again)
	}
}

// podIsRestricted creates the pod of the Deployment under the Pod Security level "restricted".
func (s *site) podIsRestricted() {
	s.Helper()
	deployment, err := s.fleet.Ingress.Client.AppsV1().Deployments(own).Get(s.Context(), "tributary", metav1.GetOptions{})
	s.must(err)
	template := deployment.Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "trial", Labels: template.Labels}, Spec: template.Spec}
	_, err = s.fleet.Ingress.Client.CoreV1().Pods(own).Create(s.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	s.must(err)
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	s.must(err)
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range judge.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			s.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
}

// work causes everything once for which there are rights: Services come and go, a name is taken and freed.
func (s *site) work() {
	s.Helper()
	a, ingress := s.fleet.Member("idc-a"), s.fleet.Ingress
	s.must(a.Terminate(s.Context(), "shop", "web-0"))
	s.must(ingress.Create(s.Context(), fleet.NewService("shop", "taken")))
	s.must(a.Create(s.Context(), fleet.NewService("shop", "taken"), fleet.NewService("shop", "passing")))
	s.must(a.RunPods(s.Context(), fleet.NewPod("shop", "passing-0", "passing")))
	s.shows("passing", "idc-a")
	services := a.Client.CoreV1().Services("shop")
	s.event("TributaryConflict", 1)
	s.must(services.Delete(s.Context(), "taken", metav1.DeleteOptions{}))
	s.event("TributaryConflictCleared", 1)
	s.must(a.Create(s.Context(), fleet.NewService("shop", "taken")))
	s.event("TributaryConflict", 2)
	s.must(services.Delete(s.Context(), "passing", metav1.DeleteOptions{}))
	s.gone("shop", "passing")
	s.must(ingress.Client.CoreV1().Services("shop").Delete(s.Context(), "taken", metav1.DeleteOptions{}))
	fleettest.Eventually(s.T, soon, func(ctx context.Context) error {
		_, err := ingress.Client.CoreV1().Services("shop").Get(ctx, "taken", metav1.GetOptions{})
		return err
	})
}

// event waits until an Event about shop/taken has a count: a repeated Event is counted in the existing one.
func (s *site) event(reason string, times int) {
	s.Helper()
	fleettest.Eventually(s.T, soon, func(ctx context.Context) error {
		events, err := s.fleet.Ingress.Client.CoreV1().Events("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		told := 0
		for _, e := range events.Items {
			if e.InvolvedObject.Name == "taken" && e.Reason == reason {
				told += int(max(1, e.Count))
			}
		}
		if told != times {
			return fmt.Errorf("Event %s was told %d times, want %d", reason, told, times)
		}
		return nil
	})
}

// gone waits until a replica is gone.
func (s *site) gone(namespace, name string) {
	s.Helper()
	fleettest.Eventually(s.T, soon, func(ctx context.Context) error {
		_, err := s.fleet.Ingress.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s/%s stays (%v)", namespace, name, err)
		}
		return nil
	})
}

// interrupted deletes objects of every kind in members while they are not followed, and restarts the members, so that no
// watch resumes: what the lists lack then is asked for one by one.
func (s *site) interrupted(members ...*fleet.Site) {
	s.Helper()
	for _, m := range members {
		s.must(m.Create(s.Context(), fleet.NewService("shop", "lost"), manual("ends"), manual("slices"), handWrittenEndpoints("ends", m.NextIP().String()), handWrittenSlice("slices", m.NextIP().String())))
		s.must(m.RunPods(s.Context(), fleet.NewPod("shop", "lost-0", "lost"), fleet.NewPod("shop", "web-2", "web")))
	}
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name()
	}
	for _, name := range []string{"lost", "ends", "slices"} {
		s.shows(name, names...)
	}
	s.must(s.proc.Freeze())
	for _, m := range members {
		core := m.Client.CoreV1()
		s.must(m.Remove(s.Context(), "shop", "web-2"))
		s.must(core.Services("shop").Delete(s.Context(), "lost", metav1.DeleteOptions{}))
		s.must(core.Endpoints("shop").Delete(s.Context(), "ends", metav1.DeleteOptions{}))
		s.must(m.Client.DiscoveryV1().EndpointSlices("shop").Delete(s.Context(), "slices-1", metav1.DeleteOptions{}))
		s.must(m.APIServer().Restart(s.Context()))
	}
	s.must(s.proc.Thaw())
	s.gone("shop", "lost")
	for _, name := range []string{"ends", "slices"} {
		s.shows(name)
	}
}

func manual(name string) *corev1.Service {
	service := fleet.NewService("shop", name)
	service.Spec.Selector = nil
	return service
}

func handWrittenEndpoints(name, ip string) *corev1.Endpoints {
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: ip}},
		Ports:     []corev1.EndpointPort{{Name: fleet.PodPortName, Port: fleet.PodPort, Protocol: corev1.ProtocolTCP}},
	}}}
}

func handWrittenSlice(service, ip string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new(fleet.PodPortName), Port: new(int32(fleet.PodPort)), Protocol: new(corev1.ProtocolTCP)}},
	}
}

// upgrade upgrades and rolls back; neither writes a replica.
func (s *site) upgrade() {
	s.Helper()
	s.restart()
	s.shows("web", "idc-a", "idc-b", "idc-c")
	for _, line := range s.lines("Upgrade, and back") {
		before := s.writes()
		s.sh(line)
		s.restart()
		s.shows("web", "idc-a", "idc-b", "idc-c")
		if after := s.writes(); after != before {
			s.Errorf("%s\n%d writes by a start at which nothing had changed", line, after-before)
		}
	}
	if history := s.sh("helm --kube-context ingress history tributary --namespace tributary-system"); !strings.Contains(history, "Rollback to 1") {
		s.Error("it was not rolled back")
	}
}

// standBy runs a second process for a while, and removes a member.
func (s *site) standBy() {
	s.Helper()
	leader, pod, local := s.proc, s.pod, s.local
	s.start()
	s.stop()
	s.proc, s.pod, s.local = leader, pod, local
	s.sh("tributary unlink idc-c --context idc-c --ingress-context ingress --namespaces shop,stock")
}

// checked runs `check` as the chart's account. Nothing is written.
func (s *site) checked() {
	s.Helper()
	before := s.writes()
	s.sh("tributary check --config " + s.local.config)
	if after := s.writes(); after != before {
		s.Errorf("check wrote %d times", after-before)
	}
}

// seldom are rights that this test need not use: objects are read one by one only after a write was answered 404 or 409,
// no labels of a Service change, and all members may be found before the record of identities is first written.
var seldom = []string{"get services", "get endpoints", "get discovery.k8s.io/endpointslices", "update services", "update configmaps"}

// refusedNothing checks that no request of an account was refused.
func (s *site) refusedNothing(account string, of *fleet.Site) {
	s.Helper()
	refused, _, err := judge(s.Context(), of.Client, requestLog(of), own, account)
	if s.must(err); len(refused) > 0 {
		s.Errorf("%s of %s was refused:\n%s", account, of.Name(), strings.Join(refused, "\n"))
	}
}

// judgeRights checks that an account was refused nothing, and has no right that it does not use.
func (s *site) judgeRights(account string, sites ...*fleet.Site) {
	s.Helper()
	for _, of := range sites {
		fleettest.Eventually(s.T, soon, func(ctx context.Context) error {
			refused, never, err := judge(ctx, of.Client, requestLog(of), own, account)
			if of == s.fleet.Ingress {
				never = slices.DeleteFunc(never, func(r string) bool { return slices.Contains(seldom, r) })
			}
			if err == nil && len(refused)+len(never) > 0 {
				err = fmt.Errorf("%s of %s:\nrefused:\n%s\nnever used:\n%s", account, of.Name(), strings.Join(refused, "\n"), strings.Join(never, "\n"))
			}
			return err
		})
	}
}
