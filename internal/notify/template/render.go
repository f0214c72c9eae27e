package template

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// Check compiles a template's subject, text and HTML. It returns nil, or a fault
// with the part, position (line:column) and reason of each error.
func Check(t notify.Template) error {
	c, err := Compile(t)
	if err != nil {
		return err
	}
	// A template that cannot render samples is rejected now, not for every recipient.
	_, err = c.Render(sample(Values{}))
	return err
}

// Compiled is a checked template. It is safe for concurrent use.
type Compiled struct {
	source             notify.Template
	subject, text, web *program
	// linkInside: marked found that this template needs real links.
	linkInside atomic.Bool

	mu        sync.Mutex
	skeletons map[string]*skeleton // by the path through web
	kept      int                  // bytes of skeletons and their paths
	docs      [keptDocuments]keptDocument
	nextDoc   int
}

const (
	// keptSkeletons is more than the number of paths of any template in practice.
	keptSkeletons = 128
	// keptBytes limits those of templates with loops, whose paths depend on the data.
	keptBytes = 4 << 20
	// keptDocuments is how many callers' documents are cached: as many as there
	// are sends in progress with one template.
	keptDocuments = 8
)

type keptDocument struct {
	source string
	doc    *document
}

// Compile checks a template and prepares it for rendering.
func Compile(t notify.Template) (*Compiled, error) {
	c, located := compile(t)
	problems := make([]string, 0, len(located))
	for _, l := range located {
		problems = append(problems, l.describe(l.part, l.source))
	}
	if err := fault.Invalid(problems...); err != nil {
		return nil, err
	}
	return c, nil
}

// located is a problem of a part of a template.
type located struct {
	*problem
	part, source string
}

func compile(t notify.Template) (*Compiled, []located) {
	c := &Compiled{source: t, skeletons: map[string]*skeleton{}}
	var problems []located
	for _, part := range []struct {
		name   string
		source string
		into   **program
	}{{"Subject", t.Subject, &c.subject}, {"Text", t.Text, &c.text}, {"HTML", t.HTML, &c.web}} {
		compiled, p := compilePart(part.source, sourcesOf(t.Partials, part.name == "HTML"))
		if p != nil {
			problems = append(problems, located{p, part.name, part.source})
			continue
		}
		*part.into = compiled
	}
	return c, problems
}

// Problem is an error in a template.
type Problem struct {
	// Part is "subject", "text" or "html"; it is empty for an error of the whole.
	Part string `json:"part"`
	// Line and Column are where it is, both from 1, columns in characters. They
	// are 0 for an error of the whole.
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	// Partial is the name of the partial where it is; empty for the template itself.
	Partial string `json:"partial,omitempty"`
}

// Problems returns what Check would reject, with the place of each error.
func Problems(t notify.Template) []Problem {
	c, found := compile(t)
	problems := make([]Problem, 0, len(found))
	for _, l := range found {
		partial, source := l.where(l.source)
		line, column := place(source, l.at)
		problems = append(problems, Problem{strings.ToLower(l.part), line, column, l.what, partial})
	}
	if len(problems) > 0 {
		return problems
	}
	if _, err := c.Render(sample(Values{})); err != nil {
		problems = append(problems, Problem{Message: err.Error()})
	}
	return problems
}

// describe returns a message that begins like that of the original service,
// because clients compare it.
func (p *problem) describe(part, source string) string {
	partial, source := p.where(source)
	if partial != "" {
		partial = fmt.Sprintf("in the partial %q ", partial)
	}
	if p.syntax {
		return fmt.Sprintf("%s syntax is malformed please check your braces (%sat %s: %s)", part,
			partial, lineColumn(source, p.at), p.what)
	}
	return fmt.Sprintf("%s cannot be used (%sat %s: %s)", part, partial, lineColumn(source, p.at), p.what)
}

// Personal reports whether the template uses a value that differs between the
// recipients of one audience of a send. If not, they can share a body, rendered
// with notify.UnsubscribeMark instead of the unsubscribe link. Recipients of
// different audiences have different endorsements, spaces, and so on, and never
// share a body.
func (c *Compiled) Personal() bool {
	if c.linkInside.Load() || c.subject.used[linkVariable] || c.text.linkComputed || c.web.linkComputed {
		return true
	}
	for _, v := range variables {
		if v.personal && (c.subject.used[v.name] || c.text.used[v.name] || c.web.used[v.name]) {
			return true
		}
	}
	return false
}

// work is how many bytes the functions of one part may process.
const work = 8 << 20

// maxSubject limits the subject, in bytes. Mail readers show far less.
const maxSubject = 4096

// Render returns a message. Without text, the text part is derived from the HTML.
// There is an HTML part only if both the values and the template have HTML.
func (c *Compiled) Render(v Values) (*notify.Body, error) {
	if v.SourceDescription == "" {
		v.SourceDescription = v.ClientID
	}
	s := &renderInput{Values: v, source: c.source, doc: c.document(v.HTML)}
	if strings.TrimSpace(s.Text) == "" {
		s.Text = s.doc.plain
	}
	subject, err := c.plain(c.subject, s)
	if err != nil {
		return nil, c.failed("subject", err)
	}
	body := &notify.Body{Subject: OneLine(subject)}
	if body.Subject == "" {
		body.Subject = noSubject
	}
	// A send with data may leave all words to the template.
	if (s.doc.body != "" || v.Data != nil) && strings.TrimSpace(c.source.HTML) != "" {
		if body.HTML, err = c.page(s); errors.Is(err, ErrPersonal) {
			return nil, err
		} else if err != nil {
			return nil, c.failed("HTML", err)
		}
	}
	if body.Text, err = c.plain(c.text, s); err != nil {
		return nil, c.failed("text", err)
	}
	// A message always has a text part that is not empty.
	for _, other := range []func() string{
		func() string { return ToText(body.HTML) }, func() string { return s.Text }, func() string { return body.Subject },
	} {
		if strings.TrimSpace(body.Text) != "" {
			break
		}
		body.Text = other()
	}
	if len(body.Text) > maxPart {
		return nil, c.failed("text", errTooLarge)
	}
	return body, nil
}

const noSubject = "[no subject]"

func (c *Compiled) failed(part string, err error) error {
	return fault.Wrap(err, fault.Unprocessable,
		"The %s of template %q cannot be rendered: %v. Make the template or the message smaller.", part, c.source.Name, err)
}

// plain renders the subject or the text, in which nothing is escaped.
func (c *Compiled) plain(p *program, s *renderInput) (string, error) {
	e := evaluation{renderInput: s, work: work}
	var out []byte
	e.walk(p.steps, value{}, func(t string, v value, isValue bool) {
		if isValue {
			t = v.String()
		}
		if out = append(out, t...); len(out) > maxPart && e.err == nil {
			e.err = errTooLarge
		}
	})
	if e.err != nil {
		return "", e.err
	}
	return strings.TrimSuffix(Printable(string(out)), "\n"), nil
}

// page renders the HTML part.
func (c *Compiled) page(s *renderInput) (string, error) {
	e := evaluation{renderInput: s, html: true, work: work}
	literal := 0
	e.walk(c.web.steps, value{}, func(t string, v value, isValue bool) {
		if isValue {
			e.shown = append(e.shown, v)
		}
		// A loop may repeat a long text.
		if literal += len(t); (literal > maxPart || len(e.shown) > maxSlots) && e.err == nil {
			e.err = errTooLarge
		}
	})
	if e.err != nil {
		return "", e.err
	}
	k := c.skeleton(s, string(e.path))
	d := s.doc
	head := d.head
	if c.web.used[components+".Head"] {
		head = ""
	}
	out := make([]byte, 0, k.size+len(d.body)+len(d.head)+512)
	var err error
	if k.full {
		out, err = k.fill(out, e.shown, head)
		return c.marked(string(out), err, e.shown)
	}
	if d.doctype != "" {
		out = append(append(out, d.doctype...), '\n')
	}
	out = append(append(append(out, "<html"...), d.htmlAttrs...), ">\n<head>"...)
	out = append(append(out, head...), "</head>\n<body"...)
	out = append(append(out, d.bodyAttrs...), ">\n"...)
	if out, err = k.fill(out, e.shown, ""); err != nil {
		return "", err
	}
	out = append(out, "\n</body>\n</html>\n"...)
	return c.marked(string(out), nil, e.shown)
}

// linkVariable is the variable that notify.UnsubscribeMark can replace.
const linkVariable = "UnsubscribeURL"

// ErrPersonal means that the unsubscribe link is part of another value, such as
// another address, so that a mark cannot replace it. Render again with the real
// link.
var ErrPersonal = errors.New("the template needs the real unsubscribe link")

// marked checks that each printed mark is unchanged in the result.
func (c *Compiled) marked(out string, err error, shown []value) (string, error) {
	if err != nil {
		return "", err
	}
	marks := 0
	for _, v := range shown {
		if v.kind == kindLink && v.s == notify.UnsubscribeMark {
			marks++
		}
	}
	if marks != strings.Count(out, notify.UnsubscribeMark) {
		c.linkInside.Store(true)
		return "", ErrPersonal
	}
	return out, nil
}

// skeleton returns the cleaned HTML of a path, and caches it.
func (c *Compiled) skeleton(s *renderInput, path string) *skeleton {
	c.mu.Lock()
	k := c.skeletons[path]
	c.mu.Unlock()
	if k != nil {
		return k
	}
	var source strings.Builder
	slots := 0
	e := evaluation{renderInput: s, html: true, work: work}
	e.walk(c.web.steps, value{}, func(t string, _ value, isValue bool) {
		if isValue {
			t = slot(slots)
			slots++
		}
		source.WriteString(t)
	})
	k = newSkeleton(source.String())
	c.mu.Lock()
	defer c.mu.Unlock()
	if size := len(path) + k.size; len(c.skeletons) == 0 || len(c.skeletons) < keptSkeletons && c.kept+size <= keptBytes {
		c.skeletons[path] = k
		c.kept += size
	}
	return k
}

// document splits a caller's HTML, once for all recipients of a send.
func (c *Compiled) document(source string) *document {
	c.mu.Lock()
	for i := range c.docs {
		if d := &c.docs[i]; d.doc != nil && d.source == source {
			c.mu.Unlock()
			return d.doc
		}
	}
	c.mu.Unlock()
	doc := split(source)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.docs[c.nextDoc] = keptDocument{source, doc}
	c.nextDoc = (c.nextDoc + 1) % keptDocuments
	return doc
}

// OneLine returns a subject without line breaks and other control characters,
// which could add headers, and truncates it.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\u2028' || r == '\u2029' || unicode.IsControl(r):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
	s = strings.TrimSpace(s)
	if len(s) > maxSubject {
		cut := maxSubject
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return s
}

// Printable removes what no mail may contain: NUL, other control characters, and
// invalid UTF-8.
func Printable(s string) string {
	clean := true
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			clean = false
			break
		}
	}
	if clean && utf8.ValidString(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// Preview renders a template as a recipient might see it. Missing values are
// filled with samples.
func Preview(t notify.Template, v Values) (*notify.Body, error) {
	c, err := Compile(t)
	if err != nil {
		return nil, err
	}
	return c.Render(sample(v))
}
