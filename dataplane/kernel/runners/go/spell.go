// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"reflect"
	"strings"
)

// spell writes a type as Go source, with the imports that it needs. It cannot for types that other
// packages keep to themselves.
func spell(t reflect.Type) (string, map[string]string, bool) {
	s := speller{imports: map[string]string{}, canSpell: true}
	text := s.spell(t)
	return text, s.imports, s.canSpell
}

type speller struct {
	imports  map[string]string
	canSpell bool
}

func (s *speller) spell(t reflect.Type) string {
	if t.Name() != "" {
		return s.named(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + s.spell(t.Elem())
	case reflect.Slice:
		return "[]" + s.spell(t.Elem())
	case reflect.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), s.spell(t.Elem()))
	case reflect.Map:
		return "map[" + s.spell(t.Key()) + "]" + s.spell(t.Elem())
	case reflect.Chan:
		return "(" + map[reflect.ChanDir]string{reflect.RecvDir: "<-chan ", reflect.SendDir: "chan<- ", reflect.BothDir: "chan "}[t.ChanDir()] + s.spell(t.Elem()) + ")"
	case reflect.Func:
		return "func" + s.signature(t)
	case reflect.Struct:
		return s.fields(t)
	case reflect.Interface:
		return s.methods(t)
	}
	s.canSpell = false
	return ""
}

// named is a type with a name: a word of the language, of a cell, or of another package.
func (s *speller) named(t reflect.Type) string {
	from := t.PkgPath()
	switch {
	case from == "":
		return t.Name()
	case from == "main" || strings.HasPrefix(from, "cells/"):
		return strings.NewReplacer("main.", "", "cells/", "").Replace(t.Name())
	case t.Name()[0] < 'A' || t.Name()[0] > 'Z' || strings.Contains(t.Name(), "["):
		s.canSpell = false
		return ""
	}
	name := "k__" + strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(from)
	s.imports[name] = from
	return name + "." + t.Name()
}

func (s *speller) signature(t reflect.Type) string {
	in, out := []string{}, []string{}
	for i := range t.NumIn() {
		if t.IsVariadic() && i == t.NumIn()-1 {
			in = append(in, "..."+s.spell(t.In(i).Elem()))
		} else {
			in = append(in, s.spell(t.In(i)))
		}
	}
	for i := range t.NumOut() {
		out = append(out, s.spell(t.Out(i)))
	}
	return "(" + strings.Join(in, ", ") + ") (" + strings.Join(out, ", ") + ")"
}

func (s *speller) fields(t reflect.Type) string {
	fields := []string{}
	for i := range t.NumField() {
		field := t.Field(i)
		text := field.Name + " " + s.spell(field.Type)
		if field.Anonymous {
			text = s.spell(field.Type)
		}
		if field.Tag != "" {
			text += fmt.Sprintf(" %q", string(field.Tag))
		}
		fields = append(fields, text)
	}
	return "struct { " + strings.Join(fields, "; ") + " }"
}

func (s *speller) methods(t reflect.Type) string {
	methods := []string{}
	for i := range t.NumMethod() {
		methods = append(methods, t.Method(i).Name+s.signature(t.Method(i).Type))
	}
	return "interface { " + strings.Join(methods, "; ") + " }"
}
