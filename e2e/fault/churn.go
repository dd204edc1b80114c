// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"tributary.dev/tributary/e2e/fleet"
)

// Churn changes the pods and Services of one namespace of a member at random, as
// deployments and their troubles do. It is for one goroutine.
type Churn struct {
	site      *fleet.Site
	namespace string
	dice      *rand.Rand
	apps      []string
	most      int // pods
	number    int // of the last pod
	// pods and services are what there is, as far as is known; stale after an error.
	pods     []*corev1.Pod
	services map[string]bool
	stale    bool
	// unready are the pods that are not ready, by name: never many, for that would
	// be a fault of its own.
	unready map[string]bool
	// Done counts what was done, Failed what the cluster did not let happen.
	Done, Failed int
}

// NewChurn returns a churn over so many Services and, at most, pods; the same
// seed makes the same choices.
func NewChurn(site *fleet.Site, namespace string, services, pods int, seed uint64) *Churn {
	c := &Churn{site: site, namespace: namespace, dice: rand.New(rand.NewPCG(seed, 2)), most: pods, services: map[string]bool{}, unready: map[string]bool{}, stale: true}
	for i := range services {
		c.apps = append(c.apps, fmt.Sprintf("app-%d", i))
	}
	return c
}

// Fill makes all Services, and half of the pods.
func (c *Churn) Fill(ctx context.Context) error {
	var services []metav1.Object
	for _, app := range c.apps {
		services = append(services, fleet.NewService(c.namespace, app))
	}
	if err := c.site.Create(ctx, services...); err != nil {
		return err
	}
	var pods []*corev1.Pod
	for range c.most / 2 {
		pods = append(pods, c.newPod())
	}
	return c.site.RunPods(ctx, pods...)
}

func (c *Churn) newPod() *corev1.Pod {
	c.number++
	return fleet.NewPod(c.namespace, fmt.Sprintf("%s-pod-%d", c.site.Name(), c.number), c.apps[c.dice.IntN(len(c.apps))])
}

// Run makes a change each time until ctx ends. Errors are counted: the cluster
// may be broken on purpose.
func (c *Churn) Run(ctx context.Context, each time.Duration) {
	wait.NonSlidingUntilWithContext(ctx, c.Step, each)
}

// stepLimit is how long one change may wait for a cluster that is broken.
const stepLimit = 2 * time.Second

// Step makes one change.
func (c *Churn) Step(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	err := c.look(ctx)
	if err == nil {
		err = c.choose()(ctx)
	}
	if err != nil {
		c.stale = true
		c.Failed++
		return
	}
	c.Done++
}

// look learns what there is, where that is not known.
func (c *Churn) look(ctx context.Context) error {
	if !c.stale {
		return nil
	}
	pods, err := c.site.Client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	services, err := c.site.Client.CoreV1().Services(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	c.pods, c.services, c.unready, c.stale = nil, map[string]bool{}, map[string]bool{}, false
	for i := range pods.Items {
		p := &pods.Items[i]
		c.pods = append(c.pods, p)
		if p.DeletionTimestamp == nil && !slices.ContainsFunc(p.Status.Conditions, isReady) {
			c.unready[p.Name] = true
		}
	}
	for i := range services.Items {
		c.services[services.Items[i].Name] = true
	}
	return nil
}

// choose draws the next change. Pods come and go far more often than Services.
func (c *Churn) choose() func(context.Context) error {
	n := c.dice.IntN(100)
	app := c.apps[c.dice.IntN(len(c.apps))]
	switch {
	case n >= 96 && c.services[app]:
		return func(ctx context.Context) error { return c.deleteService(ctx, app) }
	case n >= 92 && c.services[app]:
		return func(ctx context.Context) error { return c.editPorts(ctx, app) }
	case n >= 88 && !c.services[app]:
		return func(ctx context.Context) error { return c.createService(ctx, app) }
	case len(c.pods) == 0 || n < 30 && len(c.pods) < c.most:
		return c.addPod
	}
	i := c.dice.IntN(len(c.pods))
	switch p := c.pods[i]; {
	case n < 50 || p.DeletionTimestamp != nil:
		return func(ctx context.Context) error { return c.removePod(ctx, i) }
	case n < 60:
		return func(ctx context.Context) error { return c.terminate(ctx, i) }
	default:
		return func(ctx context.Context) error { return c.flip(ctx, p) }
	}
}

func (c *Churn) addPod(ctx context.Context) error {
	p := c.newPod()
	if err := c.site.RunPods(ctx, p); err != nil {
		return err
	}
	c.pods = append(c.pods, p)
	return nil
}

func (c *Churn) removePod(ctx context.Context, i int) error {
	if err := c.site.Remove(ctx, c.namespace, c.pods[i].Name); err != nil {
		return err
	}
	delete(c.unready, c.pods[i].Name)
	c.pods = slices.Delete(c.pods, i, i+1)
	return nil
}

func (c *Churn) terminate(ctx context.Context, i int) error {
	if err := c.site.Terminate(ctx, c.namespace, c.pods[i].Name); err != nil {
		return err
	}
	delete(c.unready, c.pods[i].Name)
	c.pods[i].DeletionTimestamp = new(metav1.Now())
	return nil
}

func isReady(x corev1.PodCondition) bool {
	return x.Type == corev1.PodReady && x.Status == corev1.ConditionTrue
}

// flip turns a ready pod unready, or an unready one back.
func (c *Churn) flip(ctx context.Context, p *corev1.Pod) error {
	const share = 10 // at most one in so many, of those that will stay
	staying := 0
	var down *corev1.Pod
	for _, other := range c.pods {
		if other.DeletionTimestamp != nil {
			continue
		}
		if staying++; c.unready[other.Name] {
			down = other
		}
	}
	if down != nil && len(c.unready)*share >= staying {
		p = down
	}
	if c.unready[p.Name] {
		delete(c.unready, p.Name)
		return c.site.MarkReady(ctx, c.namespace, p.Name)
	}
	c.unready[p.Name] = true
	return c.site.MarkNotReady(ctx, c.namespace, p.Name)
}

func (c *Churn) deleteService(ctx context.Context, name string) error {
	err := c.site.Client.CoreV1().Services(c.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err == nil {
		delete(c.services, name)
	}
	return err
}

func (c *Churn) createService(ctx context.Context, name string) error {
	err := c.site.Create(ctx, fleet.NewService(c.namespace, name))
	if err == nil {
		c.services[name] = true
	}
	return err
}

// editPorts gives a Service one port or two.
func (c *Churn) editPorts(ctx context.Context, name string) error {
	services := c.site.Client.CoreV1().Services(c.namespace)
	s, err := services.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s.Spec.Ports = s.Spec.Ports[:1]
	if c.dice.IntN(2) == 0 {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: "admin", Port: 90, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(9090),
		})
	}
	_, err = services.Update(ctx, s, metav1.UpdateOptions{})
	return err
}
