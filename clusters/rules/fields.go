// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"path"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// kubernetesFields gives the structs that stand for a single value in JSON the type of
// that value, as Kubernetes does: times are timestamps or null, amounts quantities, and
// a port that may be a name or a number is either.
func kubernetesFields(roots ...reflect.Type) cel.EnvOption {
	structs := map[string]*structure{}
	for _, t := range roots {
		addStructures(t, structs)
	}
	return func(e *cel.Env) (*cel.Env, error) {
		a := adapter{e.CELTypeAdapter(), make(map[reflect.Type]*structure, len(structs))}
		for _, s := range structs {
			a.byType[s.of] = s
		}
		wrapped, err := cel.CustomTypeAdapter(a)(e)
		if err != nil {
			return nil, err
		}
		return cel.CustomTypeProvider(provider{wrapped.CELTypeProvider(), structs})(wrapped)
	}
}

// structure is a struct as expressions see it: its fields by their names in JSON, those
// of inlined structs among them.
type structure struct {
	of     reflect.Type
	is     *types.Type
	fields map[string][]int // for reflect.Value.FieldByIndex
}

// addStructures notes a struct and all that its fields hold.
func addStructures(t reflect.Type, structs map[string]*structure) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		addStructures(t.Elem(), structs)
		return
	case reflect.Struct:
	default:
		return
	}
	name := typeName(t)
	if structs[name] != nil {
		return
	}
	s := &structure{of: t, is: types.NewObjectType(name), fields: map[string][]int{}}
	structs[name] = s
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() {
			if _, nearer := s.fields[fieldName(f)]; !nearer {
				s.fields[fieldName(f)] = f.Index
			}
			addStructures(f.Type, structs)
		}
	}
}

// typeName is a struct's name in expressions, as ext.NativeTypes gives it.
func typeName(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

// provider tells the types of fields, and how they are read.
type provider struct {
	types.Provider
	structs map[string]*structure
}

// FindStructFieldType implements types.Provider.
func (p provider) FindStructFieldType(structType, field string) (*types.FieldType, bool) {
	s := p.structs[structType]
	if s == nil {
		return p.Provider.FindStructFieldType(structType, field)
	}
	index, ok := s.fields[field]
	if !ok {
		return nil, false
	}
	declared := s.of.FieldByIndex(index)
	native := p.owner(s, index)
	found, ok := p.Provider.FindStructFieldType(native, fieldName(declared))
	if !ok {
		return nil, false
	}
	at := func(object any) reflect.Value { return reflect.Indirect(reflect.ValueOf(object)).FieldByIndex(index) }
	return &types.FieldType{
		Type:    typeOf(found.Type),
		IsSet:   func(object any) bool { return !at(object).IsZero() },
		GetFrom: func(object any) (any, error) { return fieldValue(at(object)), nil },
	}, true
}

// owner is the name of the struct that declares a field, which may be an inlined one.
func (p provider) owner(s *structure, index []int) string {
	t := s.of
	for _, i := range index[:len(index)-1] {
		t = t.Field(i).Type
	}
	return typeName(t)
}

// fieldValue is what a field holds, without a copy of a struct. A pointer to nothing
// reads as an empty value: expressions know no pointers.
func fieldValue(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return reflect.New(v.Type().Elem()).Interface()
		}
	case reflect.Struct:
		if v.CanAddr() {
			return v.Addr().Interface()
		}
	}
	return v.Interface()
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
			return apiservercel.QuantityType
		case "intstr.IntOrString":
			return types.DynType
		}
	}
	return t
}

// adapter turns values of Go into those of expressions.
type adapter struct {
	types.Adapter
	byType map[reflect.Type]*structure
}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case ref.Val:
		return v
	case string:
		return types.String(v)
	case map[string]string:
		return types.NewStringStringMap(a, v)
	case metav1.Time:
		return timeValue(&v)
	case *metav1.Time:
		return timeValue(v)
	case metav1.MicroTime:
		return timeValue(&metav1.Time{Time: v.Time})
	case *metav1.MicroTime:
		return timeValue(&metav1.Time{Time: v.Time})
	case resource.Quantity:
		return apiservercel.Quantity{Quantity: &v}
	case *resource.Quantity:
		return apiservercel.Quantity{Quantity: v}
	case intstr.IntOrString:
		return portValue(v)
	case *intstr.IntOrString:
		return portValue(*v)
	}
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return a.list(v)
		}
	case reflect.Map:
		return types.NewDynamicMap(a, v.Interface())
	case reflect.Struct:
		if s := a.byType[v.Type()]; s != nil {
			return &object{a, s, v}
		}
	}
	return a.Adapter.NativeToValue(value)
}

// list makes a list without a copy of its elements.
func (a adapter) list(v reflect.Value) ref.Val {
	elements := make([]ref.Val, v.Len())
	for i := range elements {
		elements[i] = a.NativeToValue(fieldValue(v.Index(i)))
	}
	return types.NewRefValList(a, elements)
}

func timeValue(t *metav1.Time) ref.Val {
	if t.IsZero() {
		return types.NullValue
	}
	return types.Timestamp{Time: t.Time}
}

func portValue(v intstr.IntOrString) ref.Val {
	if v.Type == intstr.String {
		return types.String(v.StrVal)
	}
	return types.Int(v.IntVal)
}

// object is a struct as a value.
type object struct {
	adapter adapter
	is      *structure
	value   reflect.Value
}

// Get implements traits.Indexer.
func (o *object) Get(field ref.Val) ref.Val {
	v, err := o.field(field)
	if err != nil {
		return err
	}
	return o.adapter.NativeToValue(fieldValue(v))
}

// IsSet implements traits.FieldTester.
func (o *object) IsSet(field ref.Val) ref.Val {
	v, err := o.field(field)
	if err != nil {
		return err
	}
	return types.Bool(!v.IsZero())
}

func (o *object) field(name ref.Val) (reflect.Value, ref.Val) {
	text, ok := name.(types.String)
	if !ok {
		return reflect.Value{}, types.MaybeNoSuchOverloadErr(name)
	}
	index, ok := o.is.fields[string(text)]
	if !ok {
		return reflect.Value{}, types.NewErr("no such field: %s", text)
	}
	return o.value.FieldByIndex(index), nil
}

// IsZeroValue implements traits.Zeroer.
func (o *object) IsZeroValue() bool { return o.value.IsZero() }

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	if o.value.Type() == t {
		return o.value.Interface(), nil
	}
	return nil, types.NewErr("a %s is no %s", o.is.is.TypeName(), t).(*types.Err)
}

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val {
	switch {
	case t == types.TypeType:
		return o.is.is
	case t.TypeName() == o.is.is.TypeName():
		return o
	}
	return types.NewErr("a %s is no %s", o.is.is.TypeName(), t.TypeName())
}

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val {
	x, ok := other.(*object)
	return types.Bool(ok && o.is == x.is && reflect.DeepEqual(o.value.Interface(), x.value.Interface()))
}

// Type implements ref.Val.
func (o *object) Type() ref.Type { return o.is.is }

// Value implements ref.Val.
func (o *object) Value() any {
	if o.value.CanAddr() {
		return o.value.Addr().Interface()
	}
	return o.value.Interface()
}
