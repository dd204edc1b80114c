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

// quantityFunctions parse and compare amounts of resources.
func quantityFunctions() cel.EnvOption {
	compare := func(name, overload string, holds func(cmp int) ref.Val, result *cel.Type) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(overload, []*cel.Type{quantityType, quantityType}, result, cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			x, y := a.(quantity), b.(quantity)
			return holds(x.Cmp(y.Quantity))
		})))
	}
	options := []cel.EnvOption{
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
		compare("compareTo", "quantity_compare_to", func(cmp int) ref.Val { return types.Int(cmp) }, cel.IntType),
		compare("isGreaterThan", "quantity_is_greater_than", func(cmp int) ref.Val { return types.Bool(cmp > 0) }, cel.BoolType),
		compare("isLessThan", "quantity_is_less_than", func(cmp int) ref.Val { return types.Bool(cmp < 0) }, cel.BoolType),
	}
	return func(e *cel.Env) (*cel.Env, error) {
		var err error
		for _, option := range options {
			if e, err = option(e); err != nil {
				return nil, err
			}
		}
		return e, nil
	}
}
