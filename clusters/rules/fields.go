// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kubernetesFields gives the structs that stand for a single value in JSON the type of
// that value, as Kubernetes does: times are timestamps or null, amounts quantities, and
// a port that may be a name or a number is either.
func kubernetesFields() cel.EnvOption {
	return func(e *cel.Env) (*cel.Env, error) {
		wrapped, err := cel.CustomTypeAdapter(adapter{e.CELTypeAdapter()})(e)
		if err != nil {
			return nil, err
		}
		return cel.CustomTypeProvider(provider{wrapped.CELTypeProvider()})(wrapped)
	}
}

// provider tells the types of fields.
type provider struct{ types.Provider }

// FindStructFieldType implements types.Provider.
func (p provider) FindStructFieldType(structType, field string) (*types.FieldType, bool) {
	found, ok := p.Provider.FindStructFieldType(structType, field)
	if !ok {
		found, ok = p.inlined(structType, field)
	}
	if ok {
		found.Type = typeOf(found.Type)
	}
	return found, ok
}

// inlined finds a field of a struct that is inlined in another, which JSON does not
// show: httpGet of a probe is one of its ProbeHandler.
func (p provider) inlined(structType, field string) (*types.FieldType, bool) {
	names, _ := p.Provider.FindStructFieldNames(structType)
	for _, name := range names {
		if name == "" || name[0] < 'A' || name[0] > 'Z' {
			continue // a field with a name in JSON
		}
		outer, ok := p.Provider.FindStructFieldType(structType, name)
		if !ok || outer.Type.Kind() != types.StructKind {
			continue
		}
		inner, ok := p.Provider.FindStructFieldType(outer.Type.TypeName(), field)
		if !ok {
			continue
		}
		within := func(object any) any { return reflect.Indirect(reflect.ValueOf(object)).FieldByName(name).Interface() }
		return &types.FieldType{
			Type:    inner.Type,
			IsSet:   func(object any) bool { return inner.IsSet(within(object)) },
			GetFrom: func(object any) (any, error) { return inner.GetFrom(within(object)) },
		}, true
	}
	return nil, false
}

// typeOf is the type to show for one that was made of a struct.
func typeOf(t *types.Type) *types.Type {
	switch t.Kind() {
	case types.ListKind:
		return types.NewListType(typeOf(t.Parameters()[0]))
	case types.MapKind:
		return types.NewMapType(t.Parameters()[0], typeOf(t.Parameters()[1]))
	case types.StructKind:
		switch t.TypeName() {
		case "v1.Time", "v1.MicroTime":
			return types.NewNullableType(types.TimestampType)
		case "resource.Quantity":
			return quantityType
		case "intstr.IntOrString":
			return types.DynType
		}
	}
	return t
}

// adapter turns values of these structs into those of their types.
type adapter struct{ types.Adapter }

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case metav1.Time:
		return a.time(&v)
	case *metav1.Time:
		return a.time(v)
	case metav1.MicroTime:
		return a.time(&metav1.Time{Time: v.Time})
	case resource.Quantity:
		return quantity{v}
	case *resource.Quantity:
		if v == nil {
			return types.NullValue
		}
		return quantity{*v}
	case intstr.IntOrString:
		if v.Type == intstr.String {
			return types.String(v.StrVal)
		}
		return types.Int(v.IntVal)
	case *intstr.IntOrString:
		if v == nil {
			return types.NullValue
		}
		return a.NativeToValue(*v)
	}
	switch v := reflect.Indirect(reflect.ValueOf(value)); v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return types.NewDynamicList(a, v.Interface())
		}
	case reflect.Map:
		return types.NewDynamicMap(a, v.Interface())
	case reflect.Struct:
		inner := a.Adapter.NativeToValue(value)
		if fields, ok := inner.(fields); ok {
			return object{fields, a}
		}
		return inner
	}
	return a.Adapter.NativeToValue(value)
}

func (adapter) time(t *metav1.Time) ref.Val {
	if t.IsZero() {
		return types.NullValue
	}
	return types.Timestamp{Time: t.Time}
}

// fields is what a struct can do as a value.
type fields interface {
	ref.Val
	traits.Indexer
	traits.FieldTester
}

// object is a struct whose fields are adapted here, and not where it was made.
type object struct {
	fields
	adapter adapter
}

// Get implements traits.Indexer.
func (o object) Get(field ref.Val) ref.Val {
	v := o.fields.Get(field)
	if types.IsError(v) {
		if in, ok := o.inlined(field); ok {
			return in.Get(field)
		}
		return v
	}
	switch v.(type) {
	case fields, traits.Lister, traits.Mapper:
		return o.adapter.NativeToValue(v.Value())
	}
	return v
}

// IsSet implements traits.FieldTester.
func (o object) IsSet(field ref.Val) ref.Val {
	set := o.fields.IsSet(field)
	if types.IsError(set) {
		if in, ok := o.inlined(field); ok {
			return in.IsSet(field)
		}
	}
	return set
}

// inlined is the struct inlined in this one that has a field.
func (o object) inlined(field ref.Val) (object, bool) {
	value := reflect.Indirect(reflect.ValueOf(o.Value()))
	for i := range value.NumField() {
		f := value.Type().Field(i)
		if !f.Anonymous || fieldName(f) != f.Name || f.Type.Kind() != reflect.Struct {
			continue
		}
		in, ok := o.adapter.NativeToValue(value.Field(i).Interface()).(object)
		if ok && !types.IsError(in.fields.IsSet(field)) {
			return in, true
		}
	}
	return object{}, false
}
