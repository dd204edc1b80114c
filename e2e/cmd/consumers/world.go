// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	sigsyaml "sigs.k8s.io/yaml"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/podnet"
)

// The arms: what carries a member's endpoints to the consumer. Each has a namespace of that name in every cluster.
const (
	armTributary = "tributary"
	armStock     = "stock"  // endpoints controllers of the members, a copier, and the mirroring controller
	armDirect    = "direct" // one member, read by the consumer itself
	// failover is a namespace of tributary's whose first member serves alone while it can.
	failover = "failover"
	service  = "web"
)

// stormOf returns the namespace of the Services that are relabelled in an arm's storm.
func stormOf(arm string) string { return arm + "-storm" }

// The ports of the servers: nothing else runs in the network namespace.
const (
	traefikAddress = "127.0.0.1:8000"
	directAddress  = "127.0.0.1:8001"
	dnsAddress     = "127.0.0.1:5353"
)

type world struct {
	programs
	fleet     *fleet.Fleet
	kubelets  []*kubelet // of the members, in their order
	tributary []*fleet.Tributary
	processes []*cluster.Process
	cancel    context.CancelFunc
	copier    *copier
}

// newWorld starts everything but tributary.
func newWorld(ctx context.Context, s programs) (_ *world, err error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &world{programs: s, cancel: cancel}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	link, err := podnet.NewLink(ctx)
	if err != nil {
		return w, err
	}
	if w.fleet, err = fleet.Start(ctx, fleet.Options{Members: []string{"idc-a", "idc-b"}}); err != nil {
		return w, err
	}
	all := []string{armTributary, armStock, armDirect, failover, stormOf(armTributary), stormOf(armStock), stormOf(armDirect)}
	for _, site := range w.fleet.Sites() {
		if err := site.CreateNamespaces(ctx, all...); err != nil {
			return w, err
		}
		controllers := []string{"deployment-controller", "replicaset-controller", "endpoints-controller", "endpointslice-controller"}
		if site == w.fleet.Ingress {
			controllers = []string{"endpointslice-mirroring-controller"}
		}
		if _, err := site.StartControllerManager(ctx, cluster.ControllerManagerOptions{Controllers: controllers}); err != nil {
			return w, err
		}
	}
	for _, site := range w.fleet.Members {
		k, err := startKubelet(ctx, site, link, armTributary, armStock, armDirect, failover)
		if err != nil {
			return w, err
		}
		w.kubelets = append(w.kubelets, k)
		if err := site.CreateNodes(ctx, fleet.NewNode(fleet.DefaultNode, "zone-a")); err != nil {
			return w, err
		}
		for _, arm := range []string{armTributary, armStock, armDirect, failover} {
			if err := site.Create(ctx, fleet.NewService(arm, service)); err != nil {
				return w, err
			}
		}
		for _, arm := range []string{armTributary, armStock, armDirect} {
			if err := site.LoadStorm(ctx, stormOf(arm), stormServices); err != nil {
				return w, err
			}
		}
	}
	if w.copier, err = startCopier(ctx, w.fleet, armStock, stormOf(armStock)); err != nil {
		return w, err
	}
	return w, w.startConsumers(ctx)
}

// startConsumers starts Traefik before the ingress cluster and before the first member, and CoreDNS.
func (w *world) startConsumers(ctx context.Context) error {
	dir, err := moduleDir(ctx, gatewayModule)
	if err != nil {
		return err
	}
	definitions, err := filepath.Glob(filepath.Join(dir, "config", "crd", "standard", "gateway.networking.k8s.io_*.yaml"))
	if err != nil || len(definitions) == 0 {
		return fmt.Errorf("definitions of the Gateway API in %s: %d, %w", dir, len(definitions), err)
	}
	for _, at := range []struct {
		site       *fleet.Site
		address    string
		namespaces []string
	}{
		{w.fleet.Ingress, traefikAddress, []string{armTributary, armStock, failover}},
		{w.fleet.Members[0], directAddress, []string{armDirect}},
	} {
		for _, path := range definitions {
			if err := apply(ctx, at.site, path, nil); err != nil {
				return err
			}
		}
		port := at.address[strings.LastIndex(at.address, ":")+1:]
		for _, namespace := range at.namespaces {
			for _, example := range []string{"ingress.yaml", "httproute.yaml"} {
				edit := strings.NewReplacer("namespace: shop", "namespace: "+namespace, "shop.example", namespace+".example", "port: 8000", "port: "+port)
				if err := apply(ctx, at.site, filepath.Join(w.examples, example), edit); err != nil {
					return err
				}
			}
		}
		kubeconfig := filepath.Join(w.fleet.Dir, "traefik-"+port+".kubeconfig")
		if err := w.admin(at.site, kubeconfig); err != nil {
			return err
		}
		host := "ingress." + at.namespaces[0] + ".example"
		err := w.start(ctx, cluster.ProcessOptions{
			Name: "traefik", Path: w.traefik, Log: filepath.Join(w.fleet.Dir, "traefik-"+port+".log"), Env: []string{"KUBECONFIG=" + kubeconfig},
			Args: []string{
				"--entryPoints.web.address=" + at.address, "--providers.kubernetesIngress=true", "--providers.kubernetesGateway=true",
				"--providers.providersThrottleDuration=" + throttle.String(), "--global.sendAnonymousUsage=false", "--global.checkNewVersion=false", "--log.level=ERROR",
			},
			Ready: func(ctx context.Context) error { return answers(ctx, front{address: at.address, host: host}) },
		})
		if err != nil {
			return err
		}
	}
	return w.startDNS(ctx)
}

func (w *world) startDNS(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(w.examples, "Corefile"))
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(w.fleet.Dir, "coredns.kubeconfig")
	if err := w.admin(w.fleet.Ingress, kubeconfig); err != nil {
		return err
	}
	corefile := filepath.Join(w.fleet.Dir, "Corefile")
	edited := strings.NewReplacer("ingress.kubeconfig", kubeconfig, "cluster.local:53", "cluster.local:5353").Replace(string(text))
	if err := os.WriteFile(corefile, []byte(edited), 0o600); err != nil {
		return err
	}
	return w.start(ctx, cluster.ProcessOptions{
		Name: "coredns", Path: w.coredns, Args: []string{"-conf", corefile}, Log: filepath.Join(w.fleet.Dir, "coredns.log"),
		Ready: func(ctx context.Context) error {
			_, err := lookUp(ctx, dnsAddress, service+"."+armTributary+".svc.cluster.local.")
			if no, ok := errors.AsType[*net.DNSError](err); ok && no.IsNotFound {
				return nil // the server answers; the object does not exist yet
			}
			return err
		},
	})
}

// answers returns nil if a server responds, whatever the status.
func answers(ctx context.Context, f front) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.address+"/", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// admin writes a kubeconfig of a cluster's administrator.
func (w *world) admin(site *fleet.Site, path string) error {
	user, err := site.NewServiceAccount(context.Background(), "kube-system", filepath.Base(strings.TrimSuffix(path, ".kubeconfig")), everything)
	if err != nil {
		return err
	}
	text, err := site.Cluster.Kubeconfig(user)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func (w *world) start(ctx context.Context, o cluster.ProcessOptions) error {
	p := cluster.NewProcess(o)
	w.processes = append(w.processes, p)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return p.Start(ctx)
}

// apply applies the objects of a YAML file, as kubectl does, by server-side apply.
func apply(ctx context.Context, site *fleet.Site, path string, edit *strings.Replacer) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if edit != nil {
		text = []byte(edit.Replace(string(text)))
	}
	for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if err != nil {
			return nil // the end
		}
		var o metav1.PartialObjectMetadata
		if err := sigsyaml.Unmarshal(document, &o); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if o.Kind == "" {
			continue
		}
		if err := fleet.Eventually(ctx, 20*time.Second, func(ctx context.Context) error { return applyOne(ctx, site, &o, document) }); err != nil {
			return fmt.Errorf("apply %s %s of %s: %w", o.Kind, o.Name, path, err)
		}
	}
}

func applyOne(ctx context.Context, site *fleet.Site, o *metav1.PartialObjectMetadata, document []byte) error {
	resource := strings.ToLower(o.Kind) + "s"
	if strings.HasSuffix(o.Kind, "ss") {
		resource = strings.ToLower(o.Kind) + "es"
	}
	path := []string{"/apis", o.APIVersion}
	if o.Namespace != "" {
		path = append(path, "namespaces", o.Namespace)
	}
	body, err := sigsyaml.YAMLToJSON(document)
	if err != nil {
		return err
	}
	var client rest.Interface = site.Client.Discovery().RESTClient()
	return client.Patch(types.ApplyPatchType).AbsPath(append(path, resource, o.Name)...).
		Param("fieldManager", "consumers").Param("force", "true").Body(body).Do(ctx).Error()
}

// deploy applies a namespace's Deployment in a member, and waits until all its pods run the image and no others exist.
func (w *world) deploy(ctx context.Context, member int, namespace, image string, replicas int, grace time.Duration) error {
	client := w.fleet.Members[member].Client.AppsV1().Deployments(namespace)
	pod := fleet.NewPod(namespace, service, service)
	pod.Spec.Containers[0].Image = image
	pod.Spec.TerminationGracePeriodSeconds = new(int64(grace / time.Second))
	want := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: service}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(replicas)), Selector: metav1.SetAsLabelSelector(pod.Labels),
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
	}}
	_, err := client.Update(ctx, want, metav1.UpdateOptions{})
	if err != nil {
		_, err = client.Create(ctx, want, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	return fleet.Eventually(ctx, 2*time.Minute, func(ctx context.Context) error {
		is, err := client.Get(ctx, service, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n, s := int32(replicas), is.Status
		pods, err := w.fleet.Members[member].Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err == nil && (s.ObservedGeneration != is.Generation || s.UpdatedReplicas != n || s.Replicas != n || s.AvailableReplicas != n || len(pods.Items) != replicas) {
			err = fmt.Errorf("%d pods, %d of them are of %s, %d are available", s.Replicas, s.UpdatedReplicas, image, s.AvailableReplicas)
		}
		return err
	})
}

func (w *world) dead(namespace string) (all []*container) {
	for _, k := range w.kubelets {
		all = append(all, k.of(namespace, true)...)
	}
	return all
}

// close ends everything.
func (w *world) close() error {
	for _, t := range w.tributary {
		t.Kill()
	}
	for _, p := range w.processes {
		p.Kill()
	}
	w.cancel()
	for _, k := range w.kubelets {
		k.group.Wait()
	}
	if w.copier != nil {
		w.copier.group.Wait()
	}
	if w.fleet == nil {
		return nil
	}
	return w.fleet.Close()
}
