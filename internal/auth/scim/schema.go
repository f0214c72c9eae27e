package scim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind says how a column stores its attribute and how it is compared.
type Kind uint8

// The kinds of column.
const (
	// Text compares exactly, byte by byte.
	Text Kind = iota
	// TextFold compares with A to Z taken as a to z, and is otherwise like Text.
	TextFold
	// Bool is a boolean; on SQLite the integers 0 and 1.
	Bool
	// Time is an integer: nanoseconds since the start of 1970, UTC. Filters
	// write it as an RFC 3339 string.
	Time
)

// String names the kind as error messages do.
func (k Kind) String() string {
	switch k {
	case Text, TextFold:
		return "text"
	case Bool:
		return "boolean"
	case Time:
		return "time"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Column says where an attribute is stored.
type Column struct {
	// SQL is the column's name or an expression in parentheses. It goes into
	// the statement as it stands, perhaps twice, so it must be the program's own
	// text and hold no placeholders.
	SQL  string
	Kind Kind
}

// Schema lists the attributes that filters on one resource type may use, by
// lower-case name.
type Schema map[string]Column

// AttributeError reports a filter on an attribute that the schema lacks.
type AttributeError struct {
	Attr  string
	Known []string // what the schema has, sorted
}

func (e *AttributeError) Error() string {
	return fmt.Sprintf("unknown attribute %s: a filter here may use %s", quote(e.Attr), strings.Join(e.Known, ", "))
}

// ValueError reports an operator or a value that does not suit its attribute.
type ValueError struct {
	Attr string
	Msg  string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("attribute %s: %s", quote(e.Attr), e.Msg)
}

func valueErrorf(attr, format string, args ...any) error {
	return &ValueError{Attr: attr, Msg: fmt.Sprintf(format, args...)}
}

func errBadNode(e Expr) error { return fmt.Errorf("scim: a filter cannot hold a node of type %T", e) }

// Where compiles a filter to a SQL condition with `?` placeholders, and the
// arguments for them in order: strings, bools and int64s.
//
// The condition may stand beside others joined with AND and OR. It selects the
// right rows but, like any SQL, may be NULL rather than false for the rest, so
// negate the filter with [Not] and not the SQL with NOT.
//
// Comparisons of one column for equality, joined by "or", become one IN list.
//
// The error is an *[AttributeError] or a *[ValueError] when the filter does not
// fit the schema.
func (s Schema) Where(e Expr) (sql string, args []any, err error) {
	c := compiler{schema: s}
	if err := c.expr(signed{expr: e}); err != nil {
		return "", nil, err
	}
	return c.sql.String(), c.args, nil
}

// compiler writes a condition. It pushes every negation down to the
// comparisons: there it can say what becomes of NULL, which SQL's NOT cannot.
type compiler struct {
	schema Schema
	sql    strings.Builder
	args   []any
}

// signed is a node with the negations around it.
type signed struct {
	expr   Expr
	negate bool
}

func (c *compiler) expr(s signed) error {
	switch e := s.expr.(type) {
	case Not:
		return c.expr(signed{e.X, !s.negate})
	case Compare:
		t, err := c.schema.test(e, s.negate)
		if err != nil {
			return err
		}
		c.test(t)
		return nil
	case And:
		return c.chain(s, s.negate) // "not (a and b)" is "not a or not b"
	case Or:
		return c.chain(s, !s.negate)
	default:
		return errBadNode(e)
	}
}

// chain writes a run of terms that are all joined by OR, or all by AND.
func (c *compiler) chain(s signed, or bool) error {
	// A term is a single test, or a chain of the other kind if test is nil.
	type term struct {
		test  *test
		chain signed
	}
	var terms []term
	equals := map[Column]*test{}
	for _, s := range flatten(s, or, nil) {
		cmp, ok := s.expr.(Compare)
		if !ok {
			terms = append(terms, term{chain: s})
			continue
		}
		t, err := c.schema.test(cmp, s.negate)
		if err != nil {
			return err
		}
		// a = 1 OR a = 2 is a IN (1, 2); a <> 1 AND a <> 2 is a NOT IN (1, 2).
		if t.op == Eq && t.negate != or {
			if list := equals[t.column]; list != nil {
				list.add(t.args[0])
				continue
			}
			equals[t.column] = t
		}
		terms = append(terms, term{test: t})
	}

	if len(terms) > 1 {
		c.sql.WriteByte('(')
		defer c.sql.WriteByte(')')
	}
	for i, t := range terms {
		switch {
		case i == 0:
		case or:
			c.sql.WriteString(" OR ")
		default:
			c.sql.WriteString(" AND ")
		}
		if t.test != nil {
			c.test(t.test)
			continue
		}
		if err := c.expr(t.chain); err != nil {
			return err
		}
	}
	return nil
}

// flatten appends to out the terms of the chain that s is, looking through
// nested chains of the same kind and through negations.
func flatten(s signed, or bool, out []signed) []signed {
	switch e := s.expr.(type) {
	case Not:
		return flatten(signed{e.X, !s.negate}, or, out)
	case And:
		if s.negate == or {
			out = flatten(signed{e.Left, s.negate}, or, out)
			return flatten(signed{e.Right, s.negate}, or, out)
		}
	case Or:
		if s.negate != or {
			out = flatten(signed{e.Left, s.negate}, or, out)
			return flatten(signed{e.Right, s.negate}, or, out)
		}
	}
	return append(out, s)
}

// test is a comparison made ready for SQL.
type test struct {
	column Column
	op     Op // never Ne, which is Eq negated
	negate bool
	args   []any // none for Pr, one otherwise, or several for Eq

	seen map[any]bool // the args, once there are several
}

// add makes the test accept one more value.
func (t *test) add(arg any) {
	if t.seen == nil {
		t.seen = map[any]bool{t.args[0]: true}
	}
	if !t.seen[arg] {
		t.seen[arg] = true
		t.args = append(t.args, arg)
	}
}

func (s Schema) test(c Compare, negate bool) (*test, error) {
	col, ok := s[lowerASCII(c.Attr)]
	if !ok {
		return nil, &AttributeError{Attr: c.Attr, Known: slices.Sorted(maps.Keys(s))}
	}
	arg, err := operand(c, col.Kind)
	if err != nil {
		return nil, err
	}
	op, negate := simplify(c, negate)
	t := &test{column: col, op: op, negate: negate}
	if op != Pr {
		t.args = []any{arg}
	}
	return t, nil
}

// simplify expresses Ne, and comparisons with null, through Eq and Pr.
func simplify(c Compare, negate bool) (Op, bool) {
	op := c.Op
	if op == Ne {
		op, negate = Eq, !negate
	}
	if op == Eq && c.Value == nil {
		op, negate = Pr, !negate
	}
	return op, negate
}

// SQL's operators, plain and negated.
var sqlOps = [...][2]string{
	Eq: {"=", "<>"},
	Gt: {">", "<="},
	Ge: {">=", "<"},
	Lt: {"<", ">="},
	Le: {"<=", ">"},
	Co: {"LIKE", "NOT LIKE"},
	Sw: {"LIKE", "NOT LIKE"},
	Ew: {"LIKE", "NOT LIKE"},
}

func (c *compiler) test(t *test) {
	w := &c.sql
	col := t.column.SQL
	if t.op == Pr {
		w.WriteString(col)
		if t.negate {
			w.WriteString(" IS NULL")
		} else {
			w.WriteString(" IS NOT NULL")
		}
		return
	}

	if t.negate {
		w.WriteByte('(')
	}
	if t.column.Kind == TextFold {
		w.WriteString("LOWER(" + col + ")")
	} else {
		w.WriteString(col)
	}
	switch {
	case len(t.args) == 1:
		sign := sqlOps[t.op][0]
		if t.negate {
			sign = sqlOps[t.op][1]
		}
		w.WriteString(" " + sign + " ?")
	case t.negate:
		w.WriteString(" NOT IN (?" + strings.Repeat(",?", len(t.args)-1) + ")")
	default:
		w.WriteString(" IN (?" + strings.Repeat(",?", len(t.args)-1) + ")")
	}
	if t.op.searches() {
		w.WriteString(` ESCAPE '\'`)
		c.args = append(c.args, pattern(t.op, t.args[0]))
	} else {
		c.args = append(c.args, t.args...)
	}
	if t.negate {
		w.WriteString(" OR " + col + " IS NULL)")
	}
}

var escapeLike = strings.NewReplacer(`%`, `\%`, `_`, `\_`, `\`, `\\`)

// pattern makes the LIKE pattern for a text operator.
func pattern(op Op, arg any) string {
	s, _ := arg.(string) // operand lets nothing else through
	s = escapeLike.Replace(s)
	if op != Sw {
		s = "%" + s
	}
	if op != Ew {
		s += "%"
	}
	return s
}

// operand checks that an attribute of the given kind may be compared so, and
// returns the value to compare it with in the form columns of that kind hold:
// a string (lowered for TextFold), a bool or an int64, or nil if there is none.
func operand(c Compare, kind Kind) (any, error) {
	if !c.Op.valid() {
		return nil, valueErrorf(c.Attr, "%s is not an operator", c.Op)
	}
	if c.Op == Pr {
		return nil, nil
	}
	if c.Value == nil {
		if c.Op != Eq && c.Op != Ne {
			return nil, valueErrorf(c.Attr, `null can be compared with "eq" and "ne" only, not with %q`, c.Op)
		}
		return nil, nil
	}

	switch kind {
	case Text, TextFold:
		s, ok := c.Value.(string)
		if !ok {
			return nil, valueErrorf(c.Attr, "expected a string in quotes, found %s", describe(c.Value))
		}
		if kind == TextFold {
			s = lowerASCII(s)
		}
		return s, nil
	case Bool:
		b, ok := c.Value.(bool)
		if !ok {
			return nil, valueErrorf(c.Attr, "expected true or false, found %s", describe(c.Value))
		}
		if c.Op != Eq && c.Op != Ne {
			return nil, valueErrorf(c.Attr, `a boolean can be compared with "eq" and "ne" only, not with %q`, c.Op)
		}
		return b, nil
	case Time:
		if c.Op.searches() {
			return nil, valueErrorf(c.Attr, "a time cannot be compared with %q", c.Op)
		}
		s, ok := c.Value.(string)
		if !ok {
			return nil, valueErrorf(c.Attr, "expected a time in quotes, found %s", describe(c.Value))
		}
		n, err := nanoseconds(s)
		if err != nil {
			return nil, valueErrorf(c.Attr, "%v", err)
		}
		return n, nil
	default:
		return nil, fmt.Errorf("scim: attribute %q has the unknown kind %s", c.Attr, kind)
	}
}

// describe names a value's type for an error message.
func describe(v Value) string {
	switch v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case float64:
		return "a number"
	default:
		return fmt.Sprintf("a %T", v)
	}
}

// nanoseconds converts an RFC 3339 time.
func nanoseconds(s string) (int64, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0, fmt.Errorf("%s is not a time such as 2026-01-31T12:00:00.000Z", quote(s))
	}
	n := t.UnixNano()
	if !time.Unix(0, n).Equal(t) {
		return 0, errors.New("the time lies outside the years 1678 to 2261")
	}
	return n, nil
}
