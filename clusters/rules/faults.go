// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
)

// remedies say what helps against an error of the compiler, by what its message contains.
var remedies = []struct{ message, remedy string }{
	{"Syntax error", `look for a bracket, quote or operator that is missing there or before; CEL has &&, ||, !, ==, in, c ? a : b, and quotes ' and "`},
	{"undefined field", "kubectl explain pod --recursive names the fields"},
	{"undeclared reference", "variables are pod and cluster; texts stand in quotes; docs/rules.md names the functions"},
	{"found no matching overload", "bring both sides to one type with string(x), int(x), quantity(x) or timestamp(x); docs/rules.md shows how functions are called"},
	{"cannot be range of a comprehension", "loops (all, exists, map, filter) go over lists and maps"},
	{"does not support field selection", "only objects, such as pod.metadata, have fields"},
	{"invalid duration", "write a duration such as '30s' or '1h30m'"},
	{"invalid timestamp", "write a time such as '2006-01-02T15:04:05Z'"},
	{"invalid matches", "write a regular expression as RE2 has them, such as '^web-[0-9]+$'"},
	{"expected type", "give all elements of a list, and both outcomes of a condition, one type; dyn(x) has any"},
	{"", "docs/rules.md says what an expression may have"},
}

// faultsOf are what the compiler finds wrong, each with its line and column in the
// expression and with what helps.
func faultsOf(issues *cel.Issues) (faults []string) {
	for _, e := range issues.Errors() {
		for _, r := range remedies {
			if strings.Contains(e.Message, r.message) {
				message := strings.TrimSuffix(e.Message, " (in container '')")
				faults = append(faults, fmt.Sprintf("%d:%d: %s; %s", e.Location.Line(), e.Location.Column()+1, message, r.remedy))
				break
			}
		}
	}
	return faults
}
