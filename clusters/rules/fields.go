// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"path"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// kubernetesFields has expressions see Kubernetes' structs as classes say: fields are read
// from what is kept.
func kubernetesFields(e *cel.Env) (*cel.Env, error) {
	wrapped, err := cel.CustomTypeAdapter(adapter{e.CELTypeAdapter()})(e)
	if err != nil {
		return nil, err
	}
	return cel.CustomTypeProvider(provider{wrapped.CELTypeProvider()})(wrapped)
}

// fields are those of structs as expressions see them, by their names in JSON, those of
// inlined structs among them.
type fields struct {
	all    []field
	byName map[string]int
}

type field struct {
	name  string
	index []int // for reflect.Value.FieldByIndex
	class *class
}

// typeName is a struct's name in expressions, as ext.NativeTypes gives it.
func typeName(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

// provider tells the types of fields, and how they are read.
type provider struct{ types.Provider }

// FindStructFieldType implements types.Provider.
func (p provider) FindStructFieldType(structType, name string) (*types.FieldType, bool) {
	c := classes().byName[structType]
	if c == nil {
		return p.Provider.FindStructFieldType(structType, name)
	}
	at, ok := c.byName[name]
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type: c.all[at].class.is,
		IsSet: func(in any) bool {
			o, is := in.(*object)
			return is && o.at(at) != nil
		},
		GetFrom: func(in any) (any, error) {
			o, is := in.(*object)
			if !is {
				return nil, types.NewErr("no such field: %s", name).(*types.Err)
			}
			return o.value(at), nil
		},
	}, true
}

// adapter turns the structs that an expression makes into values.
type adapter struct{ types.Adapter }

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	if v, is := value.(ref.Val); is {
		return v
	}
	if v := reflect.Indirect(reflect.ValueOf(value)); v.Kind() == reflect.Struct {
		if c := classes().byType[v.Type()]; c != nil {
			return c.read(newReader(string(c.writer(wholly)(nil, v))))
		}
	}
	return a.Adapter.NativeToValue(value)
}

// object is a struct as a value.
type object struct {
	*class
	set []slot
}

// slot is a field that is set.
type slot struct {
	field int
	value ref.Val
}

// at is a field of an object; nil: it is not set.
func (o *object) at(field int) ref.Val {
	for i := range o.set {
		if o.set[i].field == field {
			return o.set[i].value
		}
	}
	return nil
}

// value is that of a field. A pointer to nothing reads as an empty value: expressions
// know no pointers.
func (o *object) value(field int) ref.Val {
	if v := o.at(field); v != nil {
		return v
	}
	return o.all[field].class.empty
}

// Get implements traits.Indexer.
func (o *object) Get(name ref.Val) ref.Val {
	return o.named(name, o.value)
}

// IsSet implements traits.FieldTester.
func (o *object) IsSet(name ref.Val) ref.Val {
	return o.named(name, func(field int) ref.Val { return types.Bool(o.at(field) != nil) })
}

func (o *object) named(name ref.Val, of func(field int) ref.Val) ref.Val {
	text, ok := name.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(name)
	}
	at, ok := o.byName[string(text)]
	if !ok {
		return types.NewErr("no such field: %s", text)
	}
	return of(at)
}

// IsZeroValue implements traits.Zeroer.
func (o *object) IsZeroValue() bool { return len(o.set) == 0 }

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
	if !ok || o.is != x.is || len(o.set) != len(x.set) {
		return types.False
	}
	for i, s := range o.set {
		if s.field != x.set[i].field || s.value.Equal(x.set[i].value) != types.True {
			return types.False
		}
	}
	return types.True
}

// Type implements ref.Val.
func (o *object) Type() ref.Type { return o.is }

// Value implements ref.Val.
func (o *object) Value() any { return o }
