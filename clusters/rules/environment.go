// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"
)

// The variables of an expression.
const (
	varPod     = "pod"
	varCluster = "cluster"
)

// The limits of Kubernetes (KEP-2876): what one expression may cost, what all of an object
// may, and what one may cost by the estimate made when it is compiled.
const (
	perCallLimit   = 1_000_000
	perObjectLimit = 10_000_000
	estimateLimit  = 10_000_000
)

// What is looked at before an expression is compiled: each optMap and optFlatMap writes
// what it is called on twice, so that the work doubles with each that is nested.
const (
	longest       = 16 << 10
	mostOptionals = 4
)

// environment is built once: it is the same for all rules.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.OptionalTypes(),
		library.Lists(), library.Regex(), library.Quantity(), library.IP(), library.CIDR(), library.URLs(), library.Format(), library.SemverLib(library.SemverVersion(1)),
		kubernetesTypes,
		cel.Variable(varPod, cel.ObjectType(podType)),
		cel.Variable(varCluster, cel.StringType),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.TwoVarComprehensions(),
		cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true), cel.EagerlyValidateDeclarations(true),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(), cel.ValidateHomogeneousAggregateLiterals()),
		sameImageFunction(),
	)
})

// compile compiles an expression, or says all that is wrong with it.
func compile(when string) (cel.Program, []string) {
	env, err := environment()
	if err != nil {
		return nil, []string{err.Error()}
	}
	if len(when) > longest || strings.Count(when, "optMap")+strings.Count(when, "optFlatMap") > mostOptionals {
		return nil, []string{fmt.Sprintf("is too dear to compile: at most %d bytes, and %d of optMap and optFlatMap together, are allowed; make several rules of it, or use has() and orValue()", longest, mostOptionals)}
	}
	compiled, issues := env.Compile(when)
	if issues.Err() != nil {
		return nil, faultsOf(issues)
	}
	if compiled.OutputType() != cel.BoolType {
		return nil, []string{fmt.Sprintf("is of type %s; write a condition: an expression that is true or false", compiled.OutputType())}
	}
	cost, err := env.EstimateCost(compiled, costs())
	if err == nil && cost.Max > estimateLimit {
		return nil, []string{fmt.Sprintf("may cost more than %d on a large pod; nest fewer loops (all, exists, map, filter), or compare instead of matching patterns", estimateLimit)}
	}
	var program cel.Program
	if err == nil {
		program, err = env.Program(compiled, cel.EvalOptions(cel.OptOptimize), cel.CostTracking(costs()), cel.CostLimit(perCallLimit))
	}
	if err != nil {
		return nil, []string{err.Error()}
	}
	return program, nil
}

// costs are those that Kubernetes assigns to the functions of its libraries.
func costs() *estimator { return &estimator{library.CostEstimator{SizeEstimator: sizes{}}} }

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

// sizes bounds, for the estimate, what no type bounds: a large pod has so many elements in
// a list or map, and so many bytes in a text.
type sizes struct{}

const largeList, largeText = 64, 1024

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
