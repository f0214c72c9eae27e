package scim

import (
	"fmt"
	"strconv"
	"strings"
)

// Expr is a node of a parsed filter: [And], [Or], [Not] or [Compare], always as
// values and never as pointers.
type Expr interface {
	// String prints the canonical form: lower-case keywords, single spaces,
	// double-quoted strings and no needless parentheses. Parsing it gives the
	// same tree again, as long as it keeps within the package's bounds.
	String() string

	isExpr()
}

// And is true when both sides are.
type And struct{ Left, Right Expr }

// Or is true when at least one side is.
type Or struct{ Left, Right Expr }

// Not is true when X is false.
type Not struct{ X Expr }

// Compare is one test of one attribute.
type Compare struct {
	// Attr is the attribute's name in lower case.
	Attr string
	Op   Op
	// Value is what the attribute is compared with; nil when Op is [Pr].
	Value Value
}

// Value is the right-hand side of a comparison. It holds a string, a bool, a
// float64, or nil for null.
type Value any

func (And) isExpr()     {}
func (Or) isExpr()      {}
func (Not) isExpr()     {}
func (Compare) isExpr() {}

func (e And) String() string     { return format(e) }
func (e Or) String() string      { return format(e) }
func (e Not) String() string     { return format(e) }
func (e Compare) String() string { return format(e) }

// Op is a comparison operator.
type Op uint8

// The operators. The zero Op is none of them.
const (
	Eq Op = iota + 1 // equal
	Ne               // not equal
	Co               // contains
	Sw               // starts with
	Ew               // ends with
	Gt               // greater than
	Ge               // greater than or equal
	Lt               // less than
	Le               // less than or equal
	Pr               // present: has a value
)

var opNames = [...]string{
	Eq: "eq", Ne: "ne", Co: "co", Sw: "sw", Ew: "ew",
	Gt: "gt", Ge: "ge", Lt: "lt", Le: "le", Pr: "pr",
}

// String returns the operator as filters spell it.
func (o Op) String() string {
	if o.valid() {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

func (o Op) valid() bool { return o >= Eq && o <= Pr }

// searches reports whether the operator looks for a part of a text.
func (o Op) searches() bool { return o == Co || o == Sw || o == Ew }

// opNamed finds an operator by its lower-case name.
func opNamed(name string) (Op, bool) {
	for op := Eq; op <= Pr; op++ {
		if opNames[op] == name {
			return op, true
		}
	}
	return 0, false
}

// How tightly each kind of node binds. A child that binds less tightly than its
// parent requires is printed in parentheses.
const (
	bindOr = iota
	bindAnd
	bindAtom
)

func format(e Expr) string {
	var b strings.Builder
	writeExpr(&b, e, bindOr)
	return b.String()
}

func writeExpr(b *strings.Builder, e Expr, parent int) {
	switch e := e.(type) {
	case Or:
		writeChain(b, e.Left, " or ", e.Right, bindOr, parent)
	case And:
		writeChain(b, e.Left, " and ", e.Right, bindAnd, parent)
	case Not:
		b.WriteString("not (")
		writeExpr(b, e.X, bindOr)
		b.WriteByte(')')
	case Compare:
		b.WriteString(e.Attr)
		b.WriteByte(' ')
		b.WriteString(e.Op.String())
		if e.Op != Pr {
			b.WriteByte(' ')
			writeValue(b, e.Value)
		}
	default:
		fmt.Fprintf(b, "<%T>", e)
	}
}

// writeChain prints a two-sided node. Chains lean left when parsed, so only the
// right side must bind tighter than the node itself.
func writeChain(b *strings.Builder, left Expr, word string, right Expr, bind, parent int) {
	if bind < parent {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	writeExpr(b, left, bind)
	b.WriteString(word)
	writeExpr(b, right, bind+1)
}

func writeValue(b *strings.Builder, v Value) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case float64:
		b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	case string:
		writeString(b, v)
	default:
		fmt.Fprintf(b, "<%T>", v)
	}
}

// writeString prints a JSON string that leaves everything but quotes,
// backslashes and control characters as it is.
func writeString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ':
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// lowerASCII lowers A to Z and nothing else, as SQLite's LOWER and PostgreSQL's
// LOWER under COLLATE "C" do.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}
