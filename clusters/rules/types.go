// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"path"
	"reflect"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// kind is how expressions see values of a Go type. A pointer is of the kind of what it
// points to. The structs that are a single value in JSON are that value: times are
// timestamps or null, amounts are quantities, and a port that may be a name or a number is
// either.
type kind struct {
	is *types.Type
	// of makes a value of a Go value that is no pointer; empty is that of nothing.
	of    func(reflect.Value) ref.Val
	empty ref.Val
	// fields are those of a struct by their names in JSON, those of inlined structs among
	// them; nil for what is no struct.
	fields map[string]structField
}

type structField struct {
	index []int // for reflect.Value.FieldByIndex
	kind  *kind
}

// kinds are those of a Pod and of all that is in it.
type kinds struct {
	byType map[reflect.Type]*kind
	byName map[string]*kind // of structs, as expressions call them
}

var podKinds = sync.OnceValue(func() *kinds {
	t := &kinds{map[reflect.Type]*kind{}, map[string]*kind{}}
	t.add(reflect.TypeFor[corev1.Pod]())
	return t
})

// podType is a Pod's name in expressions.
const podType = "v1.Pod"

func podValue(pod *corev1.Pod) ref.Val {
	return podKinds().byName[podType].of(reflect.ValueOf(pod).Elem())
}

func (t *kinds) add(of reflect.Type) *kind {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if k := t.byType[of]; k != nil {
		return k
	}
	k := leaf(of)
	if k == nil {
		k = &kind{}
	}
	t.byType[of] = k
	switch {
	case k.of != nil:
	case of.Kind() == reflect.Struct:
		name := path.Base(of.PkgPath()) + "." + of.Name()
		t.byName[name] = k
		k.is, k.fields = types.NewObjectType(name), map[string]structField{}
		k.of = func(v reflect.Value) ref.Val { return &object{k, v} }
		t.addFields(k, of, nil)
	case of.Kind() == reflect.Slice:
		element := t.add(of.Elem())
		k.is, k.of = types.NewListType(element.is), element.list
	case of.Kind() == reflect.Map:
		element := t.add(of.Elem())
		k.is, k.of = types.NewMapType(types.StringType, element.is), element.mapping
	default: // nothing that a Pod has
		k.is, k.of = types.DynType, func(reflect.Value) ref.Val { return types.NullValue }
	}
	k.empty = k.of(reflect.Zero(of))
	return k
}

func (t *kinds) addFields(k *kind, of reflect.Type, index []int) {
	for i := range of.NumField() {
		f := of.Field(i)
		at := append(index[:len(index):len(index)], i)
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case !f.IsExported() || name == "-":
		case f.Anonymous && name == "": // inlined
			t.addFields(k, f.Type, at)
		default:
			k.fields[name] = structField{at, t.add(f.Type)}
		}
	}
}

// leaf is the kind of a type without parts, nil for others.
func leaf(of reflect.Type) *kind {
	switch of {
	case reflect.TypeFor[metav1.Time]():
		return &kind{is: types.NewNullableType(types.TimestampType), of: func(v reflect.Value) ref.Val {
			if t := v.Interface().(metav1.Time); !t.IsZero() {
				return types.Timestamp{Time: t.Time}
			}
			return types.NullValue
		}}
	case reflect.TypeFor[resource.Quantity]():
		return &kind{is: apiservercel.QuantityType, of: func(v reflect.Value) ref.Val {
			q := v.Interface().(resource.Quantity)
			return apiservercel.Quantity{Quantity: &q}
		}}
	case reflect.TypeFor[intstr.IntOrString]():
		return &kind{is: types.DynType, of: func(v reflect.Value) ref.Val {
			if port := v.Interface().(intstr.IntOrString); port.Type == intstr.String {
				return types.String(port.StrVal)
			}
			return types.Int(v.FieldByName("IntVal").Int())
		}}
	}
	switch of.Kind() {
	case reflect.String:
		return &kind{is: types.StringType, of: func(v reflect.Value) ref.Val { return types.String(v.String()) }}
	case reflect.Bool:
		return &kind{is: types.BoolType, of: func(v reflect.Value) ref.Val { return types.Bool(v.Bool()) }}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return &kind{is: types.IntType, of: func(v reflect.Value) ref.Val { return types.Int(v.Int()) }}
	}
	return nil
}

// value is that of a field or element, which may be a pointer. A pointer to nothing reads
// as an empty value: expressions know no pointers.
func (k *kind) value(v reflect.Value) ref.Val {
	if v.Kind() == reflect.Pointer {
		if v = v.Elem(); !v.IsValid() {
			return k.empty
		}
	}
	return k.of(v)
}

// list is a list whose elements are of kind k.
func (k *kind) list(v reflect.Value) ref.Val {
	elements := make([]ref.Val, v.Len())
	for i := range elements {
		elements[i] = k.value(v.Index(i))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elements)
}

// mapping is a map from texts to what is of kind k.
func (k *kind) mapping(v reflect.Value) ref.Val {
	if plain, is := v.Interface().(map[string]string); is {
		return types.NewStringStringMap(types.DefaultTypeAdapter, plain)
	}
	values := make(map[ref.Val]ref.Val, v.Len())
	for of := v.MapRange(); of.Next(); {
		values[types.String(of.Key().String())] = k.value(of.Value())
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, values)
}

// provider tells the compiler the fields of the kinds, and how they are read.
type provider struct{ types.Provider }

// kubernetesTypes has expressions know the kinds.
func kubernetesTypes(e *cel.Env) (*cel.Env, error) {
	return cel.CustomTypeProvider(provider{e.CELTypeProvider()})(e)
}

// FindStructType implements types.Provider.
func (p provider) FindStructType(name string) (*types.Type, bool) {
	if k := podKinds().byName[name]; k != nil {
		return types.NewTypeTypeWithParam(k.is), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldType implements types.Provider.
func (p provider) FindStructFieldType(structType, name string) (*types.FieldType, bool) {
	k := podKinds().byName[structType]
	if k == nil {
		return p.Provider.FindStructFieldType(structType, name)
	}
	f, ok := k.fields[name]
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type:    f.kind.is,
		IsSet:   func(in any) bool { o, is := in.(*object); return is && o.has(f) },
		GetFrom: func(in any) (any, error) { return in.(*object).get(f), nil },
	}, true
}

// object is a struct as a value.
type object struct {
	*kind
	v reflect.Value
}

// has reports whether a field is set: whether an API server would write it out.
func (o *object) has(f structField) bool {
	v := o.v.FieldByIndex(f.index)
	return !v.IsZero() && ((v.Kind() != reflect.Slice && v.Kind() != reflect.Map) || v.Len() > 0)
}

func (o *object) get(f structField) ref.Val { return f.kind.value(o.v.FieldByIndex(f.index)) }

// Get implements traits.Indexer.
func (o *object) Get(name ref.Val) ref.Val { return o.named(name, o.get) }

// IsSet implements traits.FieldTester.
func (o *object) IsSet(name ref.Val) ref.Val {
	return o.named(name, func(f structField) ref.Val { return types.Bool(o.has(f)) })
}

func (o *object) named(name ref.Val, of func(structField) ref.Val) ref.Val {
	text, ok := name.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(name)
	}
	f, ok := o.fields[string(text)]
	if !ok {
		return types.NewErr("no such field: %s", text)
	}
	return of(f)
}

// IsZeroValue implements traits.Zeroer.
func (o *object) IsZeroValue() bool { return o.v.IsZero() }

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	return nil, types.NewErr("a %s is no %s", o.is.TypeName(), t).(*types.Err)
}

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val {
	switch {
	case t == types.TypeType:
		return o.is
	case t.TypeName() == o.is.TypeName():
		return o
	}
	return types.NewErr("a %s is no %s", o.is.TypeName(), t.TypeName())
}

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val {
	x, ok := other.(*object)
	return types.Bool(ok && o.kind == x.kind && reflect.DeepEqual(o.v.Interface(), x.v.Interface()))
}

// Type implements ref.Val.
func (o *object) Type() ref.Type { return o.is }

// Value implements ref.Val.
func (o *object) Value() any { return o }
