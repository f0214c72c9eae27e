package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"text/template/parse"
)

// program is a compiled part of a template: a tree of steps. It has no recursion, and its loops
// have a common limit (maxRounds).
type program struct {
	steps []step
	used  map[string]bool
	// linkComputed and localized: see compiler.
	linkComputed, localized bool
}

// step is one of: text, show (print), a choice, a loop, or a partial.
type step struct {
	text   string
	show   expr
	choose *choice
	repeat *loop
	insert *insertion
}

type loop struct {
	over            expr
	each, otherwise []step
}

type choice struct {
	cond            expr
	with            bool // the condition becomes the dot of then
	then, otherwise []step
}

// expr gives a value. dot is the value of the innermost with or range.
type expr func(e *evaluation, dot value) value

// compilePart compiles one of a template's three sources.
func compilePart(source string, partials partialSources) (*program, *problem) {
	trees, p := parseSource(source)
	if p != nil {
		return nil, p
	}
	c := &compiler{used: map[string]bool{}, partials: partials}
	steps, p := c.whole(source, trees, kindRoot)
	if p != nil {
		return nil, p
	}
	return &program{steps, c.used, c.linkComputed, c.localized}, nil
}

// parseSource returns the tree of a source, named "", and those that it defines.
func parseSource(source string) (map[string]*parse.Tree, *problem) {
	actions, p := scan(source)
	if p != nil {
		return nil, p
	}
	trees, err := parseTrees(source)
	if err != nil {
		return nil, locate(source, actions, err)
	}
	return trees, nil
}

func parseTrees(source string) (map[string]*parse.Tree, error) {
	// Functions are checked later, with their position.
	t := parse.New("")
	t.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	made, err := t.Parse(source, "", "", trees)
	if err == nil {
		trees[""] = made
	}
	return trees, err
}

// locate finds the action that the parser rejects: the first one with which the
// source up to it cannot be parsed for another reason than a missing end.
func locate(source string, actions []action, err error) *problem {
	i := sort.Search(len(actions), func(i int) bool {
		_, err := parseTrees(source[:actions[i].end])
		return err != nil && !strings.Contains(err.Error(), "unexpected EOF")
	})
	at := 0
	if i < len(actions) {
		at = actions[i].at
		_, err = parseTrees(source[:actions[i].end])
	}
	return syntaxProblem(at, "%s", reason(err))
}

// reason returns the parser's message without the position, which is less exact
// than that of locate.
func reason(err error) string {
	what := strings.TrimPrefix(err.Error(), "template: ")
	if rest, ok := strings.CutPrefix(what, ":"); ok {
		if _, after, found := strings.Cut(rest, ": "); found {
			what = after
		}
	}
	return what
}

type compiler struct {
	used map[string]bool
	// linkComputed: a function gets .UnsubscribeURL as argument, so a mark cannot
	// replace it.
	linkComputed bool
	localized    bool // a function's result depends on the recipient's language

	partials partialSources
	scopes   []*scope
	inside   []string // the names of the definitions that are being compiled
	inserted int      // actions of partials
	bytes    int      // of text, and of partials' sources
}

func (c *compiler) list(l *parse.ListNode, dot kind) ([]step, *problem) {
	if l == nil {
		return nil, nil
	}
	var out []step
	for _, n := range l.Nodes {
		if p := c.count(n); p != nil {
			return nil, p
		}
		switch n := n.(type) {
		case *parse.TextNode:
			if p := c.grow(len(n.Text), int(n.Pos)); p != nil {
				return nil, p
			}
			out = append(out, step{text: string(n.Text)})
		case *parse.CommentNode:
		case *parse.ActionNode:
			e, k, p := c.pipe(n.Pipe, dot)
			if p != nil {
				return nil, p
			}
			if k == kindRoot || k == kindComponents {
				return nil, otherProblem(int(n.Pos), "%s has several values: name the one to show", n.Pipe)
			}
			out = append(out, step{show: e})
		case *parse.IfNode:
			s, p := c.choice(&n.BranchNode, dot, false)
			if p != nil {
				return nil, p
			}
			out = append(out, s)
		case *parse.WithNode:
			s, p := c.choice(&n.BranchNode, dot, true)
			if p != nil {
				return nil, p
			}
			out = append(out, s)
		case *parse.RangeNode:
			s, p := c.loop(&n.BranchNode, dot)
			if p != nil {
				return nil, p
			}
			out = append(out, s)
		case *parse.TemplateNode:
			s, p := c.insertion(n, dot)
			if p != nil {
				return nil, p
			}
			out = append(out, s)
		default:
			return nil, otherProblem(int(n.Position()), "%s is not available here", n)
		}
	}
	return out, nil
}

func (c *compiler) choice(n *parse.BranchNode, dot kind, with bool) (step, *problem) {
	cond, k, p := c.pipe(n.Pipe, dot)
	if p != nil {
		return step{}, p
	}
	if k == kindRoot || k == kindComponents {
		cond = func(*evaluation, value) value { return truth(true) }
	}
	inner := dot
	if with {
		inner = k
	}
	then, p := c.list(n.List, inner)
	if p != nil {
		return step{}, p
	}
	els, p := c.list(n.ElseList, dot)
	if p != nil {
		return step{}, p
	}
	return step{choose: &choice{cond, with, then, els}}, nil
}

func (c *compiler) loop(n *parse.BranchNode, dot kind) (step, *problem) {
	over, k, p := c.pipe(n.Pipe, dot)
	if p != nil {
		return step{}, p
	}
	if k != kindAny {
		return step{}, otherProblem(int(n.Pipe.Pos), "%s is not a list: range is for what comes from .Data", n.Pipe)
	}
	each, p := c.list(n.List, kindAny)
	if p != nil {
		return step{}, p
	}
	otherwise, p := c.list(n.ElseList, dot)
	if p != nil {
		return step{}, p
	}
	return step{repeat: &loop{over, each, otherwise}}, nil
}

// pipe compiles a | b | c: each result is the next one's last argument.
func (c *compiler) pipe(n *parse.PipeNode, dot kind) (expr, kind, *problem) {
	if len(n.Decl) > 0 {
		return nil, 0, otherProblem(int(n.Pos), "variables cannot be set here; write the value where it is shown")
	}
	var (
		e    expr
		k    kind
		last *argument
	)
	for _, cmd := range n.Cmds {
		var p *problem
		if e, k, p = c.command(cmd, dot, last); p != nil {
			return nil, 0, p
		}
		last = &argument{e, k, nil, int(cmd.Pos)}
	}
	return e, k, nil
}

// argument is a compiled operand. constant is set when it is a literal.
type argument struct {
	expr
	kind     kind
	constant *value
	at       int
}

func (c *compiler) command(n *parse.CommandNode, dot kind, last *argument) (expr, kind, *problem) {
	first := n.Args[0]
	name, isCall := first.(*parse.IdentifierNode)
	if !isCall {
		return c.method(n, dot, last)
	}
	fn, ok := functions[name.Ident]
	if !ok {
		return nil, 0, syntaxProblem(int(name.Pos), "function %q not defined; available are %s", name.Ident,
			strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
	}
	args, p := c.arguments(n, dot, last)
	if p != nil {
		return nil, 0, p
	}
	for _, a := range args {
		if a.kind == kindRoot || a.kind == kindComponents {
			return nil, 0, otherProblem(a.at, "%s cannot be given several values at once: name one", name.Ident)
		}
		c.linkComputed = c.linkComputed || a.kind == kindLink
	}
	e, k, err := fn(args)
	if err != nil {
		return nil, 0, otherProblem(int(name.Pos), "%s %s", name.Ident, err)
	}
	c.localized = c.localized || localized[name.Ident]
	return e, k, nil
}

// arguments compiles the arguments of a command; last is the result of the
// previous command of a pipe.
func (c *compiler) arguments(n *parse.CommandNode, dot kind, last *argument) ([]argument, *problem) {
	var args []argument
	for _, n := range n.Args[1:] {
		a, p := c.operand(n, dot)
		if p != nil {
			return nil, p
		}
		args = append(args, a)
	}
	if last != nil {
		args = append(args, *last)
	}
	return args, nil
}

func (c *compiler) operand(n parse.Node, dot kind) (argument, *problem) {
	at := int(n.Position())
	literal := func(v value) (argument, *problem) {
		return argument{func(*evaluation, value) value { return v }, v.kind, &v, at}, nil
	}
	switch n := n.(type) {
	case *parse.DotNode:
		return argument{func(_ *evaluation, dot value) value { return dot }, dot, nil, at}, nil
	case *parse.FieldNode:
		return c.field(at, dot, n.Ident)
	case *parse.VariableNode: // $ is the root, and there are no others
		if n.Ident[0] != "$" {
			return argument{}, otherProblem(at, "unknown variable %s", n.Ident[0])
		}
		return c.field(at, kindRoot, n.Ident[1:])
	case *parse.ChainNode:
		inner, p := c.operand(n.Node, dot)
		if p != nil {
			return argument{}, p
		}
		switch inner.kind {
		case kindTime:
			return timeParts(inner, n.Field)
		case kindAny:
			return lookup(inner, n.Field), nil
		}
		return c.field(at, inner.kind, n.Field)
	case *parse.PipeNode:
		e, k, p := c.pipe(n, dot)
		return argument{e, k, nil, at}, p
	case *parse.StringNode:
		return literal(text(n.Text))
	case *parse.BoolNode:
		return literal(truth(n.True))
	case *parse.NumberNode:
		if !n.IsInt || int64(int(n.Int64)) != n.Int64 {
			return argument{}, otherProblem(at, "%s is not an integer", n.Text)
		}
		return literal(value{kind: kindInt, n: int(n.Int64)})
	case *parse.IdentifierNode:
		e, k, p := c.command(&parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{n}}, dot, nil)
		return argument{e, k, nil, at}, p
	default:
		return argument{}, otherProblem(at, "%s is not available here", n)
	}
}

// field resolves a chain of names at compile time.
func (c *compiler) field(at int, on kind, names []string) (argument, *problem) {
	prefix := ""
	for i, name := range names {
		switch on {
		case kindRoot, kindComponents:
		case kindTime: // inside with
			return timeParts(argument{func(_ *evaluation, dot value) value { return dot }, kindTime, nil, at}, names[i:])
		case kindAny: // inside with or range
			return lookup(argument{func(_ *evaluation, dot value) value { return dot }, kindAny, nil, at}, names[i:]), nil
		default:
			return argument{}, otherProblem(at, "unknown variable .%s: a single value has no fields; inside with, write $.%s",
				strings.Join(names, "."), name)
		}
		if on == kindComponents && prefix == "" {
			prefix = components + "."
		}
		if on == kindRoot && name == components {
			on, prefix = kindComponents, components+"."
			continue
		}
		v, ok := findVariable(prefix + name)
		if !ok || on == kindRoot && strings.Contains(name, ".") {
			return argument{}, otherProblem(at, "unknown variable .%s; known are %s", prefix+name, known())
		}
		c.used[v.name] = true
		k := v.kind
		switch k {
		case kindAny:
			k = kindText
		case kindData:
			k = kindAny
		}
		found := argument{func(e *evaluation, _ value) value { return v.value(e.renderInput) }, k, nil, at}
		if i == len(names)-1 {
			return found, nil
		}
		switch k {
		case kindTime:
			return timeParts(found, names[i+1:])
		case kindAny:
			return lookup(found, names[i+1:]), nil
		}
		return argument{}, otherProblem(at, "unknown variable .%s: .%s has no fields", strings.Join(names, "."), v.name)
	}
	return argument{func(*evaluation, value) value { return truth(true) }, on, nil, at}, nil
}

func known() string {
	names := make([]string, 0, len(variables))
	for _, v := range variables {
		names = append(names, "."+v.name)
	}
	return strings.Join(names, " ")
}

var errWork = errors.New("the template takes too much work")

// evaluation is one run of a program.
type evaluation struct {
	renderInput *renderInput
	html        bool // the part is HTML: the context decides how a value is escaped
	work        int  // bytes that functions may still process
	rounds      int  // of all loops
	path        []byte
	shown       []value
	err         error
}

// spend counts the bytes that a function processes, which limits the time of a
// run.
func (e *evaluation) spend(n int) bool {
	e.work -= n
	if e.work < 0 && e.err == nil {
		e.err = errWork
	}
	return e.err == nil
}

// walk runs the steps. It calls each with every text and every value in order.
func (e *evaluation) walk(steps []step, dot value, each func(text string, v value, isValue bool)) {
	for i := range steps {
		s := &steps[i]
		switch {
		case e.err != nil:
			return
		case s.show != nil:
			each("", s.show(e, dot), true)
		case s.choose != nil:
			v := s.choose.cond(e, dot)
			if v.true() {
				e.path = append(e.path, '1')
				inner := dot
				if s.choose.with {
					inner = v
				}
				e.walk(s.choose.then, inner, each)
			} else {
				e.path = append(e.path, '0')
				e.walk(s.choose.otherwise, dot, each)
			}
		case s.repeat != nil:
			e.loop(s.repeat, dot, each)
		case s.insert != nil:
			e.walk(s.insert.steps, s.insert.with(e, dot), each)
		default:
			each(s.text, value{}, false)
		}
	}
}

// loop runs the steps of a loop for each item.
func (e *evaluation) loop(l *loop, dot value, each func(text string, v value, isValue bool)) {
	items := members(l.over(e, dot).data)
	if len(items) == 0 {
		e.path = append(e.path, '0')
		e.walk(l.otherwise, dot, each)
		return
	}
	for _, item := range items {
		if e.rounds++; e.rounds > maxRounds && e.err == nil {
			e.err = errWork
		}
		if e.err != nil {
			return
		}
		e.path = append(e.path, '.')
		e.walk(l.each, fromData(item), each)
	}
	e.path = append(e.path, '/')
}

func (v value) String() string {
	switch v.kind {
	case kindData:
		return joinedText(v.data)
	case kindBool:
		return fmt.Sprint(v.n == 1)
	case kindInt:
		return fmt.Sprint(v.n)
	case kindTime:
		return v.t.String()
	}
	return v.s
}
