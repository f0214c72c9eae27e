package manpage

import (
	"fmt"
	"strings"
	"unicode"
)

// Page is a manual page of section 1.
type Page struct {
	Name     string // the name of its file without .1, such as ingot-push
	Summary  string
	Synopsis []string
	Parts    []Part
	SeeAlso  []string // names of other pages of section 1
}

// Part is a section with a title: text, then items, then lines to be typed.
type Part struct {
	Title    string
	Text     string // paragraphs are separated by an empty line
	Items    []Item
	Commands []string
}

// Item is a word, such as a flag, with its description.
type Item struct{ Term, Text string }

// File returns the name of the page's file.
func (p *Page) File() string { return p.Name + ".1" }

// Text returns the source of the page. source is shown at its bottom: the program and
// its version.
func (p *Page) Text(source string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s\" \"User Commands\"\n", strings.ToUpper(escape(p.Name)), escape(source))
	// No hyphenation, and no blanks that fill a line: both break what readers copy.
	b.WriteString(".nh\n.ad l\n.SH NAME\n")
	fmt.Fprintf(&b, "%s \\- %s\n", escape(p.Name), escape(p.Summary))
	if len(p.Synopsis) > 0 {
		b.WriteString(".SH SYNOPSIS\n")
		lines(&b, p.Synopsis)
	}
	for _, part := range p.Parts {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(escape(part.Title)))
		if part.Text != "" {
			for i, paragraph := range strings.Split(part.Text, "\n\n") {
				if i > 0 {
					b.WriteString(".PP\n")
				}
				b.WriteString(sentence(paragraph) + "\n")
			}
		}
		for _, item := range part.Items {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", escape(item.Term), sentence(item.Text))
		}
		lines(&b, part.Commands)
	}
	if len(p.SeeAlso) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		for i, name := range p.SeeAlso {
			comma := ","
			if i == len(p.SeeAlso)-1 {
				comma = ""
			}
			fmt.Fprintf(&b, "\\fB%s\\fR(1)%s\n", escape(name), comma)
		}
	}
	return b.String()
}

// lines writes lines as they are.
func lines(b *strings.Builder, all []string) {
	if len(all) == 0 {
		return
	}
	b.WriteString(".nf\n")
	for _, line := range all {
		b.WriteString(sentence(line) + "\n")
	}
	b.WriteString(".fi\n")
}

// sentence escapes text that begins a line, where a point or a quote would be a request.
func sentence(s string) string {
	s = escape(strings.Join(strings.Split(s, "\n"), " "))
	if strings.HasPrefix(s, ".") {
		return `\&` + s
	}
	return s
}

// special are characters that groff replaces by others that cannot be typed, or that
// have a meaning for it.
var special = map[rune]string{
	'\\': `\(rs`, '-': `\-`, '\'': `\(aq`, '"': `\(dq`, '`': `\(ga`, '^': `\(ha`, '~': `\(ti`,
}

func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case special[r] != "":
			b.WriteString(special[r])
		case r > unicode.MaxASCII:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
