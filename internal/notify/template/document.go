package template

import "strings"

// document is a caller's HTML, cleaned and split into its parts.
type document struct {
	doctype   string
	htmlAttrs string // with a space before each
	head      string
	bodyAttrs string
	body      string
	plain     string // the body as text

	inHead     bool
	headB      builder
	bodyB      builder
	attrsTaken bool
	htmlTaken  bool
}

// split cleans a document and splits it into its parts. A fragment is all body.
func split(source string) *document {
	d := &document{}
	if strings.TrimSpace(source) == "" {
		return d
	}
	c := cleaner{out: &d.bodyB, doc: d}
	c.run(source)
	d.head, d.body = strings.TrimSpace(d.headB.String()), d.bodyB.String()
	if strings.TrimSpace(d.body) == "" {
		d.body = ""
	}
	d.plain = ToText(d.body)
	d.headB, d.bodyB = builder{}, builder{}
	return d
}

// document handles the tags that make up a document. It reports whether the tag
// was consumed.
func (c *cleaner) document(name string) bool {
	switch name {
	case "html", "head", "body":
		c.full = true
	}
	d := c.doc
	if d == nil {
		return false
	}
	switch name {
	case "html":
		if !d.htmlTaken {
			d.htmlAttrs, d.htmlTaken = attributesOf(c.attrs), true
		}
		return true
	case "head":
		if !c.began {
			d.inHead, c.out = true, &d.headB
		}
		return true
	case "body":
		c.enterBody()
		if !d.attrsTaken {
			d.bodyAttrs, d.attrsTaken = attributesOf(c.attrs), true
		}
		return true
	}
	if d.inHead && !headElements[name] && !c.office && !office[name] {
		c.enterBody()
	}
	return false
}

func (c *cleaner) enterBody() {
	c.doc.inHead = false
	c.out = &c.doc.bodyB
}

func attributesOf(attrs []attribute) string {
	var b builder
	for _, a := range attrs {
		b.attribute(a)
	}
	return b.String()
}
