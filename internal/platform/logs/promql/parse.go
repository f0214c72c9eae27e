package promql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Query is a parsed query.
type Query struct {
	root node
	// sources are the values of source_id in its selectors.
	sources []string
}

// Sources returns the source ids that the query reads.
func (q *Query) Sources() []string { return q.sources }

// Matcher selects series by a label.
type Matcher struct {
	Label, Value string
	not          bool
	pattern      *regexp.Regexp // nil compares the value
}

// Matches reports whether a value of the label matches.
func (m *Matcher) Matches(value string) bool {
	if m.pattern != nil {
		return m.pattern.MatchString(value) != m.not
	}
	return (m.Value == value) != m.not
}

type node interface{}

type (
	literal  float64
	selector struct {
		name     string
		source   string
		matchers []Matcher
		span     time.Duration // 0 for an instant vector
		offset   time.Duration
	}
	call struct {
		name string
		args []node
	}
	aggregate struct {
		name    string
		of      node
		labels  []string
		without bool
		all     bool // neither by nor without
	}
	binary struct {
		op          string
		left, right node
		boolean     bool
	}
	negative struct{ of node }
)

type parser struct {
	tokens []lexeme
	at     int
	depth  int
	query  *Query
}

// maxDepth limits nesting.
const maxDepth = 50

// Parse parses a query. Its error is a message for users.
func Parse(text string) (*Query, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, query: &Query{}}
	if p.query.root, err = p.expression(0); err != nil {
		return nil, err
	}
	if p.peek().kind != end {
		return nil, p.unexpected("after the expression")
	}
	if s, ok := p.query.root.(*selector); ok && s.span > 0 {
		return nil, fmt.Errorf("invalid expression type \"range vector\" for a query, must be Scalar or instant Vector")
	}
	if len(p.query.sources) == 0 {
		return nil, fmt.Errorf("query does not request any source_ids")
	}
	return p.query, nil
}

func (p *parser) peek() lexeme { return p.tokens[p.at] }

func (p *parser) next() lexeme {
	t := p.tokens[p.at]
	if t.kind != end {
		p.at++
	}
	return t
}

func (p *parser) is(m string) bool { return p.peek().kind == mark && p.peek().text == m }

func (p *parser) accept(m string) bool {
	if p.is(m) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(m, where string) error {
	if !p.accept(m) {
		return p.unexpected(where + ", expected " + m)
	}
	return nil
}

func (p *parser) unexpected(where string) error {
	return fmt.Errorf("parse error at char %d: unexpected %q %s", p.peek().at+1, p.peek().text, where)
}

var precedence = map[string]int{
	"==": 1, "!=": 1, ">": 1, "<": 1, ">=": 1, "<=": 1, "+": 2, "-": 2, "*": 3, "/": 3, "%": 3, "^": 4,
}

// expression parses binary operators that bind more tightly than a level.
func (p *parser) expression(level int) (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("parse error: the query is nested too deeply")
	}
	defer func() { p.depth-- }()
	left, err := p.unary()
	for err == nil {
		op := p.peek()
		binds := precedence[op.text]
		if op.kind != mark || binds <= level {
			break
		}
		p.at++
		b := &binary{op: op.text, left: left}
		if p.peek().kind == word && p.peek().text == "bool" {
			p.at++
			b.boolean = true
		}
		if op.text == "^" {
			binds-- // right-associative
		}
		b.right, err = p.expression(binds)
		left = b
	}
	return left, err
}

func (p *parser) unary() (node, error) {
	if p.accept("+") {
		return p.unary()
	}
	if p.accept("-") {
		if p.depth++; p.depth > maxDepth {
			return nil, fmt.Errorf("parse error: the query is nested too deeply")
		}
		defer func() { p.depth-- }()
		of, err := p.expression(3)
		return &negative{of}, err
	}
	t := p.next()
	switch {
	case t.kind == number:
		return literal(t.num), nil
	case t.kind == mark && t.text == "(":
		inner, err := p.expression(0)
		if err == nil {
			err = p.expect(")", "in an expression")
		}
		return inner, err
	case t.kind == mark && t.text == "{":
		p.at--
		return p.selector("")
	case t.kind == word && aggregations[t.text] && (p.is("(") || p.peek().text == "by" || p.peek().text == "without"):
		return p.aggregate(t.text)
	case t.kind == word && p.is("("):
		return p.call(t)
	case t.kind == word:
		return p.selector(t.text)
	}
	p.at = max(p.at-1, 0)
	return nil, p.unexpected("in an expression")
}

var aggregations = map[string]bool{"sum": true, "avg": true, "min": true, "max": true, "count": true}

func (p *parser) aggregate(name string) (node, error) {
	a := &aggregate{name: name, all: true}
	grouping := func() error {
		t := p.peek()
		if t.kind != word || t.text != "by" && t.text != "without" || !a.all {
			return nil
		}
		p.at++
		a.all, a.without = false, t.text == "without"
		if err := p.expect("(", "in a grouping"); err != nil {
			return err
		}
		for !p.accept(")") {
			l := p.next()
			if l.kind != word {
				p.at--
				return p.unexpected("in a grouping")
			}
			a.labels = append(a.labels, l.text)
			if !p.is(")") {
				if err := p.expect(",", "in a grouping"); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := grouping()
	if err == nil {
		err = p.expect("(", "in an aggregation")
	}
	if err == nil {
		a.of, err = p.expression(0)
	}
	if err == nil {
		err = p.expect(")", "in an aggregation")
	}
	if err == nil {
		err = grouping()
	}
	if err == nil {
		err = instant(a.of, name)
	}
	return a, err
}

func (p *parser) call(name lexeme) (node, error) {
	over, known := functions[name.text]
	if !known {
		return nil, fmt.Errorf("parse error at char %d: unknown function with name %q", name.at+1, name.text)
	}
	p.at++
	c := &call{name: name.text}
	arg, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if err := p.expect(")", "in a call of "+name.text+", which takes one argument"); err != nil {
		return nil, err
	}
	s, isSelector := arg.(*selector)
	if isRange := isSelector && s.span > 0; isRange != over {
		want := map[bool]string{true: "range vector", false: "instant vector"}
		return nil, fmt.Errorf("parse error: expected type %s in call to function %q, got %s", want[over], name.text,
			want[isRange])
	}
	c.args = []node{arg}
	return c, nil
}

// instant returns an error if a node is a range vector.
func instant(n node, where string) error {
	if s, ok := n.(*selector); ok && s.span > 0 {
		return fmt.Errorf("parse error: expected type instant vector in %s, got range vector", where)
	}
	return nil
}

func (p *parser) selector(name string) (node, error) {
	s := &selector{name: name}
	if p.accept("{") {
		for !p.accept("}") {
			m, err := p.matcher()
			if err != nil {
				return nil, err
			}
			switch {
			case m.Label == "__name__" && m.pattern == nil && !m.not:
				s.name = m.Value
			case m.Label == "source_id" && m.pattern == nil && !m.not:
				s.source = m.Value
			default:
				s.matchers = append(s.matchers, m)
			}
			if !p.is("}") {
				if err := p.expect(",", "in label matching"); err != nil {
					return nil, err
				}
			}
		}
	}
	if s.name == "" {
		return nil, fmt.Errorf("parse error: a selector needs the name of a metric")
	}
	if s.source == "" {
		return nil, //nolint:revive,staticcheck // log-cache's words
			fmt.Errorf("Metric '%s' does not have a 'source_id' label.", s.name)
	}
	if !slices.Contains(p.query.sources, s.source) {
		p.query.sources = append(p.query.sources, s.source)
	}
	return s, p.modifiers(s)
}

// modifiers parses the range and the offset of a selector.
func (p *parser) modifiers(s *selector) error {
	span := func() (time.Duration, error) {
		t := p.next()
		if t.kind != duration {
			p.at--
			return 0, p.unexpected("where a duration is expected")
		}
		return t.span, nil
	}
	var err error
	if p.accept("[") {
		if s.span, err = span(); err != nil {
			return err
		}
		if err := p.expect("]", "in a range"); err != nil {
			return err
		}
	}
	if p.peek().kind == word && p.peek().text == "offset" {
		p.at++
		s.offset, err = span()
	}
	return err
}

func (p *parser) matcher() (Matcher, error) {
	label, op, value := p.next(), p.next(), p.next()
	if label.kind != word || op.kind != mark || value.kind != text ||
		!slices.Contains([]string{"=", "!=", "=~", "!~"}, op.text) {
		return Matcher{}, fmt.Errorf("parse error at char %d: a label matcher such as source_id=\"…\" is expected",
			label.at+1)
	}
	m := Matcher{Label: label.text, Value: value.text, not: op.text[0] == '!'}
	if strings.HasSuffix(op.text, "~") {
		var err error
		if m.pattern, err = regexp.Compile("^(?:" + value.text + ")$"); err != nil {
			return m, fmt.Errorf("parse error: %w", err)
		}
	}
	return m, nil
}
