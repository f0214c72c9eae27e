package template

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"text/template/parse"

	"golang.org/x/text/language"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// maxCompiled limits what is compiled for one part, with every use of a partial or definition.
const maxCompiled = 4 << 20

// maxInside limits how deep partials and blocks use each other.
const maxInside = notify.MaxPartialDepth

// origin is the source of a definition: a partial, or with an empty name the template's part.
type origin struct{ name, source string }

// where returns the partial and the source that a problem's offset belongs to.
func (p *problem) where(part string) (partial, source string) {
	if p.origin == nil {
		return "", part
	}
	return p.origin.name, p.origin.source
}

// partialSources returns a partial's source for the part that is being compiled.
type partialSources func(name string) (source string, ok bool)

// sourcesOf returns the HTML of partials, or their text, which is also for subjects.
func sourcesOf(all map[string]notify.Partial, html bool) partialSources {
	return func(name string) (string, bool) {
		p, ok := all[name]
		if html {
			return p.HTML, ok
		}
		return p.Text, ok
	}
}

// scope has what one source defines with define and block. What an outer source defines replaces
// the blocks of the partials that it uses: so a template fills a layout.
type scope struct {
	origin *origin
	trees  map[string]*parse.Tree
	used   map[string]bool
}

// insertion is a partial or a block, with the value that is its dot.
type insertion struct {
	with  expr
	steps []step
}

// whole compiles a source with its definitions.
func (c *compiler) whole(source string, trees map[string]*parse.Tree, dot kind) ([]step, *problem) {
	own := &scope{origin: &origin{source: source}, trees: trees, used: map[string]bool{}}
	c.scopes = append(c.scopes, own)
	steps, p := c.list(trees[""].Root, dot)
	if p == nil {
		p = own.unused()
	}
	return steps, p
}

// unused reports a definition that nothing shows: a misspelled name would be text that is lost.
func (s *scope) unused() *problem {
	for _, name := range slices.Sorted(maps.Keys(s.trees)) {
		if name != "" && !s.used[name] {
			return otherProblem(int(s.trees[name].Root.Pos), "%q is defined, but nothing uses it: neither this template nor "+
				"its layout has a block or a {{template}} with this name", name)
		}
	}
	return nil
}

// count limits the actions that partials add, as scan does for those of the part itself.
func (c *compiler) count(n parse.Node) *problem {
	if _, plain := n.(*parse.TextNode); plain || len(c.inside) == 0 {
		return nil
	}
	if c.inserted++; c.inserted > maxActions {
		return otherProblem(int(n.Position()), "with its partials, the template has more than the %d actions allowed",
			maxActions)
	}
	return nil
}

// grow limits the text that is compiled: a small source may use a large definition thousands of times.
func (c *compiler) grow(n, at int) *problem {
	if c.bytes += n; c.bytes > maxCompiled {
		return otherProblem(at, "with its partials and definitions, the template has more than the %d MiB allowed",
			maxCompiled>>20)
	}
	return nil
}

// insertion compiles {{template "name" value}} and the place of a block.
func (c *compiler) insertion(n *parse.TemplateNode, dot kind) (step, *problem) {
	at := int(n.Pos)
	with, k := expr(func(*evaluation, value) value { return value{} }), kindRoot
	if n.Pipe != nil {
		var p *problem
		if with, k, p = c.pipe(n.Pipe, dot); p != nil {
			return step{}, p
		}
	}
	if slices.Contains(c.inside, n.Name) {
		return step{}, otherProblem(at, "%q uses itself: %s", n.Name, strings.Join(append(c.inside, n.Name), ", "))
	}
	if len(c.inside) >= maxInside {
		return step{}, otherProblem(at, "partials and blocks use each other more than %d deep: %s", maxInside,
			strings.Join(append(c.inside, n.Name), ", "))
	}
	c.inside = append(c.inside, n.Name)
	defer func() { c.inside = c.inside[:len(c.inside)-1] }()
	for _, s := range c.scopes {
		if tree := s.trees[n.Name]; tree != nil && n.Name != "" {
			s.used[n.Name] = true
			steps, p := c.list(tree.Root, k)
			return step{insert: &insertion{with, steps}}, p.in(s.origin)
		}
	}
	steps, p := c.partial(n.Name, at, k)
	return step{insert: &insertion{with, steps}}, p
}

func (c *compiler) partial(name string, at int, dot kind) ([]step, *problem) {
	source, ok := c.partials(name)
	switch {
	case !ok:
		return nil, otherProblem(at, "there is no partial %q: create it with PUT /partials/%s, or define it here", name,
			name)
	case strings.TrimSpace(source) == "":
		return nil, otherProblem(at, "the partial %q has nothing for this part", name)
	}
	if p := c.grow(len(source), at); p != nil {
		return nil, p
	}
	from := &origin{name, source}
	trees, p := parseSource(source)
	if p != nil {
		return nil, p.in(from)
	}
	own := &scope{origin: from, trees: trees, used: map[string]bool{}}
	c.scopes = append(c.scopes, own)
	defer func() { c.scopes = c.scopes[:len(c.scopes)-1] }()
	steps, p := c.list(trees[""].Root, dot)
	return steps, p.in(from)
}

// in says where a problem is, unless that is known.
func (p *problem) in(from *origin) *problem {
	if p != nil && p.origin == nil {
		p.origin = from
	}
	return p
}

// CheckAll is like Check for the template with its partials, in its own language and in each that it or one of them
// has.
func CheckAll(t notify.Template) error {
	for _, tag := range append([]string{"und"}, t.Locales()...) {
		in, _, _ := t.For(language.Make(tag))
		if err := Check(in); err != nil {
			if tag != "und" {
				err = fault.New(fault.Unprocessable, "In %s: %s", tag, Reason(err))
			}
			return err
		}
	}
	return nil
}

// Reason returns the messages of an error of a check, for a sentence.
func Reason(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return strings.Join(f.Messages(), "; ")
	}
	return err.Error()
}

// CheckPartial returns nil, or a fault with the errors of a partial in its own language and in each variant. others are
// the partials that it may use.
func CheckPartial(p notify.Partial, others map[string]notify.Partial) error {
	all := maps.Clone(others)
	if all == nil {
		all = map[string]notify.Partial{}
	}
	var problems []string
	for _, locale := range append([]string{""}, slices.Sorted(maps.Keys(p.Variants))...) {
		in := p.In(locale)
		all[p.Name] = in
		for _, part := range []struct{ name, source string }{{"Text", in.Text}, {"HTML", in.HTML}} {
			found := checkPartial(p.Name, part.source, sourcesOf(all, part.name == "HTML"))
			if found == nil {
				continue
			}
			about := part.name
			if locale != "" {
				about += " in " + locale
			}
			problems = append(problems, found.describe(about, part.source))
		}
	}
	return fault.Invalid(problems...)
}

// checkPartial compiles a partial for the dot of a template, or else for a value of data: which it is, is known when
// it is used.
func checkPartial(name, source string, partials partialSources) *problem {
	if strings.TrimSpace(source) == "" {
		return nil
	}
	compileAs := func(dot kind) *problem {
		c := &compiler{used: map[string]bool{}, partials: partials}
		c.inside = []string{name}
		_, p := c.partial(name, 0, dot)
		if p != nil && p.origin != nil && p.origin.name == name {
			p.origin = nil
		}
		return p
	}
	p := compileAs(kindRoot)
	if p == nil || p.syntax || compileAs(kindAny) != nil {
		return p
	}
	return nil
}
