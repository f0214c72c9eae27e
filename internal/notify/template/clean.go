package template

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"

	"ingot/internal/base/pattern"
)

// Clean returns a document without active content.
func Clean(document string) string {
	var b builder
	c := cleaner{out: &b}
	c.run(document)
	return b.String()
}

// cleaner removes active content: scripts, event handlers, script addresses,
// frames, embedded objects, and everything that is not known to be harmless.
// Styles, tables, images and the rest of the layout stay unchanged.
//
// Why it is safe: the cleaner writes the result as tokens. Names of tags and
// attributes are in the allow-lists. Text has no "<". The only elements whose
// content a parser reads by other rules are style, title and textarea, and the
// cleaner closes those itself. Elements that change how a parser reads (svg,
// math, select, template, noscript) are never written. So a browser sees the
// same tokens as the cleaner.
type cleaner struct {
	out *builder
	// doc collects the parts of a document, if it is not nil.
	doc *document
	// office is set in a conditional comment, which only Outlook reads.
	office bool
	// nested is the depth of conditional comments and noscript elements.
	nested int

	source string
	last   map[string]int // the offset of an element's last end tag
	at     int            // offset after the current token

	raw     string // the element whose content follows and has its own rules
	rawOpen bool   // raw was written and must be closed
	skip    string // the element that is being removed with its content
	depth   int    // how many elements of this name are open
	full    bool   // saw html, head, body or a doctype
	headEnd bool   // the end of the head was passed
	began   bool   // output has begun: a doctype is too late

	attrs []attribute
	tag   []byte
}

type attribute struct {
	name, value string
	kind        attrKind
}

const maxNested = 4

func (c *cleaner) run(source string) {
	// Some mail readers skip control characters, others do not. All treat a form
	// feed as white space.
	source = Printable(strings.ReplaceAll(source, "\f", " "))
	c.source = source
	z := html.NewTokenizer(strings.NewReader(source))
	for {
		t := z.Next()
		if t == html.ErrorToken {
			c.closeRaw()
			return
		}
		// The tokenizer changes its buffer while names are read.
		c.tag = append(c.tag[:0], z.Raw()...)
		c.at += len(c.tag)
		if t == html.TextToken {
			c.text(c.tag)
			continue
		}
		c.closeRaw()
		switch t {
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			c.start(z, string(name), more, t == html.SelfClosingTagToken)
		case html.EndTagToken:
			name, _ := z.TagName()
			c.end(string(name))
		case html.CommentToken:
			c.comment(string(c.tag))
		case html.DoctypeToken:
			c.doctype(string(c.tag))
		}
	}
}

// text writes text. A "<" in it is not a tag here, but could become one after
// the removal of other content.
func (c *cleaner) text(raw []byte) {
	switch {
	case c.skip != "":
		return
	case c.raw != "":
		c.rawText(string(raw))
		return
	}
	if c.doc != nil && c.doc.inHead && len(bytes.TrimSpace(raw)) > 0 {
		c.enterBody()
	}
	c.began = c.began || len(bytes.TrimSpace(raw)) > 0
	c.out.text(escapeLess(string(raw)), inText)
}

func escapeLess(s string) string { return strings.ReplaceAll(s, "<", "&lt;") }

// rawText writes the content of an element that a parser reads as text.
func (c *cleaner) rawText(s string) {
	switch c.raw {
	case "style":
		c.out.css(s)
	case "title", "textarea":
		c.out.text(escapeLess(s), inTitle)
	case "xmp", "plaintext":
		// Both show their content literally, as pre does after escaping.
		c.out.lit("<pre>")
		c.out.text(escapeLess(strings.ReplaceAll(s, "&", "&amp;")), inTitle)
		c.out.lit("</pre>")
	case "noscript":
		// Mail is read without scripts, so this is content.
		c.inner(s, c.office)
	}
}

// inner cleans a source within this one.
func (c *cleaner) inner(s string, office bool) {
	if c.nested == maxNested {
		return
	}
	in := cleaner{out: c.out, office: office, nested: c.nested + 1, began: true}
	in.run(s)
}

func (c *cleaner) closeRaw() {
	if c.rawOpen {
		c.out.lit("</" + c.raw + ">")
	}
	c.raw, c.rawOpen = "", false
}

func (c *cleaner) start(z *html.Tokenizer, name string, more, selfClosing bool) {
	if c.skip != "" {
		if name == c.skip && !selfClosing {
			c.depth++
		}
		return
	}
	switch name {
	case "script", "iframe", "noembed", "noframes", "xmp", "plaintext", "noscript":
		c.raw = name
		return
	case "select", "option", "optgroup":
		return
	}
	if swallowed[name] {
		if !selfClosing && c.endFollows(name) {
			c.skip, c.depth = name, 1
		}
		return
	}
	if !elements[name] && !office[name] && (!c.office || name != "xml") {
		return
	}
	changed := c.readAttributes(z, name, more)
	if name == "meta" && !metaAllowed(c.attrs) || name == "link" && !linkAllowed(c.attrs) {
		return
	}
	if c.document(name) {
		return
	}
	c.began = true
	if name == "body" {
		c.endHead()
	}
	if changed || !plainTag(c.tag) {
		c.out.tag(name, c.attrs, selfClosing)
	} else {
		c.out.lit(string(c.tag))
	}
	if name == "style" || name == "title" || name == "textarea" {
		c.raw, c.rawOpen = name, true
	}
}

// readAttributes returns the allowed attributes, and reports whether any was
// changed or contains a slot.
func (c *cleaner) readAttributes(z *html.Tokenizer, element string, more bool) (changed bool) {
	c.attrs = c.attrs[:0]
	for more {
		var key, val []byte
		key, val, more = z.TagAttr()
		a := attribute{name: string(key), value: string(val)}
		a.kind = attributeKind(element, a.name)
		if c.out.slots && (hasSlot(a.name) || hasSlot(a.value)) {
			changed = true
			if hasSlot(a.name) || a.kind != attrDrop {
				c.attrs = append(c.attrs, a)
			}
			continue
		}
		v, ok := allowedValue(a.kind, a.value)
		if !ok {
			changed = true
			continue
		}
		if v != a.value {
			a.value, changed = v, true
		}
		c.attrs = append(c.attrs, a)
	}
	return changed
}

// endFollows reports whether the end tag of an element follows. Without one, the
// rest of the message would be removed with the element.
func (c *cleaner) endFollows(name string) bool {
	if c.last == nil {
		c.last = map[string]int{}
		lower := asciiLower(c.source)
		for name := range swallowed {
			c.last[name] = strings.LastIndex(lower, "</"+name)
		}
	}
	return c.last[name] >= c.at
}

// asciiLower lowers A to Z. Unlike strings.ToLower it keeps the length.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func (c *cleaner) end(name string) {
	if c.skip != "" {
		if name == c.skip {
			if c.depth--; c.depth == 0 {
				c.skip = ""
			}
		}
		return
	}
	switch name {
	case "style", "title", "textarea": // written by closeRaw
		return
	case "html", "head", "body":
		if c.doc != nil {
			if name == "head" && c.doc.inHead {
				c.enterBody()
			}
			return
		}
		if name == "head" {
			c.endHead()
		}
	}
	if elements[name] || office[name] || c.office && name == "xml" {
		c.out.lit("</" + name + ">")
	}
}

// endHead marks where a caller's styles are inserted in a template that is a
// complete document.
func (c *cleaner) endHead() {
	if c.nested == 0 && !c.headEnd {
		c.out.mark(beforeHeadEnd)
		c.headEnd = true
	}
}

const condition = `\[if [ a-zA-Z0-9()!|&.]{1,80}\]`

var (
	// hidden matches a comment whose content only Outlook shows.
	hidden = pattern.OnUse(`(?s)^(<!--` + condition + `>)(.*)(<!\[endif\]-->)$`)
	// shown matches the comments around content that only Outlook hides.
	shown = pattern.OnUse(`^(<!--` + condition + `>\s*<!(-- ?)?-->|<!--` + condition + `><!--\s*-->|<!` + condition +
		`>|<!--\s*<!\[endif\]-->|<!\[endif\](--)?>)$`)
)

// comment keeps Outlook's conditional comments. It removes others, which are not
// displayed and could hide something.
func (c *cleaner) comment(raw string) {
	if c.skip != "" || c.nested > 0 {
		return
	}
	if shown().MatchString(raw) {
		c.out.lit(raw)
		return
	}
	m := hidden().FindStringSubmatch(raw)
	if m == nil {
		return
	}
	before := c.out.position()
	c.out.lit(m[1])
	c.inner(m[2], true)
	// The removal of content may have created the end of a comment.
	inside := c.out.since(before)[len(m[1]):]
	if strings.Contains(inside, "-->") || strings.Contains(inside, "--!>") || strings.Contains(inside, "<!--") {
		c.out.truncate(before)
		return
	}
	c.out.lit(m[3])
}

var plainDoctype = pattern.OnUse(`(?i)^<!doctype [a-z0-9"'/.:+\-\s]{1,200}>$`)

func (c *cleaner) doctype(raw string) {
	if c.began || c.skip != "" || c.full || !plainDoctype().MatchString(raw) {
		return
	}
	c.full = true
	if c.doc != nil {
		c.doc.doctype = raw
		return
	}
	c.out.lit(raw)
}

// plainTag reports whether all mail readers see the same attributes in a tag: it
// has no stray quotes, brackets or backquotes.
func plainTag(raw []byte) bool {
	body := raw[1 : len(raw)-1]
	var quote byte
	for i, c := range body {
		switch {
		case c == '<' || c == '>' || c == '`' || c < ' ' && c != '\n' && c != '\r' && c != '\t':
			return false
		case quote != 0:
			if c == quote {
				quote = 0
				if i+1 < len(body) && !bytes.ContainsRune([]byte(" \t\r\n/"), rune(body[i+1])) {
					return false
				}
			}
		case c == '"' || c == '\'':
			if before := bytes.TrimRight(body[:i], " \t\r\n"); len(before) == 0 || before[len(before)-1] != '=' {
				return false
			}
			quote = c
		}
	}
	return quote == 0
}
