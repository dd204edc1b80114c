// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// faultsOf are what the compiler finds wrong, each with its line and column in the
// expression and with what helps. What is wrong only because of something else is left
// out.
func faultsOf(env *cel.Env, parsed *cel.Ast, issues *cel.Issues) (faults []string) {
	r := remedies{env: env}
	wrong := map[int64]bool{}
	if parsed != nil {
		r.missing = missingFields(env, parsed)
		wrong = r.causes(parsed.NativeRep(), issues)
	}
	for _, e := range issues.Errors() {
		if is, known := wrong[e.ExprID]; known && !is {
			continue
		}
		faults = append(faults, fmt.Sprintf("%d:%d: %s; %s",
			e.Location.Line(), e.Location.Column()+1, strings.TrimSuffix(e.Message, " (in container '')"), r.of(e)))
	}
	return faults
}

// remedies know what could have been meant.
type remedies struct {
	env *cel.Env
	// missing are fields that were asked for and are not there, with the fields of the
	// types that were asked.
	missing map[string][]string
}

// of is what helps against an error of the compiler.
func (r remedies) of(e *common.Error) string {
	name := quoted(e.Message)
	switch text := e.Message; {
	case strings.HasPrefix(text, "Syntax error"):
		return "look for a bracket, quote or operator that is missing there or before; CEL has &&, ||, !, ==, in, c ? a : b, and quotes ' and \""
	case strings.HasPrefix(text, "undefined field"):
		return suggest(name, r.missing[name])
	case strings.HasPrefix(text, "undeclared reference"):
		return r.declared(name)
	case strings.HasPrefix(text, "found no matching overload"):
		return r.overloads(name)
	case strings.Contains(text, "cannot be range of a comprehension"):
		return "loops (all, exists, map, filter) go over lists and maps"
	case strings.Contains(text, "does not support field selection"):
		return "only objects, such as pod.metadata, have fields"
	case strings.HasPrefix(text, "invalid duration"):
		return "write a duration such as '30s' or '1h30m'"
	case strings.HasPrefix(text, "invalid timestamp"):
		return "write a time such as '2006-01-02T15:04:05Z'"
	case strings.HasPrefix(text, "invalid matches"):
		return "write a regular expression as RE2 has them, such as '^web-[0-9]+$'"
	case strings.HasPrefix(text, "expected type"):
		return "give all elements of a list, and both outcomes of a condition, one type; dyn(x) has any"
	}
	return "docs/rules.md says what an expression may have"
}

// causes says of the parts of an expression that are wrong whether they are so by themselves.
// What is called on something wrong is not, nor is what would be the variable of a loop if
// that were not misspelt.
func (r remedies) causes(tree *ast.AST, issues *cel.Issues) map[int64]bool {
	wrong := map[int64]bool{}
	for _, e := range issues.Errors() {
		wrong[e.ExprID] = true
	}
	has := func(e ast.Expr) bool {
		return len(ast.MatchDescendants(ast.NavigateExpr(tree, e), func(e ast.NavigableExpr) bool { return wrong[e.ID()] })) > 0
	}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !wrong[e.ID()] || !e.AsCall().IsMemberFunction() {
			return
		}
		call := e.AsCall()
		if has(call.Target()) {
			wrong[e.ID()] = false
		}
		if args := call.Args(); len(args) > 1 && args[0].Kind() == ast.IdentKind && Nearest(call.FunctionName(), r.macros()) != "" {
			for _, arg := range args {
				for _, variable := range ast.MatchDescendants(ast.NavigateExpr(tree, arg), func(x ast.NavigableExpr) bool { return x.Kind() == ast.IdentKind && x.AsIdent() == args[0].AsIdent() }) {
					wrong[variable.ID()] = false
				}
			}
		}
	}))
	return wrong
}

// macros are what stands for a loop and the like.
func (r remedies) macros() (names []string) {
	for _, m := range r.env.Macros() {
		names = append(names, m.Function())
	}
	return names
}

// quoted is the first text in quotes.
func quoted(text string) string {
	_, rest, _ := strings.Cut(text, "'")
	name, _, _ := strings.Cut(rest, "'")
	return name
}

// declared helps against a name that is not known: of a variable, or a function.
func (r remedies) declared(name string) string {
	known := []string{varPod, varCluster}
	var functions []string
	for function := range r.env.Functions() {
		if strings.IndexFunc(function, func(c rune) bool { return c == '_' || c == '@' }) < 0 {
			functions = append(functions, function)
		}
	}
	functions = append(functions, r.macros()...)
	slices.Sort(functions)
	if near := Nearest(name, slices.Concat(known, functions)); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "variables are " + strings.Join(known, ", ") + "; texts stand in quotes; docs/rules.md names the functions"
}

// overloads helps against arguments that a function does not take.
func (r remedies) overloads(function string) string {
	declared := r.env.Functions()[function]
	if operator, is := operators.FindReverse(function); declared == nil || is && operator != "" {
		return "bring both sides to one type: string(x), int(x), double(x), quantity(x), timestamp(x)"
	}
	var takes []string
	for _, o := range declared.OverloadDecls() {
		var args []string
		for _, t := range o.ArgTypes() {
			args = append(args, checker.FormatCELType(t))
		}
		call := function + "(" + strings.Join(args, ", ") + ")"
		if o.IsMemberFunction() {
			call = args[0] + "." + function + "(" + strings.Join(args[1:], ", ") + ")"
		}
		takes = append(takes, call)
	}
	slices.Sort(takes)
	const most = 4
	text := strings.Join(takes[:min(most, len(takes))], ", ")
	if len(takes) > most {
		text += ", …"
	}
	return "it is written " + cmp.Or(text, function)
}

// missingFields are fields that an expression asks for and types do not have, with the
// fields of those types.
func missingFields(env *cel.Env, parsed *cel.Ast) map[string][]string {
	p, ok := env.CELTypeProvider().(provider)
	if !ok {
		return nil
	}
	r := recorder{p, map[string][]string{}}
	if asked, err := env.Extend(cel.CustomTypeProvider(r)); err == nil {
		asked.Check(parsed) // for what it asks
	}
	return r.missing
}

// recorder notes fields that are not there.
type recorder struct {
	provider
	missing map[string][]string
}

// FindStructFieldType implements types.Provider.
func (r recorder) FindStructFieldType(structType, field string) (*types.FieldType, bool) {
	found, ok := r.provider.FindStructFieldType(structType, field)
	if k := podKinds().byName[structType]; !ok && k != nil {
		names := slices.AppendSeq(r.missing[field], maps.Keys(k.fields))
		slices.Sort(names)
		r.missing[field] = slices.Compact(names)
	}
	return found, ok
}
