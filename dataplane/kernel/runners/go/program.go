// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"reflect"
	"slices"
	"sort"
	"strings"
)

// known is the source of what earlier cells declared.
type known struct {
	imports      map[string]string
	declarations []declaration // the newest of each name
}

// usual are packages that a cell need not import.
var usual = []string{
	"bufio", "bytes", "cmp", "context", "encoding/base64", "encoding/json", "errors", "fmt", "io", "log", "maps", "math",
	"math/rand", "net/http", "os", "os/exec", "path/filepath", "reflect", "regexp", "runtime", "slices", "sort",
	"strconv", "strings", "sync", "sync/atomic", "time", "unicode",
}

func newKnown() *known {
	imports := map[string]string{}
	for _, from := range usual {
		imports[path.Base(from)] = from
	}
	return &known{imports: imports, declarations: []declaration{display}}
}

// add remembers what a cell declares; a name that is declared again loses its old meaning, a type also
// its methods.
func (k *known) add(p *parts) {
	maps.Copy(k.imports, p.imports)
	k.declarations = append(k.without(p), p.declarations...)
}

// without is what remains of earlier declarations beside those of p.
func (k *known) without(p *parts) []declaration {
	var names []string
	for _, one := range p.declarations {
		names = append(names, one.names...)
	}
	return slices.DeleteFunc(slices.Clone(k.declarations), func(old declaration) bool {
		return slices.ContainsFunc(old.names, func(name string) bool {
			of, _, isMethod := strings.Cut(name, ".")
			return slices.Contains(names, name) || isMethod && slices.Contains(names, of)
		})
	})
}

// frame is the part of the program that the runner speaks with, under names that no cell has. Loops
// look at K__Stop; a goroutine that is stopped ends, and nothing else does.
const frame = `package main

import (
	k__atomic "sync/atomic"
	k__reflect "reflect"
	k__runtime "runtime"
	k__unsafe "unsafe"
)

var (
	K__Vars    map[string]any
	K__Keep    func(string, any)
	K__Stop    *k__atomic.Bool
	K__Show    func(...any)
	K__Display func(map[string]any)
	K__Cell    = func() { k__setup(); k__run() }

	_ k__unsafe.Pointer
	_ k__reflect.Type
)

func k__stopped() {
	if K__Stop.Load() {
		k__runtime.Goexit()
	}
}

`

const importMark = "import (\n"

func importLines(imports map[string]string) string {
	lines := ""
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		lines += fmt.Sprintf("\t%s %q\n", name, imports[name])
	}
	return lines
}

// display is for cells that show forms by MIME type.
var display = declaration{
	names:  []string{"display"},
	source: "func display(forms map[string]any) { K__Display(forms) }\n",
}

// program is the source of the plugin of one cell: what it needs of earlier cells, and itself.
func (k *known) program(p *parts, vars map[string]any) (string, error) {
	declared := slices.Concat(k.without(p), p.declarations)
	imports := maps.Clone(k.imports)
	maps.Copy(imports, p.imports)
	body, top := k.body(p)
	text := newText(declared, vars)
	text.need(body)
	for _, one := range p.declarations {
		text.need(one.source)
		text.include(one)
	}
	for _, one := range top {
		text.need(one.source)
		text.include(one)
	}
	text.settle()
	return instrumented(text.source(body), text.pointers, imports)
}

// body is the function that runs the cell, and the variables that its functions use.
func (k *known) body(p *parts) (string, []declaration) {
	var top []declaration
	used := map[string]bool{}
	for _, one := range p.declarations {
		for name := range identifiers(one.source) {
			used[name] = true
		}
	}
	for _, one := range p.variables {
		if slices.ContainsFunc(one.names, func(name string) bool { return used[name] }) {
			top = append(top, one)
		}
	}
	var b strings.Builder
	b.WriteString("func k__run() {\n")
	for _, one := range top {
		for _, name := range one.names {
			fmt.Fprintf(&b, "K__Keep(%q, &%s)\n", name, name)
		}
	}
	for i, statement := range p.statements {
		isTop := slices.ContainsFunc(top, func(one declaration) bool { return one.source == statement })
		switch {
		case isTop:
		case p.hasValue && i == len(p.statements)-1:
			line, expression, _ := strings.Cut(statement, "\n")
			b.WriteString(line + "\nK__Show(" + strings.TrimSpace(expression) + ")\n")
		default:
			b.WriteString(statement)
		}
	}
	if p.hasMain {
		b.WriteString("main()\n")
	}
	b.WriteString("}\n")
	return b.String(), top
}

// text collects the declarations, variables and imports that a cell needs.
type text struct {
	declared []declaration
	vars     map[string]any

	wanted   []string
	seen     map[string]bool
	included map[string]bool // sources
	order    []declaration
	pointers map[string]string // types of earlier variables, by name
	spelled  map[string]string // imports of those types
}

func newText(declared []declaration, vars map[string]any) *text {
	return &text{
		declared: declared, vars: vars, seen: map[string]bool{}, included: map[string]bool{},
		pointers: map[string]string{}, spelled: map[string]string{},
	}
}

// need notes every word of source that may name something.
func (t *text) need(source string) {
	for name := range identifiers(source) {
		if !t.seen[name] {
			t.seen[name] = true
			t.wanted = append(t.wanted, name)
		}
	}
}

func (t *text) include(one declaration) {
	if !t.included[one.source] {
		t.included[one.source] = true
		t.order = append(t.order, one)
		t.need(one.source)
	}
}

// settle includes all that is named, and what that names in turn.
func (t *text) settle() {
	for len(t.wanted) > 0 {
		name := t.wanted[0]
		t.wanted = t.wanted[1:]
		for _, one := range t.declared {
			if slices.ContainsFunc(one.names, func(n string) bool { return n == name || strings.HasPrefix(n, name+".") }) {
				t.include(one)
			}
		}
		if pointer, ok := t.vars[name]; ok && !t.declares(name) {
			if spelled, imports, ok := spell(reflect.TypeOf(pointer).Elem()); ok {
				t.pointers[name] = spelled
				maps.Copy(t.spelled, imports)
				t.need("var _ " + spelled)
			}
		}
	}
}

func (t *text) declares(name string) bool {
	return slices.ContainsFunc(t.order, func(one declaration) bool { return slices.Contains(one.names, name) })
}

// source is the whole file.
func (t *text) source(body string) string {
	var b strings.Builder
	head, rest, _ := strings.Cut(frame, importMark)
	b.WriteString(head + importMark + importLines(t.spelled) + rest)
	for _, name := range slices.Sorted(maps.Keys(t.pointers)) {
		fmt.Fprintf(&b, "var k__p_%s *%s\n", name, t.pointers[name])
	}
	b.WriteString("\nfunc k__setup() {\n")
	for _, name := range slices.Sorted(maps.Keys(t.pointers)) {
		fmt.Fprintf(&b, "\tk__p_%s = (*%s)(k__unsafe.Pointer(k__reflect.ValueOf(K__Vars[%q]).Pointer()))\n", name, t.pointers[name], name)
	}
	b.WriteString("}\n\n")
	for _, one := range t.order {
		b.WriteString(one.source)
	}
	return b.String() + body
}

// identifiers are the names in a piece of source that is a declaration or statements.
func identifiers(source string) map[string]bool {
	found := map[string]bool{}
	for _, text := range []string{source, "func _() {\n" + source + "\n}"} {
		file, err := parseTop(text)
		if err != nil {
			continue
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if name, ok := node.(*ast.Ident); ok {
				found[name.Name] = true
			}
			return true
		})
		break
	}
	return found
}

// edit is a change of text at an offset.
type edit struct {
	at, end int
	text    string
}

// instrumented makes names of earlier variables what they point to, keeps variables that the cell
// makes, lets loops be stopped, and imports what is used of imports.
func instrumented(source string, pointers, imports map[string]string) (string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, 0)
	if err != nil {
		return "", err
	}
	offset := func(at token.Pos) int { return files.PositionFor(at, false).Offset }
	var edits []edit
	used := map[string]string{}
	for _, name := range file.Unresolved {
		if _, ok := pointers[name.Name]; ok {
			edits = append(edits, edit{offset(name.Pos()), offset(name.End()), "(*k__p_" + name.Name + ")"})
		} else if from, ok := imports[name.Name]; ok {
			used[name.Name] = from
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		var body *ast.BlockStmt
		switch node := node.(type) {
		case *ast.ForStmt:
			body = node.Body
		case *ast.RangeStmt:
			body = node.Body
		case *ast.FuncDecl:
			if node.Name.Name == "k__run" && node.Recv == nil {
				edits = append(edits, kept(node.Body.List, offset)...)
			}
		}
		if body != nil {
			at := offset(body.Lbrace) + 1
			edits = append(edits, edit{at, at, " k__stopped(); "})
		}
		return true
	})
	for _, spec := range file.Imports { // a type of an earlier variable was spelled with it
		delete(used, spec.Name.Name)
	}
	top := strings.Index(source, importMark) + len(importMark)
	edits = append(edits, edit{top, top, importLines(used)})
	sort.SliceStable(edits, func(i, j int) bool { return edits[i].at > edits[j].at })
	for _, e := range edits {
		source = source[:e.at] + e.text + source[e.end:]
	}
	return source, nil
}

// kept notes the variables that statements at the top of a cell make, for the cells after it.
func kept(statements []ast.Stmt, offset func(token.Pos) int) []edit {
	var edits []edit
	for _, statement := range statements {
		var names []string
		switch statement := statement.(type) {
		case *ast.AssignStmt:
			for _, left := range statement.Lhs {
				if name, ok := left.(*ast.Ident); ok && statement.Tok == token.DEFINE {
					names = append(names, name.Name)
				}
			}
		case *ast.DeclStmt:
			names = declaredNames(statement.Decl)
		}
		text := ""
		for _, name := range names {
			if name != "_" {
				text += fmt.Sprintf("; K__Keep(%q, &%s)", name, name)
			}
		}
		if text != "" {
			edits = append(edits, edit{offset(statement.End()), offset(statement.End()), text})
		}
	}
	return edits
}
