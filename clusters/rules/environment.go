// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/cel/library"
)

// The variables of an expression.
const (
	varPod     = "pod"
	varService = "service"
	varNode    = "node"
	varCluster = "cluster"
)

// Node is what an expression knows of a pod's node.
type Node struct {
	Name string `json:"name"`
	Zone string `json:"zone"`
}

// The limits of Kubernetes (KEP-2876): what one expression may cost, what all of an
// object may, how often a running one is looked at, and what one may cost by the estimate
// made when it is compiled.
const (
	perCallLimit   = 1_000_000
	perObjectLimit = 10_000_000
	checkFrequency = 100
	estimateLimit  = 10_000_000
)

// What is looked at before anything is compiled: each optMap and optFlatMap writes what it
// is called on twice, so that the work doubles with each that is nested.
const (
	longest       = 16 << 10
	mostOptionals = 4
)

// environment is built once: it is the same for all rules.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.OptionalTypes(),
		library.Lists(), library.Regex(), library.Quantity(), library.IP(), library.CIDR(), library.URLs(), library.Format(), library.SemverLib(library.SemverVersion(1)),
		ext.NativeTypes(reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*corev1.Service](), reflect.TypeFor[*Node](), ext.ParseStructField(fieldName)),
		kubernetesFields(reflect.TypeFor[corev1.Pod](), reflect.TypeFor[corev1.Service](), reflect.TypeFor[Node]()),
		cel.Variable(varPod, cel.ObjectType("v1.Pod")),
		cel.Variable(varService, cel.ObjectType("v1.Service")),
		cel.Variable(varNode, cel.ObjectType("rules.Node")),
		cel.Variable(varCluster, cel.StringType),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.TwoVarComprehensions(),
		cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true), cel.EagerlyValidateDeclarations(true),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(), cel.ValidateHomogeneousAggregateLiterals()),
		sameImageFunction(),
	)
})

// fieldName is a field's name in JSON: that of users.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		return f.Name
	}
	return name
}

// program compiles an expression, or says all that is wrong with it.
func program(when string) (run cel.Program, tree *ast.AST, faults []Fault) {
	env, err := environment()
	if err != nil {
		return nil, nil, []Fault{{Message: err.Error()}}
	}
	if len(when) > longest || strings.Count(when, "optMap")+strings.Count(when, "optFlatMap") > mostOptionals {
		return nil, nil, []Fault{{
			Message: fmt.Sprintf("is too dear to compile; at most %d bytes, and %d of optMap and optFlatMap together, are allowed", longest, mostOptionals),
			Remedy:  "make several rules of it, or use has() and orValue()",
		}}
	}
	compiled, issues := env.Compile(when)
	if issues.Err() != nil {
		return nil, nil, faultsOf(env, when, issues)
	}
	if compiled.OutputType() != cel.BoolType {
		return nil, nil, []Fault{{Message: fmt.Sprintf("is of type %s", compiled.OutputType()), Remedy: "write a condition: an expression that is true or false"}}
	}
	cost, err := env.EstimateCost(compiled, costs)
	if err != nil {
		return nil, nil, []Fault{{Message: err.Error()}}
	}
	if cost.Max > estimateLimit {
		return nil, nil, []Fault{{
			Message: fmt.Sprintf("may cost %s on a large pod; %d are allowed", costText(cost.Max), estimateLimit),
			Remedy:  "nest fewer loops (all, exists, map, filter), or compare instead of matching patterns",
		}}
	}
	run, err = env.Program(compiled, cel.EvalOptions(cel.OptOptimize),
		cel.CostTracking(costs), cel.CostLimit(perCallLimit), cel.InterruptCheckFrequency(checkFrequency))
	if err != nil {
		return nil, nil, []Fault{{Message: err.Error()}}
	}
	return run, compiled.NativeRep(), nil
}

func costText(n uint64) string {
	if n > 1<<53 {
		return "without bound"
	}
	return fmt.Sprint(n)
}

// costs are those that Kubernetes gives to what its libraries do, on a large pod.
var costs = &estimator{library.CostEstimator{SizeEstimator: sizes{}}}

type estimator struct{ library.CostEstimator }

// EstimateCallCost implements checker.CostEstimator.
func (e *estimator) EstimateCallCost(function, overload string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if function == functionSameImage {
		return &checker.CallEstimate{CostEstimate: checker.FixedCostEstimate(sameImageCost)}
	}
	return e.CostEstimator.EstimateCallCost(function, overload, target, args)
}

// CallCost implements interpreter.ActualCostEstimator.
func (e *estimator) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if function == functionSameImage {
		cost := uint64(sameImageCost)
		return &cost
	}
	return e.CostEstimator.CallCost(function, overload, args, result)
}

// sizes bounds what no type bounds: what a large pod has.
type sizes struct{}

const (
	largeList = 64
	largeText = 1024
)

// EstimateSize implements checker.CostEstimator.
func (sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	switch element.Type().Kind() {
	case types.ListKind, types.MapKind:
		return &checker.SizeEstimate{Max: largeList}
	case types.StringKind, types.BytesKind:
		return &checker.SizeEstimate{Max: largeText}
	}
	return nil
}

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// truth is what an expression came to.
func truth(v ref.Val) (bool, error) {
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("came to %s, not to true or false", v.Type().TypeName())
	}
	return bool(b), nil
}
