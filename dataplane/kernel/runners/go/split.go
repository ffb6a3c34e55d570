// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// declaration is something at the top of a cell that is not run: a type, a function, constants.
type declaration struct {
	names  []string // what it declares; a method declares its receiver's type and a dot before its name
	source string   // with a line directive
}

// parts is a cell, taken apart.
type parts struct {
	imports      map[string]string // path by name
	declarations []declaration
	variables    []declaration // var at the top, which functions of the same cell may use
	statements   []string
	hasValue     bool // the last statement is an expression
	hasMain      bool
}

// split takes a cell apart at the line feeds and semicolons that are in no bracket.
func split(code, name string) (*parts, error) {
	made := &parts{imports: map[string]string{}}
	chunks, err := chunksOf(code, name)
	if err != nil {
		return nil, err
	}
	for i, chunk := range chunks {
		source := fmt.Sprintf("//line %s:%d\n%s\n", name, chunk.line, chunk.text)
		switch {
		case chunk.first == token.PACKAGE:
		case chunk.first == token.IMPORT:
			err = made.addImport(chunk.text)
		case chunk.first == token.TYPE || chunk.first == token.CONST || chunk.first == token.FUNC && chunk.isDeclared:
			err = made.addDeclaration(source)
		case chunk.first == token.VAR:
			err = made.addVariable(source)
		default:
			made.statements = append(made.statements, source)
			_, notExpression := parser.ParseExpr(chunk.text)
			made.hasValue = notExpression == nil && i == len(chunks)-1
		}
		if err != nil {
			return nil, err
		}
	}
	return made, nil
}

// chunk is a piece of a cell between two semicolons, of which most are line feeds.
type chunk struct {
	text       string
	line       int
	first      token.Token
	isDeclared bool // a function with a name
}

func chunksOf(code, name string) ([]chunk, error) {
	files := token.NewFileSet()
	file := files.AddFile(name, -1, len(code))
	var problems scanner.ErrorList
	var in scanner.Scanner
	in.Init(file, []byte(code), func(at token.Position, message string) { problems.Add(at, message) }, 0)
	var chunks []chunk
	var tokens []token.Token
	begin, depth := -1, 0
	for {
		at, kind, _ := in.Scan()
		offset := file.Offset(at)
		if depth <= 0 && begin >= 0 && (kind == token.SEMICOLON || kind == token.EOF) {
			text := code[begin:min(offset, len(code))]
			chunks = append(chunks, chunk{text, file.Line(file.Pos(begin)), tokens[0], isNamedFunction(tokens)})
			begin, tokens = -1, nil
		}
		if kind == token.EOF {
			break
		}
		if kind == token.SEMICOLON && begin < 0 {
			continue
		}
		if begin < 0 {
			begin = offset
		}
		tokens = append(tokens, kind)
		switch kind {
		case token.LPAREN, token.LBRACE, token.LBRACK:
			depth++
		case token.RPAREN, token.RBRACE, token.RBRACK:
			depth--
		}
	}
	if begin >= 0 {
		problems.Add(file.Position(file.Pos(len(code))), "the code ends too early: a bracket is open")
	}
	return chunks, problems.Err()
}

// isNamedFunction tells func f() and func (r T) f() from a function that is a value.
func isNamedFunction(tokens []token.Token) bool {
	if len(tokens) < 2 || tokens[0] != token.FUNC || tokens[1] == token.IDENT {
		return len(tokens) > 1 && tokens[1] == token.IDENT
	}
	depth := 0
	for i, kind := range tokens[1:] {
		switch kind {
		case token.LPAREN:
			depth++
		case token.RPAREN:
			depth--
		}
		if depth == 0 {
			rest := tokens[i+2:]
			return len(rest) > 1 && rest[0] == token.IDENT && rest[1] == token.LPAREN
		}
	}
	return false
}

func parseTop(source string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", "package main\n"+source, parser.SkipObjectResolution)
}

var version = regexp.MustCompile(`^v[0-9]+$`)

func (p *parts) addImport(text string) error {
	file, err := parseTop(text)
	if err != nil {
		return err
	}
	for _, spec := range file.Imports {
		from, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		name := path.Base(from)
		if version.MatchString(name) && path.Dir(from) != "." {
			name = path.Base(path.Dir(from))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		p.imports[name] = from
	}
	return nil
}

func (p *parts) addDeclaration(source string) error {
	file, err := parseTop(source)
	if err != nil {
		return err
	}
	made := declaration{source: source}
	for _, one := range file.Decls {
		made.names = append(made.names, declaredNames(one)...)
	}
	p.hasMain = p.hasMain || made.names[0] == "main"
	p.declarations = append(p.declarations, made)
	return nil
}

func (p *parts) addVariable(source string) error {
	file, err := parseTop(source)
	if err != nil {
		return err
	}
	p.variables = append(p.variables, declaration{names: declaredNames(file.Decls[0]), source: source})
	p.statements = append(p.statements, source) // program decides which of the two it is
	return nil
}

func declaredNames(one ast.Decl) []string {
	var names []string
	switch one := one.(type) {
	case *ast.FuncDecl:
		if one.Recv != nil && len(one.Recv.List) == 1 {
			return []string{receiver(one.Recv.List[0].Type) + "." + one.Name.Name}
		}
		return []string{one.Name.Name}
	case *ast.GenDecl:
		for _, spec := range one.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// receiver is the name of the type that a method belongs to.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return strings.TrimSpace(fmt.Sprint(of))
}
