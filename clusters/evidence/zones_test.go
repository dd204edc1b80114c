// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// TestRestartKeepsZones: until nodes are listed, and where they never are, the zone of a node
// is that of what stands of it; a list that does not show the node takes it from none.
func TestRestartKeepsZones(t *testing.T) {
	const services, pods = "0s list services @10: web selects web", "0s list pods @10: web-1 10.0.0.1 web node=n1, web-2 10.0.0.2 web node=n2"
	for name, c := range map[string]struct {
		lines []string
		zone  string // of web-1
	}{
		"nodes hang":             {[]string{services, pods, "0s until 11s"}, "za"},
		"nodes are denied":       {[]string{"0s watch nodes denied", pods, services, "0s until 1s"}, "za"},
		"none, first":            {[]string{"0s list nodes @9:", services, pods}, "za"},
		"none, last":             {[]string{services, pods, "0s list nodes @9:"}, "za"},
		"none, and none again":   {[]string{"0s list nodes @9:", services, pods, "0s list nodes @12:"}, "za"},
		"hang, and then the one": {[]string{services, pods, "0s until 11s", "11s list nodes @12: n1 za"}, "za"},
		"the other alone":        {[]string{"0s list nodes @9: n2 zb", services, pods}, "za"},
		"another zone":           {[]string{"0s list nodes @9: n1 zc", services, pods}, "zc"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplay()
			for _, line := range append([]string{"0s standing web: 10.0.0.1 web-1 node=n1 zone=za, 10.0.0.2 web-2 node=n2 zone=zb", "0s start"}, c.lines...) {
				if err := r.line(line); err != nil {
					t.Fatal(line, err)
				}
			}
			zones := map[string]string{}
			for _, c := range store.Peek(r.state.Share(syncer.Key{Namespace: "shop", Name: "web"}).Inputs) {
				for _, e := range c.Endpoints {
					zones[e.NodeName] = e.Zone
				}
			}
			if !r.state.synced || zones["n1"] != c.zone || zones["n2"] != "zb" {
				t.Errorf("synced %v, zones are %v", r.state.synced, zones)
			}
		})
	}
}
