// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"regexp"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// library gathers functions in one option.
func library(functions ...cel.EnvOption) cel.EnvOption {
	return func(e *cel.Env) (*cel.Env, error) {
		var err error
		for _, f := range functions {
			if e, err = f(e); err != nil {
				return nil, err
			}
		}
		return e, nil
	}
}

// listFunctions are those of Kubernetes' lists library: isSorted, min, max, sum, indexOf
// and lastIndexOf.
func listFunctions() cel.EnvOption {
	ordered := []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType, cel.BoolType, cel.DurationType, cel.TimestampType, cel.StringType, cel.BytesType}
	var sorted, least, greatest, sum []cel.FunctionOpt
	for _, t := range ordered {
		list, name := []*cel.Type{cel.ListType(t)}, t.String()
		sorted = append(sorted, cel.MemberOverload("list_"+name+"_is_sorted_bool", list, cel.BoolType, cel.UnaryBinding(isSorted)))
		least = append(least, cel.MemberOverload("list_"+name+"_min", list, t, cel.UnaryBinding(extreme(-1))))
		greatest = append(greatest, cel.MemberOverload("list_"+name+"_max", list, t, cel.UnaryBinding(extreme(1))))
	}
	for t, zero := range map[*cel.Type]ref.Val{cel.IntType: types.IntZero, cel.UintType: types.Uint(0), cel.DoubleType: types.Double(0), cel.DurationType: types.Duration{}} {
		sum = append(sum, cel.MemberOverload("list_"+t.String()+"_sum", []*cel.Type{cel.ListType(t)}, t, cel.UnaryBinding(sumFrom(zero))))
	}
	element := cel.TypeParamType("T")
	search := []*cel.Type{cel.ListType(element), element}
	return library(
		cel.Function("isSorted", sorted...), cel.Function("min", least...), cel.Function("max", greatest...), cel.Function("sum", sum...),
		cel.Function("indexOf", cel.MemberOverload("list_a_index_of_int", search, cel.IntType, cel.BinaryBinding(index(false)))),
		cel.Function("lastIndexOf", cel.MemberOverload("list_a_last_index_of_int", search, cel.IntType, cel.BinaryBinding(index(true)))),
	)
}

// each calls with every element of a list in turn, until it is told to stop.
func each(list ref.Val, with func(i types.Int, v ref.Val) (more bool)) {
	l := list.(traits.Lister)
	size := l.Size().(types.Int)
	for i := types.Int(0); i < size && with(i, l.Get(i)); i++ {
	}
}

func isSorted(list ref.Val) ref.Val {
	var before ref.Val
	out := ref.Val(types.True)
	each(list, func(_ types.Int, v ref.Val) bool {
		if before != nil && before.(traits.Comparer).Compare(v) == types.IntOne {
			out = types.False
		}
		before = v
		return out == types.True
	})
	return out
}

// extreme is the least element for -1, the greatest for 1.
func extreme(sign types.Int) func(ref.Val) ref.Val {
	return func(list ref.Val) ref.Val {
		var out ref.Val
		each(list, func(_ types.Int, v ref.Val) bool {
			if out == nil || v.(traits.Comparer).Compare(out) == sign {
				out = v
			}
			return true
		})
		if out == nil {
			return types.NewErr("min and max of an empty list")
		}
		return out
	}
}

func sumFrom(zero ref.Val) func(ref.Val) ref.Val {
	return func(list ref.Val) ref.Val {
		out := zero
		each(list, func(_ types.Int, v ref.Val) bool {
			out = out.(traits.Adder).Add(v)
			return !types.IsError(out)
		})
		return out
	}
}

func index(last bool) func(list, wanted ref.Val) ref.Val {
	return func(list, wanted ref.Val) ref.Val {
		out := types.Int(-1)
		each(list, func(i types.Int, v ref.Val) bool {
			if v.Equal(wanted) == types.True {
				out = i
			}
			return last || out < 0
		})
		return out
	}
}

// regexFunctions are those of Kubernetes' regex library: find and findAll.
func regexFunctions() cel.EnvOption {
	match := func(text, pattern ref.Val, most int) ([]string, ref.Val) {
		r, err := regexp.Compile(string(pattern.(types.String)))
		if err != nil {
			return nil, types.NewErr("not a regular expression: %s", err)
		}
		return r.FindAllString(string(text.(types.String)), most), nil
	}
	all := func(args ...ref.Val) ref.Val {
		most := -1
		if len(args) == 3 {
			most = int(args[2].(types.Int))
		}
		found, err := match(args[0], args[1], most)
		if err != nil {
			return err
		}
		return types.NewStringList(types.DefaultTypeAdapter, found)
	}
	two := []*cel.Type{cel.StringType, cel.StringType}
	return library(
		cel.Function("find", cel.MemberOverload("string_find_string", two, cel.StringType, cel.BinaryBinding(func(text, pattern ref.Val) ref.Val {
			found, err := match(text, pattern, 1)
			if err != nil {
				return err
			}
			return types.String(append(found, "")[0])
		}))),
		cel.Function("findAll",
			cel.MemberOverload("string_find_all_string", two, cel.ListType(cel.StringType), cel.BinaryBinding(func(text, pattern ref.Val) ref.Val { return all(text, pattern) })),
			cel.MemberOverload("string_find_all_string_int", append(two, cel.IntType), cel.ListType(cel.StringType), cel.FunctionBinding(all))),
	)
}
