// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	functionQuantity   = "quantity"
	functionIsQuantity = "isQuantity"
)

// quantityType is the type that Kubernetes' own expressions have for amounts of
// resources (k8s.io/apiserver/pkg/cel/library/quantity.go); the methods are named as
// there.
var quantityType = cel.OpaqueType("kubernetes.Quantity")

// quantity is an amount of a resource.
type quantity struct{ resource.Quantity }

// ConvertToNative implements ref.Val.
func (q quantity) ConvertToNative(t reflect.Type) (any, error) {
	if t == reflect.TypeFor[resource.Quantity]() {
		return q.Quantity, nil
	}
	return nil, types.ValOrErr(q, "a quantity is no %s", t).(*types.Err)
}

// ConvertToType implements ref.Val.
func (q quantity) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case quantityType:
		return q
	case types.TypeType:
		return quantityType
	}
	return types.NewErr("a quantity is no %s", t.TypeName())
}

// Equal implements ref.Val.
func (q quantity) Equal(other ref.Val) ref.Val {
	o, ok := other.(quantity)
	return types.Bool(ok && q.Cmp(o.Quantity) == 0)
}

// Type implements ref.Val.
func (quantity) Type() ref.Type { return quantityType }

// Value implements ref.Val.
func (q quantity) Value() any { return q.Quantity }

// quantityFunctions parse, compare and add up amounts of resources.
func quantityFunctions() cel.EnvOption {
	two := func(name, overload string, result *cel.Type, of func(a, b quantity) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(overload, []*cel.Type{quantityType, quantityType}, result, cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			return of(a.(quantity), b.(quantity))
		})))
	}
	sum := func(name, overload string, of func(a *resource.Quantity, b resource.Quantity)) cel.EnvOption {
		change := func(a ref.Val, b resource.Quantity) ref.Val {
			out := a.(quantity).DeepCopy()
			of(&out, b)
			return quantity{out}
		}
		return cel.Function(name,
			cel.MemberOverload(overload, []*cel.Type{quantityType, quantityType}, quantityType, cel.BinaryBinding(func(a, b ref.Val) ref.Val { return change(a, b.(quantity).Quantity) })),
			cel.MemberOverload(overload+"_int", []*cel.Type{quantityType, cel.IntType}, quantityType, cel.BinaryBinding(func(a, b ref.Val) ref.Val {
				return change(a, *resource.NewQuantity(int64(b.(types.Int)), resource.DecimalExponent))
			})))
	}
	one := func(name, overload string, result *cel.Type, of func(quantity) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(overload, []*cel.Type{quantityType}, result, cel.UnaryBinding(func(q ref.Val) ref.Val { return of(q.(quantity)) })))
	}
	return library(
		cel.Function(functionQuantity, cel.Overload("string_to_quantity", []*cel.Type{cel.StringType}, quantityType, cel.UnaryBinding(func(text ref.Val) ref.Val {
			q, err := resource.ParseQuantity(string(text.(types.String)))
			if err != nil {
				return types.NewErr("not a quantity; write one such as 500m or 2Gi")
			}
			return quantity{q}
		}))),
		cel.Function(functionIsQuantity, cel.Overload("is_quantity_string", []*cel.Type{cel.StringType}, cel.BoolType, cel.UnaryBinding(func(text ref.Val) ref.Val {
			_, err := resource.ParseQuantity(string(text.(types.String)))
			return types.Bool(err == nil)
		}))),
		two("compareTo", "quantity_compare_to", cel.IntType, func(a, b quantity) ref.Val { return types.Int(a.Cmp(b.Quantity)) }),
		two("isGreaterThan", "quantity_is_greater_than", cel.BoolType, func(a, b quantity) ref.Val { return types.Bool(a.Cmp(b.Quantity) > 0) }),
		two("isLessThan", "quantity_is_less_than", cel.BoolType, func(a, b quantity) ref.Val { return types.Bool(a.Cmp(b.Quantity) < 0) }),
		sum("add", "quantity_add", func(a *resource.Quantity, b resource.Quantity) { a.Add(b) }),
		sum("sub", "quantity_sub", func(a *resource.Quantity, b resource.Quantity) { a.Sub(b) }),
		one("sign", "quantity_sign", cel.IntType, func(q quantity) ref.Val { return types.Int(q.Sign()) }),
		one("isInteger", "quantity_is_integer", cel.BoolType, func(q quantity) ref.Val { _, ok := q.AsInt64(); return types.Bool(ok) }),
		one("asInteger", "quantity_as_integer", cel.IntType, func(q quantity) ref.Val {
			n, ok := q.AsInt64()
			if !ok {
				return types.NewErr("the quantity is no whole number")
			}
			return types.Int(n)
		}),
		one("asApproximateFloat", "quantity_as_float", cel.DoubleType, func(q quantity) ref.Val { return types.Double(q.AsApproximateFloat64()) }),
	)
}
