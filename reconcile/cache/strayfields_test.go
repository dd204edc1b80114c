// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A field that Kubernetes adds to Services is to be thought about.
func TestEveryFieldOfAServiceIsAccountedFor(t *testing.T) {
	decided := "Ports Selector ClusterIP ClusterIPs IPFamilies IPFamilyPolicy"
	known := map[string]bool{}
	for name := range strings.FieldsSeq(decided) {
		known[name] = true
	}
	for _, f := range strayFields {
		known[strings.ToUpper(f.name[:1])+f.name[1:]] = true
	}
	spec := reflect.TypeFor[corev1.ServiceSpec]()
	for i := range spec.NumField() {
		if name := spec.Field(i).Name; !known[name] {
			t.Errorf("nobody looks at spec.%s", name)
		}
	}
}
