package template

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"text/template/parse"
	"time"
)

// timeMethods are the methods of time.Time that templates may call without
// arguments.
var timeMethods = map[string]struct {
	kind kind
	call func(time.Time) value
}{
	"Year":       {kindInt, func(t time.Time) value { return integer(t.Year()) }},
	"Month":      {kindText, func(t time.Time) value { return text(t.Month().String()) }},
	"Day":        {kindInt, func(t time.Time) value { return integer(t.Day()) }},
	"Weekday":    {kindText, func(t time.Time) value { return text(t.Weekday().String()) }},
	"YearDay":    {kindInt, func(t time.Time) value { return integer(t.YearDay()) }},
	"Hour":       {kindInt, func(t time.Time) value { return integer(t.Hour()) }},
	"Minute":     {kindInt, func(t time.Time) value { return integer(t.Minute()) }},
	"Second":     {kindInt, func(t time.Time) value { return integer(t.Second()) }},
	"Nanosecond": {kindInt, func(t time.Time) value { return integer(t.Nanosecond()) }},
	"Unix":       {kindInt, func(t time.Time) value { return integer(int(t.Unix())) }},
	"UnixMilli":  {kindInt, func(t time.Time) value { return integer(int(t.UnixMilli())) }},
	"UnixMicro":  {kindInt, func(t time.Time) value { return integer(int(t.UnixMicro())) }},
	"UnixNano":   {kindInt, func(t time.Time) value { return integer(int(t.UnixNano())) }},
	"IsZero":     {kindBool, func(t time.Time) value { return truth(t.IsZero()) }},
	"UTC":        {kindTime, func(t time.Time) value { return moment(t.UTC()) }},
	"Local":      {kindTime, func(t time.Time) value { return moment(t.Local()) }},
	"String":     {kindText, func(t time.Time) value { return text(t.String()) }},
}

const methodFormat = "Format"

func integer(n int) value { return value{kind: kindInt, n: n} }

// timeParts resolves the methods called on a time: .RequestReceived.UTC.Year.
func timeParts(of argument, names []string) (argument, *problem) {
	for _, name := range names {
		if of.kind != kindTime {
			return argument{}, otherProblem(of.at, ".%s: a single value has no fields", name)
		}
		m, ok := timeMethods[name]
		if !ok {
			if name == methodFormat {
				return argument{}, otherProblem(of.at, `Format needs a layout, such as .Format "2006-01-02 15:04"`)
			}
			return argument{}, otherProblem(of.at, "a time has no %s; it has %s and Format", name,
				strings.Join(slices.Sorted(maps.Keys(timeMethods)), ", "))
		}
		inner := of.expr
		of.expr = func(e *evaluation, dot value) value { return m.call(inner(e, dot).t) }
		of.kind = m.kind
	}
	return of, nil
}

// method compiles a command that begins with a value: the value alone, or
// Format of a time with its layout.
func (c *compiler) method(n *parse.CommandNode, dot kind, last *argument) (expr, kind, *problem) {
	first := n.Args[0]
	if len(n.Args) == 1 && last == nil {
		a, p := c.operand(first, dot)
		return a.expr, a.kind, p
	}
	on := beforeFormat(first)
	if on == nil {
		return nil, 0, otherProblem(int(first.Position()), "%s is not a function and takes no arguments", first)
	}
	of, p := c.operand(on, dot)
	if p != nil {
		return nil, 0, p
	}
	if of.kind != kindTime {
		return nil, 0, otherProblem(of.at, "%s is not a time: Format cannot be called on it", on)
	}
	args, p := c.arguments(n, dot, last)
	if p != nil {
		return nil, 0, p
	}
	e, err := format(of, args)
	if err != nil {
		return nil, 0, otherProblem(of.at, "Format %s", err)
	}
	return e, kindText, nil
}

// beforeFormat returns x of x.Format, or nil for other nodes.
func beforeFormat(node parse.Node) parse.Node {
	var names []string
	switch n := node.(type) {
	case *parse.FieldNode:
		names = n.Ident
	case *parse.VariableNode:
		names = n.Ident[1:]
	case *parse.ChainNode:
		names = n.Field
	}
	if len(names) == 0 || names[len(names)-1] != methodFormat {
		return nil
	}
	names = names[:len(names)-1]
	switch n := node.(type) {
	case *parse.FieldNode:
		if len(names) == 0 { // inside with
			return &parse.DotNode{NodeType: parse.NodeDot, Pos: n.Pos}
		}
		return &parse.FieldNode{NodeType: parse.NodeField, Pos: n.Pos, Ident: names}
	case *parse.VariableNode:
		return &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Pos, Ident: append([]string{n.Ident[0]}, names...)}
	case *parse.ChainNode:
		if len(names) == 0 {
			return n.Node
		}
		return &parse.ChainNode{NodeType: parse.NodeChain, Pos: n.Pos, Node: n.Node, Field: names}
	}
	return nil
}

// format calls time.Time.Format. The result is a small multiple of the layout.
func format(of argument, args []argument) (expr, error) {
	if err := count(args, 1, 1); err != nil {
		return nil, err
	}
	if k := args[0].kind; !k.isString() {
		return nil, errors.New("needs its layout as a string")
	}
	return func(e *evaluation, dot value) value {
		layout := args[0].expr(e, dot).s
		if !e.spend(len(layout)) {
			return text("")
		}
		return text(of.expr(e, dot).t.Format(layout))
	}, nil
}
