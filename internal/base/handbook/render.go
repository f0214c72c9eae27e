package handbook

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Path is where the documents are served: links between them lead there.
const Path = "/docs"

// Heading is a heading of a page.
type Heading struct {
	Level  int
	Text   string
	Anchor string
}

// markdown is the parser and the renderer of documents. Styles of cells are attributes, because the pages
// allow no inline styles.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(elements{}, 100))),
)

// HTML returns the page as HTML, with the headings below its title. HTML in the source is shown as text.
func (p *Page) HTML() (template.HTML, []Heading) {
	source := p.Source()
	doc, headings := p.parse(source)
	var b bytes.Buffer
	_ = markdown.Renderer().Render(&b, source, doc) // to memory
	//nolint:gosec // from the documents of the program, in which the renderer escapes HTML
	return template.HTML(b.String()), headings
}

// parse returns the tree of a document, with anchors and with links to other pages of Path.
func (p *Page) parse(source []byte) (ast.Node, []Heading) {
	doc := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext()))
	var headings []Heading
	var dead []ast.Node
	used := map[string]int{}
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			h := Heading{Level: n.Level, Text: plain(n, source)}
			h.Anchor = unique(used, anchor(h.Text))
			n.SetAttributeString("id", h.Anchor)
			headings = append(headings, h)
		case *table.Table:
			label(n, source)
		case *ast.Link:
			to, ok := p.target(string(n.Destination))
			n.Destination = []byte(to)
			if !ok {
				dead = append(dead, n)
			}
		case *ast.Image:
			to, ok := p.target(string(n.Destination))
			n.Destination = []byte(to)
			if !ok {
				dead = append(dead, n)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range dead {
		unlink(n)
	}
	return doc, headings
}

// label notes the heading of its column in each cell, which a phone shows before it.
func label(t *table.Table, source []byte) {
	var heads []string
	for row := t.FirstChild(); row != nil; row = row.NextSibling() {
		column := 0
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			if _, head := row.(*table.TableHeader); head {
				heads = append(heads, plain(cell, source))
			} else if column < len(heads) {
				cell.SetAttributeString("data-label", []byte(heads[column]))
			}
			column++
		}
	}
}

// unlink replaces a link by its text.
func unlink(n ast.Node) {
	parent := n.Parent()
	for child := n.FirstChild(); child != nil; {
		next := child.NextSibling()
		parent.InsertBefore(parent, n, child)
		child = next
	}
	parent.RemoveChild(parent, n)
}

// target returns where a link of the page leads, and false if that is a file which is not in the program.
func (p *Page) target(to string) (string, bool) {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") || strings.HasPrefix(to, "#") {
		return to, true
	}
	file, fragment, _ := strings.Cut(to, "#")
	if fragment != "" {
		fragment = "#" + fragment
	}
	file = path.Join(path.Dir(p.file), file)
	name := nameOf(file)
	switch {
	case file == indexFile || file == ".":
		return Path + fragment, true
	case strings.HasPrefix(file, "images/"):
		_, ok := Picture(file)
		return Path + "/" + file, ok
	case index().byName[name] != nil:
		return Path + "/" + name + fragment, true
	}
	return to, false
}

// plain returns the text of a node without its markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// anchor returns the anchor of a heading as GitHub does: lower case, without punctuation, dashes for spaces.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// unique numbers anchors that are used several times, as GitHub does.
func unique(used map[string]int, anchor string) string {
	n := used[anchor]
	used[anchor]++
	if n == 0 {
		return anchor
	}
	return fmt.Sprintf("%s-%d", anchor, n)
}

// elements renders what differs from goldmark: anchors at headings, blocks that can be copied, tables that
// scroll, and HTML as text.
type elements struct{}

// RegisterFuncs registers the functions for their kinds of nodes.
func (elements) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, heading)
	r.Register(ast.KindFencedCodeBlock, block)
	r.Register(ast.KindCodeBlock, block)
	r.Register(ast.KindHTMLBlock, markup)
	r.Register(ast.KindRawHTML, markup)
	r.Register(table.KindTable, scrolling)
}

func heading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	h := n.(*ast.Heading)
	value, _ := h.AttributeString("id")
	id := html.EscapeString(fmt.Sprint(value))
	if entering {
		fmt.Fprintf(w, `<h%d id="%s">`, h.Level, id)
		return ast.WalkContinue, nil
	}
	if h.Level > 1 {
		fmt.Fprintf(w, ` <a class="anchor" href="#%s" aria-label="Link to this section">#</a>`, id)
	}
	fmt.Fprintf(w, "</h%d>\n", h.Level)
	return ast.WalkContinue, nil
}

// block writes a block of code, with a button that copies it. Of a block with prompts it copies what is
// typed, which has its own elements.
func block(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := ""
	if fenced, ok := n.(*ast.FencedCodeBlock); ok {
		language = string(fenced.Language(source))
	}
	// The offset in the source is a name that no other block of the page has.
	id := "code"
	if n.Lines().Len() > 0 {
		id = fmt.Sprintf("code-%d", n.Lines().At(0).Start)
	}
	fmt.Fprintf(w, `<div class="block"><pre id="%s">`, id)
	typed := false
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		value := strings.TrimSuffix(string(line.Value(source)), "\n")
		rest, prompt := strings.CutPrefix(value, "$ ")
		switch {
		case language == "console" && prompt && !typed:
			fmt.Fprintf(w, `<span class="prompt">$ </span><span class="typed">%s</span>`, html.EscapeString(rest))
		case language == "console" && typed:
			fmt.Fprintf(w, `<span class="typed">%s</span>`, html.EscapeString(value))
		default:
			_, _ = w.WriteString(html.EscapeString(value))
		}
		typed = (prompt || typed) && strings.HasSuffix(value, `\`)
		_, _ = w.WriteString("\n")
	}
	fmt.Fprintf(w, `</pre><button type="button" class="quiet copy" data-copy="%s" hidden>Copy</button></div>`+"\n", id)
	return ast.WalkSkipChildren, nil
}

// markup writes HTML as text, and leaves comments out, which are for those who edit the source.
func markup(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	var b bytes.Buffer
	around := ""
	switch n := n.(type) {
	case *ast.RawHTML:
		b.Write(n.Segments.Value(source))
	case *ast.HTMLBlock:
		around = "p"
		b.Write(n.Lines().Value(source))
		if n.HasClosure() {
			b.Write(n.ClosureLine.Value(source))
		}
	}
	shown := strings.TrimSpace(b.String())
	switch {
	case strings.HasPrefix(shown, "<!--"):
	case around == "":
		_, _ = w.WriteString(html.EscapeString(b.String()))
	default:
		fmt.Fprintf(w, "<p>%s</p>\n", html.EscapeString(shown))
	}
	return ast.WalkSkipChildren, nil
}

func scrolling(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<div class=\"scroll\"><table>\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}
