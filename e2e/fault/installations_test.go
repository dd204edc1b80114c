// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

var getNow = metav1.GetOptions{}

// beside is a second installation in the world of a first, with a configuration, an
// account, members and a recorder of its own. It is judged by itself.
func (w *world) beside(instance string, members ...*fleet.Site) *world {
	w.Helper()
	ctx, g := w.Context(), *w
	g.proc, g.rec, g.down = nil, nil, nil
	g.installation, g.members = history.Installation(instance), members
	g.config.path, g.config.instance, g.config.members = filepath.Join(w.dir, instance+".yaml"), instance, nil
	port, err := cluster.FreePort()
	w.must(err)
	g.config.listen = fmt.Sprintf("127.0.0.1:%d", port)
	account := func(s *fleet.Site, rules []rbacv1.PolicyRule) (kubeconfig string) {
		user, err := s.NewServiceAccount(ctx, w.ns, instance, rules...)
		w.must(err)
		text, err := s.Cluster.Kubeconfig(user)
		w.must(err)
		g.user, kubeconfig = user.Name, filepath.Join(w.dir, instance+"-"+s.Name()+".kubeconfig")
		w.must(os.WriteFile(kubeconfig, text, 0o600))
		return kubeconfig
	}
	g.config.ingress = account(w.ingress, fleet.IngressRules())
	for _, m := range members {
		g.config.set(m.Name(), account(m, fleet.MemberRules()))
	}
	w.Cleanup(func() {
		if g.rec != nil {
			g.rec.Close()
		}
		if w.Failed() && g.proc != nil {
			w.Logf("%s, last lines:\n%s", instance, g.proc.Tail(40))
		}
	})
	return &g
}

// TestTwoInstallations runs two installations on one ingress cluster, whose members have
// Services of one name, and others. The first keeps that name; the second says so and
// writes nothing of it, over restarts of both, until it is free. Each does its own work
// beside the other, and the history of each is judged. A second process of the same
// instance is on standby, whatever else its file says.
func TestTwoInstallations(t *testing.T) {
	w := newWorld(t, "twain")
	ctx := t.Context()
	w.members, w.installation = []*fleet.Site{w.a}, "default"
	w.config.drop(w.b.Name())
	w.service("web", 3, w.a)
	w.service("blue", 3, w.a)
	w.service("web", 2, w.b)
	w.service("green", 3, w.b)
	w.start()
	w.converges(10 * time.Second)

	second := w.beside("green", w.b)
	second.start()
	second.state(second.proc, "leading", 5*time.Second)
	both := func(do func(*world)) {
		do(w)
		do(second)
	}
	agree := func() {
		t.Helper()
		both(func(x *world) { x.converges(10 * time.Second) })
		w.conflicts()
		second.conflicts("web")
		w.must(second.tells(ctx, second.proc, "other_instance", "web"))
	}
	agree()
	w.pods(w.a, "web", 100, 2)
	w.pods(w.b, "web", 100, 2)
	unready := func(s *fleet.Site, pods ...string) {
		t.Helper()
		for _, name := range pods {
			w.must(s.MarkNotReady(ctx, w.ns, name))
		}
	}
	unready(w.a, "web-0", "blue-0")
	unready(w.b, "web-0", "green-0")
	agree()

	// Restarts of both write nothing.
	both((*world).settled)
	quiet := []*history.Mark{w.quiet(), second.quiet()}
	both((*world).kill)
	both((*world).restart)
	w.pause(2 * time.Second)
	for _, mark := range quiet {
		mark.End()
	}
	agree()

	// What the one is to do waits for the other in nothing.
	w.kill()
	unready(w.b, "green-1")
	second.converges(5 * time.Second)
	w.restart()
	second.kill()
	unready(w.a, "web-1", "blue-1")
	w.converges(5 * time.Second)
	second.restart()
	agree()

	// The same instance, and another member: one Lease, so one writes.
	mine := w.config
	w.config.members = nil
	w.config.set(w.b.Name(), w.b.Kubeconfig)
	same := w.standby()
	w.config = mine
	w.state(same, "standby", 5*time.Second)
	w.pods(w.a, "web", 200, 1)
	w.converges(5 * time.Second)
	w.must(same.Stop(ctx))

	// The first lets go of the name, and the second takes it.
	w.must(w.a.Client.CoreV1().Services(w.ns).Delete(ctx, "web", metav1.DeleteOptions{}))
	taken := second.eventually(10*time.Second, second.counts("web", 3))
	both(func(x *world) {
		x.converges(10 * time.Second)
		x.conflicts()
	})
	t.Logf("the name was taken %s after it was let go", taken)
	both((*world).judge)
}

// tells returns nil when a process reports a conflict.
func (w *world) tells(ctx context.Context, p *fleet.Tributary, reason, service string) error {
	s, err := statusOf(ctx, p)
	for _, c := range s.Conflicts {
		if c.Namespace == w.ns && c.Service == service && c.Reason == reason {
			return nil
		}
	}
	return cmp.Or(err, fmt.Errorf("conflicts %+v, want %s of %s", s.Conflicts, reason, service))
}

// trackers are labels by which other tools take an object for theirs.
var trackers = map[string]string{
	"app.kubernetes.io/instance": "shop", "argocd.argoproj.io/instance": "shop", "helm.sh/chart": "shop-1",
	"kustomize.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/name": "shop",
}

// TestPlantedServices: a member that is to fill every namespace has Services in kube-public
// and in Tributary's own, and one that trackers have marked. Nothing is written to those
// namespaces, and the marks are not copied.
func TestPlantedServices(t *testing.T) {
	w := newWorld(t, "planted")
	ctx := t.Context()
	barred := []string{"kube-public", own}
	w.must(w.a.CreateNamespaces(ctx, own))
	for i := range w.config.members {
		w.config.members[i].Namespaces = namespacesConfig{Include: append([]string{w.ns}, barred...), Exclude: []string{"none"}}
	}
	marked := fleet.NewService(w.ns, "web")
	marked.Labels = maps.Clone(trackers)
	marked.Labels["team"] = "blue"
	w.must(w.a.Create(ctx, marked))
	w.pods(w.a, "web", 0, 2)
	for _, namespace := range barred {
		w.must(w.a.Create(ctx, fleet.NewService(namespace, "grafana")))
	}
	w.start()
	w.converges(10 * time.Second)
	replica, err := w.ingress.Client.CoreV1().Services(w.ns).Get(ctx, "web", getNow)
	w.must(err)
	for label := range trackers {
		if _, copied := replica.Labels[label]; copied {
			t.Errorf("the replica has the label %s", label)
		}
	}
	if replica.Labels["team"] != "blue" {
		t.Errorf("the replica has the labels %v", replica.Labels)
	}
	for _, namespace := range barred {
		list, err := w.ingress.Client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
		w.must(err)
		if len(list.Items) > 0 {
			t.Errorf("%d Services in %s", len(list.Items), namespace)
		}
	}
	w.judge()
}

// TestForgedMarks: a tenant of the ingress cluster clones a replica under other names, with all
// its labels and annotations, more often than replicas there are, and makes a slice of a
// cluster that nobody knows. After a restart the replica serves what it did, and the forged
// objects remain as they were made.
func TestForgedMarks(t *testing.T) {
	w := newWorld(t, "forged")
	ctx := t.Context()
	w.service("web", 2, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	model, err := w.ingress.Client.CoreV1().Services(w.ns).Get(ctx, "web", getNow)
	w.must(err)
	w.kill()

	forged := map[string]string{}
	for i := range 5 {
		fake := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("forged-%d", i), Labels: maps.Clone(model.Labels), Annotations: maps.Clone(model.Annotations)}, Spec: *model.Spec.DeepCopy()}
		w.edit(history.Service, func(ctx context.Context) (metav1.Object, error) {
			made, err := w.ingress.Client.CoreV1().Services(w.ns).Create(ctx, fake, metav1.CreateOptions{})
			if err == nil {
				forged[made.Name] = made.ResourceVersion
			}
			return made, err
		})
	}
	w.edit(history.EndpointSlice, func(ctx context.Context) (metav1.Object, error) {
		return w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "web-forged", Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", "app.kubernetes.io/managed-by": "tributary", "tributary.dev/instance": "default",
				discoveryv1.LabelManagedBy: "tributary.dev", "multicluster.kubernetes.io/source-cluster": "nobody"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{}}, metav1.CreateOptions{})
	})
	w.restart()
	w.eventually(5*time.Second, w.counts("web", 4))
	s, err := w.status(ctx)
	w.must(err)
	for _, c := range s.Clusters {
		if !c.Up || len(c.Conditions) > 0 {
			t.Errorf("%s is %+v", c.Name, c)
		}
	}
	w.must(w.a.MarkNotReady(ctx, w.ns, "web-0"))
	w.eventually(2*time.Second, w.counts("web", 3))
	w.must(w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Delete(ctx, "web-forged", metav1.DeleteOptions{}))
	for name, version := range forged {
		left, err := w.ingress.Client.CoreV1().Services(w.ns).Get(ctx, name, getNow)
		if err != nil || left.ResourceVersion != version {
			t.Errorf("%s was touched: %v", name, err)
		}
		w.deleteByHand(history.Service, name) // what nobody wants is no replica
	}
	w.judge()
}
