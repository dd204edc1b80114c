// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// faultsOf are what the compiler finds wrong, each with its line and column in the
// expression and with what helps. What is wrong because of something else comes after it.
func faultsOf(env *cel.Env, parsed *cel.Ast, issues *cel.Issues) (faults []string) {
	r := remedies{env: env}
	if parsed != nil {
		r.missing = missingFields(env, parsed)
	}
	for _, e := range issues.Errors() {
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
	if operator, is := operators.FindReverse(function); is && operator != "" {
		return "bring both sides to one type: string(x), int(x), double(x), quantity(x), timestamp(x)"
	}
	var takes []string
	if declared := r.env.Functions()[function]; declared != nil {
		for _, overload := range declared.Documentation().Children {
			takes = append(takes, overload.Signature)
		}
	}
	slices.Sort(takes)
	const most = 4
	return "it is written " + strings.Join(takes[:min(most, len(takes))], " or ")
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
