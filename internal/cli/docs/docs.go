package docs

import (
	"context"
	"fmt"
	"strings"

	"ingot/internal/base/handbook"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// Commands returns the commands of this package.
func Commands() []*core.Command {
	return core.InGroup(core.GroupOther,
		core.Entry("docs", "[WORDS...] [--search]", "Show or search the documentation", core.NeedsNothing, show,
			"", "tls", "tls#wildcard-certificates", "rolling deployment", "--search tls").
			Explained("Without words it lists all documents. A document's name shows it, or with '#' and a heading one "+
				"section; other words are searched. It needs no server."))
}

type flags struct {
	Search bool `long:"search" description:"Search, also if a document has this name"`
	Args   struct {
		Words []string `positional-arg-name:"WORDS"`
	} `positional-args:"yes"`
}

func show(_ context.Context, s *core.Session, _ core.Words, f *flags) (core.Result, error) {
	query := strings.Join(f.Args.Words, " ")
	if query == "" && !f.Search {
		return listOf(handbook.Purposes()), nil
	}
	width := 0
	if s.Env.OutTerminal && s.Env.Width != nil {
		width = s.Env.Width()
	}
	if !f.Search && len(f.Args.Words) == 1 {
		name, heading, _ := strings.Cut(strings.Trim(query, "/"), "#")
		name = strings.TrimSuffix(strings.TrimPrefix(name, "docs/"), ".md")
		if p := handbook.Find(strings.ToLower(name)); p != nil {
			return newPage(p, heading, width)
		}
	}
	hits, err := handbook.Search(query)
	if err != nil {
		return nil, err
	}
	if len(hits) == 0 {
		return nil, &core.Problem{What: fmt.Sprintf("No document has all words of %q.", query),
			Try: fmt.Sprintf("search for fewer or shorter words; '%s docs' lists all documents", s.Env.Program)}
	}
	return newResults(hits, s.Env.Program), nil
}

// list is the index.
type list struct {
	Documents []entry `json:"documents"`
}

type entry struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Purpose string `json:"purpose"`
	About   string `json:"about"`
}

func listOf(all []handbook.Purpose) *list {
	l := &list{}
	for _, purpose := range all {
		for _, p := range purpose.Pages {
			l.Documents = append(l.Documents, entry{p.Name, p.Title, purpose.Name, unmarked(p.Summary)})
		}
	}
	return l
}

func (l *list) Show(p *term.Printer) {
	width := 0
	for _, one := range l.Documents {
		width = max(width, len(one.Name))
	}
	purpose := ""
	for _, one := range l.Documents {
		if one.Purpose != purpose {
			if purpose != "" {
				p.Println("")
			}
			purpose = one.Purpose
			p.Println(p.Bold(purpose))
		}
		p.Println(fmt.Sprintf("  %-*s  %s", width, one.Name, one.About))
	}
}

// results are what a search found.
type results struct {
	Results []result `json:"results"`
	program string
}

type result struct {
	Name    string `json:"name"` // with the heading
	Title   string `json:"title"`
	Heading string `json:"heading,omitempty"`
	Text    string `json:"text"`
	pieces  []handbook.Piece
}

func newResults(hits []handbook.Hit, program string) *results {
	r := &results{program: program}
	for _, h := range hits {
		one := result{Name: h.Page.Name, Title: h.Page.Title, pieces: h.Text}
		if h.Heading.Anchor != "" {
			one.Name += "#" + h.Heading.Anchor
			one.Heading = h.Heading.Text
		}
		for _, piece := range h.Text {
			one.Text += piece.Text
		}
		r.Results = append(r.Results, one)
	}
	return r
}

func (r *results) Show(p *term.Printer) {
	for _, one := range r.Results {
		p.Println(p.Bold(one.Name))
		var text strings.Builder
		for _, piece := range one.pieces {
			if piece.Match {
				piece.Text = p.Warn(piece.Text)
			}
			text.WriteString(piece.Text)
		}
		p.Println("  " + text.String())
	}
	p.Println("")
	p.Println(fmt.Sprintf("Show one with '%s docs NAME'.", r.program))
}

// document is a document, or a section of one.
type document struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Text  string `json:"text"` // Markdown
	width int
}

func newPage(p *handbook.Page, heading string, width int) (*document, error) {
	d := &document{Name: p.Name, Title: p.Title, Text: string(p.Source()), width: width}
	if heading == "" {
		return d, nil
	}
	text, ok := p.Section(heading)
	if !ok {
		_, headings := p.HTML()
		var names []string
		for _, h := range headings {
			names = append(names, h.Anchor)
		}
		what := fmt.Sprintf("The document %s has no heading %q", p.Name, heading)
		return nil, &core.Problem{What: core.DidYouMean(what, heading, names),
			Existing: "Headings: " + strings.Join(names, ", ")}
	}
	d.Text = text
	return d, nil
}

func (d *document) Show(p *term.Printer) {
	for _, line := range format(d.Text, d.width, p) {
		p.Println(line)
	}
}
