// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
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
// object may, and what one may cost by the estimate made when it is compiled.
const (
	perCallLimit   = 1_000_000
	perObjectLimit = 10_000_000
	estimateLimit  = 10_000_000
)

// What is looked at before an expression is parsed, and before its types are: each optMap
// and optFlatMap writes what it is called on twice, so that the work doubles with each that
// is nested, and types take time by the square of what there is, and by more of how deep.
const (
	longest       = 16 << 10
	mostOptionals = 4
	mostParts     = 2000
	deepest       = 48
)

// environment is built once: it is the same for all rules.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.OptionalTypes(),
		library.Lists(), library.Regex(), library.Quantity(), library.IP(), library.CIDR(), library.URLs(), library.Format(), library.SemverLib(library.SemverVersion(1)),
		ext.NativeTypes(reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*corev1.Service](), reflect.TypeFor[*Node](), ext.ParseStructField(fieldName)),
		kubernetesFields,
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

// program is an expression, compiled.
type program struct {
	tree *ast.AST
	// counting counts what it costs, and stops where that is too much. It takes three times
	// as long as plain, which is nil where nothing bounds what that may cost. Of objects
	// that are no larger than usual it costs most at the worst.
	counting, plain cel.Program
	most            uint64
	// squares is true where one call may cost the square of what an object has: it is
	// counted when it is over, and by then may have taken minutes.
	squares bool
}

// compile compiles an expression, or says all that is wrong with it.
func compile(when string) (p program, faults []Fault) {
	env, err := environment()
	if err != nil {
		return p, []Fault{{Message: err.Error()}}
	}
	if len(when) > longest || strings.Count(when, "optMap")+strings.Count(when, "optFlatMap") > mostOptionals {
		return p, []Fault{{
			Message: fmt.Sprintf("is too dear to compile; at most %d bytes, and %d of optMap and optFlatMap together, are allowed", longest, mostOptionals),
			Remedy:  "make several rules of it, or use has() and orValue()",
		}}
	}
	parsed, issues := env.Parse(when)
	if issues.Err() != nil {
		return p, faultsOf(env, nil, issues)
	}
	if parts, depth := measure(parsed.NativeRep()); parts > mostParts || depth > deepest {
		return p, []Fault{{
			Message: fmt.Sprintf("is too dear to compile: it has %d parts, %d deep; at most %d parts, %d deep, are allowed, and each loop is several", parts, depth, mostParts, deepest),
			Remedy:  "make several rules of it",
		}}
	}
	compiled, issues := env.Check(parsed)
	if issues.Err() != nil {
		return p, faultsOf(env, parsed, issues)
	}
	if compiled.OutputType() != cel.BoolType {
		return p, []Fault{{Message: fmt.Sprintf("is of type %s", compiled.OutputType()), Remedy: "write a condition: an expression that is true or false"}}
	}
	cost, err := env.EstimateCost(compiled, costsOf(sizes{largeList, largeText}))
	if err == nil && cost.Max > estimateLimit {
		return p, []Fault{{
			Message: fmt.Sprintf("may cost %s on a large pod; %d are allowed", costText(cost.Max), estimateLimit),
			Remedy:  "nest fewer loops (all, exists, map, filter), or compare instead of matching patterns",
		}}
	}
	p.tree = compiled.NativeRep()
	p.squares = squares(p.tree)
	if err == nil {
		p.counting, err = env.Program(compiled, cel.EvalOptions(cel.OptOptimize), cel.CostTracking(costsOf(sizes{})), cel.CostLimit(perCallLimit))
	}
	if usual := (sizes{usualList, usualText}); err == nil && usual.bound(p.tree) {
		cost, err = env.EstimateCost(compiled, costsOf(usual))
		p.most = cost.Max
		if err == nil {
			p.plain, err = env.Program(compiled, cel.EvalOptions(cel.OptOptimize))
		}
	}
	if err != nil {
		return p, []Fault{{Message: err.Error()}}
	}
	return p, nil
}

// measure counts the names, literals, calls and the like of an expression, and how deep
// they are in one another.
func measure(tree *ast.AST) (parts, depth int) {
	ast.MatchDescendants(ast.NavigateAST(tree), func(e ast.NavigableExpr) bool {
		parts, depth = parts+1, max(depth, 1+e.Depth())
		return false
	})
	return parts, depth
}

// squares reports whether an expression calls what goes through one text or list for each
// part of another, and neither is spelt out: patterns, replacements, sets.
func squares(tree *ast.AST) bool {
	long := func(e ast.Expr) bool {
		const short = 64
		if value, is := text(e); is || e.Kind() == ast.LiteralKind {
			return len(value) > short
		}
		switch tree.GetType(e.ID()).Kind() {
		case types.StringKind, types.BytesKind, types.ListKind, types.MapKind, types.DynKind:
			return true
		}
		return false
	}
	found := ast.MatchDescendants(ast.NavigateAST(tree), func(e ast.NavigableExpr) bool {
		if e.Kind() != ast.CallKind {
			return false
		}
		call := e.AsCall()
		if _, is := operators.FindReverse(call.FunctionName()); is || slices.Contains(oneWay, call.FunctionName()) {
			return false
		}
		args := slices.Clone(call.Args())
		if call.IsMemberFunction() {
			args = append(args, call.Target())
		}
		return len(slices.DeleteFunc(args, func(e ast.Expr) bool { return !long(e) })) > 1
	})
	return len(found) > 0
}

// oneWay are functions of two texts that go through each once.
var oneWay = []string{overloads.Contains, overloads.StartsWith, overloads.EndsWith, functionSameImage}

func costText(n uint64) string {
	if n > 1<<53 {
		return "without bound"
	}
	return fmt.Sprint(n)
}

// costsOf are those that Kubernetes gives to what its libraries do, on what has such sizes.
func costsOf(s sizes) *estimator { return &estimator{library.CostEstimator{SizeEstimator: s}} }

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

// sizes bounds what no type bounds: the elements of a list or map, the bytes of a text.
type sizes struct{ list, text uint64 }

// What a large pod has, and what a usual one does not exceed.
const (
	largeList, largeText = 64, 1024
	usualList, usualText = 32, 512
)

// within reports whether nothing is larger than most has it.
func (s sizes) within(most sizes) bool { return s.list <= most.list && s.text <= most.text }

// EstimateSize implements checker.CostEstimator.
func (s sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	switch element.Type().Kind() {
	case types.ListKind, types.MapKind:
		return &checker.SizeEstimate{Max: s.list}
	case types.StringKind, types.BytesKind:
		return &checker.SizeEstimate{Max: s.text}
	}
	return nil
}

// bound reports whether nothing in an expression can be larger, where nothing that it is
// asked about is: it makes no lists, maps or texts but those that it spells out.
func (s sizes) bound(tree *ast.AST) bool {
	bound := true
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.LiteralKind:
			text, _ := text(e)
			bound = bound && uint64(len(text)) <= s.text
		case ast.ListKind:
			bound = bound && uint64(e.AsList().Size()) <= s.list
		case ast.MapKind, ast.StructKind:
			bound = false
		case ast.CallKind:
			switch e.AsCall().FunctionName() {
			case operators.Index, operators.Conditional:
			default:
				switch tree.GetType(e.ID()).Kind() {
				case types.BoolKind, types.IntKind, types.TimestampKind, types.DurationKind:
				default:
					bound = false
				}
			}
		}
	}))
	return bound
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
