// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// mirrored is what a copier or another tool maintains in the ingress cluster: a Service without selector, its Endpoints
// and a slice, with the addresses of the pods of a Service in a member.
const mirrored = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: shop, labels: {mirror.example/tool: "yes"}}
spec: {clusterIP: None, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: %[1]s, namespace: shop, labels: {mirror.example/tool: "yes", endpointslice.kubernetes.io/skip-mirror: "true"}}
subsets: [{addresses: [%[2]s], ports: [{name: http, port: 8080}]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-tool, namespace: shop, labels: {mirror.example/tool: "yes", kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints: [%[3]s]
ports: [{name: http, port: 8080}]
`

// TestMigrate follows docs/migrate.md. The backends of each route have the addresses of the pods at each step.
func TestMigrate(t *testing.T) {
	s := newSite(t, "docs/migrate.md", "idc-a")
	s.populate()
	a := s.fleet.Member("idc-a")
	s.must(a.Create(t.Context(), fleet.NewService("shop", "cart"), fleet.NewService("shop", "later")))
	s.must(a.RunPods(t.Context(), fleet.NewPod("shop", "cart-0", "cart"), fleet.NewPod("shop", "cart-1", "cart"), fleet.NewPod("shop", "later-0", "later")))
	s.sh("kubectl --context ingress create namespace shop")
	s.mirror("web", "web")
	s.mirror("cart-idc-a", "cart")
	for route, service := range map[string]string{"web": "web", "cart": "cart-idc-a"} {
		s.sh(fmt.Sprintf(`kubectl --context ingress -n shop create ingress %s --class=nginx --rule="%[1]s.example/*=%s:80"`, route, service))
	}

	prepare := s.lines("Prepare")
	s.run(prepare[0])
	s.start()
	for _, line := range prepare[1:] {
		s.run(line)
	}
	s.routed()

	for _, line := range s.lines("From hand-made or copied Endpoints") {
		out := s.run(line)
		switch {
		case strings.Contains(line, "label service web"):
			s.conflict("web")
		case strings.HasPrefix(line, "tributary explain") && !strings.Contains(out, "foreign_object"):
			t.Errorf("explain does not tell of the conflict:\n%s", out)
		case strings.Contains(line, "label --overwrite"):
			s.shows("web", "idc-a", "") // the tool's slice stays beside ours
			s.serves("web", "web")
		}
		s.routed()
	}
	s.shows("web", "idc-a")

	for _, line := range s.lines("From another tool's mirror, side by side") {
		s.run(line)
		if strings.Contains(line, "label service cart") {
			s.serves("cart", "cart")
			s.serves("cart-idc-a", "cart")
		}
		s.routed()
	}
	s.sh("kubectl --context ingress -n shop delete service,endpoints,endpointslices -l mirror.example/tool=yes --ignore-not-found --field-selector metadata.name!=web")
	s.routed()

	s.section("Finish")
	s.restart()
	s.serves("later", "later")
	s.routed()
	s.sh("kubectl --context idc-a -n shop annotate service web tributary.dev/replicate=false") // and back
	s.gone("shop", "web")
	s.done()
}

// conflict waits until status reports that a name is taken.
func (s *site) conflict(name string) {
	s.Helper()
	fleettest.Eventually(s.T, soon, func(context.Context) error {
		if out := s.sh("tributary status --context ingress"); !strings.Contains(out, "shop/"+name) {
			return fmt.Errorf("status does not tell of shop/%s", name)
		}
		return nil
	})
}

// mirror writes what another tool would write for a Service of idc-a.
func (s *site) mirror(name, of string) {
	s.Helper()
	var addresses, endpoints []string
	for _, ip := range s.pods(of) {
		addresses, endpoints = append(addresses, "{ip: "+ip+"}"), append(endpoints, "{addresses: ["+ip+"], conditions: {ready: true}}")
	}
	s.sh("kubectl --context ingress apply -f - <<'END'\n" + fmt.Sprintf(mirrored, name, strings.Join(addresses, ", "), strings.Join(endpoints, ", ")) + "END\n")
}

// pods returns the addresses of an application in idc-a.
func (s *site) pods(app string) (ips []string) {
	s.Helper()
	list, err := s.fleet.Member("idc-a").Client.CoreV1().Pods("shop").List(s.Context(), metav1.ListOptions{LabelSelector: fleet.AppLabel + "=" + app})
	s.must(err)
	for _, pod := range list.Items {
		ips = append(ips, pod.Status.PodIP)
	}
	return ips
}

// serves waits until a Service of the ingress cluster has the pods of an application.
func (s *site) serves(name, app string) {
	s.Helper()
	fleettest.Eventually(s.T, soon, func(ctx context.Context) error { return s.lacks(ctx, name, app) })
}

// lacks returns an error that names the pods of an application which a Service of the ingress cluster lacks.
func (s *site) lacks(ctx context.Context, name, app string) error {
	slices, err := s.fleet.Ingress.Client.DiscoveryV1().EndpointSlices("shop").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	if err != nil {
		return err
	}
	served := map[string]bool{}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			served[endpoint.Addresses[0]] = endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready
		}
	}
	for _, ip := range s.pods(app) {
		if !served[ip] {
			return fmt.Errorf("shop/%s does not lead to %s", name, ip)
		}
	}
	return nil
}

// routed checks that the current backends of the Ingresses have all pods.
func (s *site) routed() {
	s.Helper()
	list, err := s.fleet.Ingress.Client.NetworkingV1().Ingresses("shop").List(s.Context(), metav1.ListOptions{})
	s.must(err)
	for _, route := range list.Items {
		service := route.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name
		if err := s.lacks(s.Context(), service, route.Name); err != nil {
			s.Errorf("route %s: %v", route.Name, err)
		}
	}
}
