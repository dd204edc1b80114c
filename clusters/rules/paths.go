// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// paths is what expressions read of an object: a tree of fields.
type paths struct {
	// whole is true where the value itself is used.
	whole bool
	// fields are those of a struct, or keys of a map; each those of every element of a
	// list or map. Of a text it is there where its length is asked for.
	fields map[string]*paths
	each   *paths
}

func (p *paths) field(name string) *paths {
	if p.fields == nil {
		p.fields = map[string]*paths{}
	}
	if p.fields[name] == nil {
		p.fields[name] = &paths{}
	}
	return p.fields[name]
}

func (p *paths) element() *paths {
	if p.each == nil {
		p.each = &paths{}
	}
	return p.each
}

// wholly is where all is read.
var wholly = &paths{whole: true}

// in is what is read of a field; nil: it is not.
func (p *paths) in(name string) *paths {
	if p.whole {
		return wholly
	}
	return p.fields[name]
}

// read reports whether anything is read.
func (p *paths) read() bool { return p != nil && (p.whole || len(p.fields) > 0 || p.each != nil) }

// covers reports whether all that q names is in p. To look at a field's presence alone is
// to name it without more: an empty tree.
func (p *paths) covers(q *paths) bool {
	switch {
	case q == nil || p != nil && p.whole:
		return true
	case p == nil || q.whole || q.each != nil && !p.each.covers(q.each):
		return false
	}
	for name, sub := range q.fields {
		if !p.fields[name].covers(sub) && !(p.each != nil && p.each.covers(sub)) {
			return false
		}
	}
	return true
}

// merge adds all that q names; nil names nothing.
func (p *paths) merge(q *paths) {
	if q == nil {
		return
	}
	p.whole = p.whole || q.whole
	for name, sub := range q.fields {
		p.field(name).merge(sub)
	}
	if q.each != nil {
		p.element().merge(q.each)
	}
}

// readPaths notes under roots what an expression reads of the variables in it.
func readPaths(tree *ast.AST, roots map[string]*paths) {
	w := walker{tree, roots}
	w.use(tree.Expr())
}

// walker knows which paths the variables in scope stand for; one that stands for none
// has a nil entry.
type walker struct {
	tree  *ast.AST
	bound map[string]*paths
}

func (w walker) isMap(e ast.Expr) bool { return w.tree.GetType(e.ID()).Kind() == types.MapKind }

// use notes that the value of an expression is needed.
func (w walker) use(e ast.Expr) {
	if p := w.path(e); p != nil {
		p.whole = true
	}
}

// path returns which path an expression stands for, and notes what it needs for that;
// nil for a computed value.
func (w walker) path(e ast.Expr) *paths {
	switch e.Kind() {
	case ast.IdentKind:
		return w.bound[e.AsIdent()]
	case ast.SelectKind:
		selected := e.AsSelect()
		if of := w.path(selected.Operand()); of != nil {
			if field := of.field(selected.FieldName()); !selected.IsTestOnly() {
				return field
			}
		}
	case ast.CallKind:
		return w.call(e.AsCall())
	case ast.ListKind:
		w.all(e.AsList().Elements())
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.use(entry.AsMapEntry().Key())
			w.use(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			w.use(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		w.loop(e.AsComprehension())
	}
	return nil
}

func (w walker) all(expressions []ast.Expr) {
	for _, e := range expressions {
		w.use(e)
	}
}

// call is about functions; those that look into a list or map need no more of it than
// what they look for.
func (w walker) call(c ast.CallExpr) *paths {
	args := c.Args()
	switch c.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		if of := w.path(args[0]); of != nil {
			if key, constant := text(args[1]); constant {
				return of.field(key)
			}
			w.use(args[1])
			return of.element()
		}
		w.use(args[1])
		return nil
	case operators.In, operators.OldIn:
		if of := w.path(args[1]); of != nil {
			if key, constant := text(args[0]); constant && w.isMap(args[1]) {
				of.field(key)
				return nil
			}
			of.whole = true // a list is searched by value
		}
		w.use(args[0])
		return nil
	case overloads.Size:
		if c.IsMemberFunction() {
			args = []ast.Expr{c.Target()}
		}
		if of := w.path(args[0]); of != nil {
			of.element()
		}
		return nil
	}
	if c.IsMemberFunction() {
		of := w.path(c.Target())
		switch c.FunctionName() {
		case "hasValue":
			return nil // to name it was enough
		case "value", "orValue":
			w.all(args)
			return of
		}
		if of != nil {
			of.whole = true
		}
	}
	w.all(args)
	return nil
}

// loop is about all, exists, map, filter and their like.
func (w walker) loop(c ast.ComprehensionExpr) {
	inside := walker{w.tree, make(map[string]*paths, len(w.bound)+2)}
	for name, p := range w.bound {
		inside.bound[name] = p
	}
	over := w.path(c.IterRange())
	var element *paths
	if over != nil {
		element = over.element()
	}
	switch inside.bound[c.IterVar()] = nil; { // an index or key
	case c.HasIterVar2():
		inside.bound[c.IterVar2()] = element
	case !w.isMap(c.IterRange()):
		inside.bound[c.IterVar()] = element
	}
	inside.bound[c.AccuVar()] = nil
	w.use(c.AccuInit())
	inside.use(c.LoopCondition())
	inside.use(c.LoopStep())
	inside.use(c.Result())
}

// text is the value of a constant text.
func text(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}
