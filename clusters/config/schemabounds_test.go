// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bounds are the least and the greatest value of a number; a most below the least is none.
type bounds struct{ least, most float64 }

var (
	natural = bounds{0, -1}
	share   = bounds{0, 100}
)

// ranges are those of fields that are numbers; what is said of clusters[] is so of clusterDefaults.
var ranges = map[string]bounds{
	"clusters[].client.qps": natural, "clusters[].client.burst": natural, "ingress.client.qps": natural, "ingress.client.burst": natural, "clusters[].maxObjects": natural,
	"clusters[].guard.minEndpoints": natural, "clusters[].guard.percent": share, "clusters[].guard.confirmPercent": share, "clusters[].guard.panicPercent": {1, 100},
	"replicas.maxEndpointsPerSlice": {1, 1000}, "sinks[].maxServicesPerRequest": {1, 1000}, "sinks[].maxRequestsPerSecond": {0.001, 1000},
}

// filled are lists that are nothing when they are empty.
var filled = []string{
	"replicas.write", "clusters[].namespaces.include", "replicas.rules[].namespaces", "readiness.namespaces[].names", "clusters[].readiness.namespaces[].names", "ingress.namespaces", "sinks[].namespaces",
}

func unshared(path string) string {
	if rest, shared := strings.CutPrefix(path, "clusterDefaults."); shared {
		return "clusters[]." + rest
	}
	return path
}

// number adds the bounds of a field to its schema.
func number(path string, s map[string]any) map[string]any {
	if of, bounded := ranges[unshared(path)]; bounded {
		s["minimum"] = of.least
		if of.most >= of.least {
			s["maximum"] = of.most
		}
	}
	return s
}

// outOfBounds are the words by which Go refuses a number or a list for what it is, and not for what else the file says.
var outOfBounds = regexp.MustCompile(`negative|share of 100|out of range|is 0:|is empty`)

// TestSchemaAndGoAgreeOnBounds: a number or a list that Go refuses the schema refuses, and no other; and null wherever Go
// takes it for a field that is left out.
func TestSchemaAndGoAgreeOnBounds(t *testing.T) {
	seen := map[string]bool{}
	eachProperty(schema(t), "", func(path string, s map[string]any) {
		seen[unshared(path)] = true
		switch {
		case is(s, "integer"), is(s, "number"):
			for _, value := range []float64{-1, 0, 0.0005, 0.001, 1, 2, 99, 100, 101, 1000, 1001, 1 << 30} {
				if is(s, "integer") && value != math.Trunc(value) {
					continue
				}
				least, below := s["minimum"].(float64)
				most, above := s["maximum"].(float64)
				fits := (!below || value >= least) && (!above || value <= most)
				if why := refusal(t, path, value, outOfBounds); fits == (why != "") {
					t.Errorf("%s: %v fits the schema: %v; Go says %q", path, value, fits, why)
				}
			}
		case s["enum"] != nil:
			if fits, why := slices.Contains(s["enum"].([]any), any("")), refusal(t, path, "", regexp.MustCompile(`is not known|must be given`)); fits == (why != "") {
				t.Errorf("%s: the empty text fits the schema: %v; Go says %q", path, fits, why)
			}
		case is(s, "array"):
			if why := refusal(t, path, []any{}, outOfBounds); (s["minItems"] != nil) != (why != "") {
				t.Errorf("%s: [] has minItems %v; Go says %q", path, s["minItems"], why)
			}
		}
		if why := refusal(t, path, nil, regexp.MustCompile(`has no value|must be given`)); is(s, "null") == (why != "") && !strings.HasSuffix(path, "[]") {
			t.Errorf("%s: null fits the schema: %v; Go says %q", path, is(s, "null"), why)
		}
	})
	for _, path := range append(slices.Collect(maps.Keys(ranges)), filled...) {
		if !seen[path] {
			t.Errorf("no field is called %s", path)
		}
	}
}

// is reports whether a schema allows a type.
func is(s map[string]any, name string) bool {
	types, several := s["type"].([]any)
	return s["type"] == name || several && slices.Contains(types, any(name))
}

func eachProperty(s map[string]any, path string, do func(path string, s map[string]any)) {
	if path != "" {
		do(path, s)
	}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		eachProperty(properties[name].(map[string]any), strings.TrimPrefix(path+"."+name, "."), do)
	}
	if items, ok := s["items"].(map[string]any); ok {
		eachProperty(items, path+"[]", do)
	}
}
