// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import "testing"

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
		same, problem := sameImage(test.a, "", test.b)
		if back, _ := sameImage(test.b, "", test.a); same != test.same || back != same || (problem != "") != test.fail {
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
		if same, problem := sameImage(test.image, test.id, test.wanted); !same || problem != "" {
			t.Errorf("%s: %s does not run %s: %s", test.runtime, test.image, test.wanted, problem)
		}
		if same, problem := sameImage(test.image, test.id, test.another); same || problem != "" {
			t.Errorf("%s: %s runs %s: %v %s", test.runtime, test.image, test.another, same, problem)
		}
	}
}
