package template

import (
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"

	"ingot/internal/notify"
)

// AsText returns a body as a title and plain text, for channels that show no HTML. HTML without a text part is
// converted.
func AsText(b *notify.Body, unsubscribe string) (title, text string) {
	text = b.Text
	if strings.TrimSpace(text) == "" {
		text = ToText(Clean(b.HTML))
	}
	text = strings.ReplaceAll(text, notify.UnsubscribeMark, unsubscribe)
	return OneLine(b.Subject), strings.TrimSpace(strings.ReplaceAll(Printable(text), "\r\n", "\n"))
}

// ToText converts HTML to text: paragraphs and rows on separate lines, lists with
// bullets, links with their addresses.
func ToText(source string) string {
	w := textWriter{}
	z := html.NewTokenizer(strings.NewReader(source))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return w.String()
		case html.TextToken:
			w.words(string(z.Text()))
		case html.StartTagToken, html.SelfClosingTagToken:
			w.start(z)
		case html.EndTagToken:
			name, _ := z.TagName()
			w.end(string(name))
		}
	}
}

type textWriter struct {
	b      strings.Builder
	breaks int  // line breaks to write before the next word
	space  bool // a space is due before it
	any    bool // something was written
	silent bool // skip the next text
	pre    int
	quotes int
	links  []link
	lists  []int // the number of the last item; negative: no numbers
}

type link struct {
	address string
	start   int // of its text
}

func (w *textWriter) String() string { return strings.TrimRightFunc(w.b.String(), unicode.IsSpace) }

// blocks are the elements with line breaks before and after, and how many.
var blocks = map[string]int{
	"p": 2, "h1": 2, "h2": 2, "h3": 2, "h4": 2, "h5": 2, "h6": 2, "ul": 2, "ol": 2, "dl": 2, "pre": 2,
	"blockquote": 2, "table": 2,
	"div": 1, "tr": 1, "li": 1, "dt": 1, "dd": 1, "section": 1, "article": 1, "header": 1, "footer": 1, "main": 1,
	"nav": 1, "aside": 1,
	"address": 1, "figure": 1, "figcaption": 1, "form": 1, "fieldset": 1, "center": 1, "caption": 1, "body": 1, "hr": 1,
}

func (w *textWriter) start(z *html.Tokenizer) {
	raw, more := z.TagName()
	name := string(raw)
	attrs := map[string]string{}
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		if _, twice := attrs[string(k)]; !twice {
			attrs[string(k)] = string(v)
		}
	}
	w.silent = false
	switch name {
	case "script", "style", "title", "iframe", "noembed", "noframes", "textarea":
		w.silent = true
	case "br":
		w.breaks = min(w.breaks+1, 2)
	case "td", "th":
		w.space = true
	case "img":
		w.words(attrs["alt"])
	case "a":
		if len(w.links) < 100 {
			w.links = append(w.links, link{attrs["href"], w.b.Len()})
		}
	}
	w.breaks = max(w.breaks, blocks[name])
	switch name {
	case "ul":
		w.lists = append(w.lists, -1)
	case "ol":
		w.lists = append(w.lists, 0)
	case "li":
		w.item()
	case "hr":
		w.words("----------")
		w.breaks = 1
	case "pre":
		w.pre++
	case "blockquote":
		w.quotes = min(w.quotes+1, 10)
	}
}

func (w *textWriter) item() {
	mark := "*"
	if n := len(w.lists); n > 0 && w.lists[n-1] >= 0 {
		w.lists[n-1]++
		mark = strconv.Itoa(w.lists[n-1]) + "."
	}
	w.word(strings.Repeat("  ", max(0, min(len(w.lists), 8)-1)) + mark)
	w.space = true
}

func (w *textWriter) end(name string) {
	w.silent = false
	switch name {
	case "ul", "ol":
		if n := len(w.lists); n > 0 {
			w.lists = w.lists[:n-1]
		}
	case "pre":
		w.pre = max(0, w.pre-1)
	case "blockquote":
		w.quotes = max(0, w.quotes-1)
	case "a":
		w.link()
	}
	w.breaks = max(w.breaks, blocks[name])
}

// link adds the address, unless the text is the address.
func (w *textWriter) link() {
	n := len(w.links)
	if n == 0 {
		return
	}
	l := w.links[n-1]
	w.links = w.links[:n-1]
	shown := strings.TrimSpace(w.b.String()[min(l.start, w.b.Len()):])
	target := strings.TrimPrefix(l.address, "mailto:")
	if !addressAllowed(l.address, linkSchemes) || scheme(l.address) == "" || shown == target || shown+"/" == target {
		return
	}
	w.space = shown != ""
	w.word("<" + strings.Join(strings.Fields(l.address), "") + ">")
}

// words writes text; runs of white space are one space unless in pre.
func (w *textWriter) words(s string) {
	if w.silent {
		return
	}
	if w.pre > 0 {
		for i, line := range strings.Split(s, "\n") {
			if i > 0 {
				w.breaks++
			}
			if line = strings.TrimRightFunc(line, unicode.IsSpace); line != "" {
				w.word(line)
			}
		}
		return
	}
	for len(s) > 0 {
		n := strings.IndexFunc(s, collapses)
		if n < 0 {
			n = len(s)
		}
		if n > 0 {
			w.word(s[:n])
			s = s[n:]
			continue
		}
		w.space = true
		s = strings.TrimLeftFunc(s, collapses)
	}
}

func collapses(r rune) bool { return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f' }

func (w *textWriter) word(s string) {
	switch {
	case w.any && w.breaks > 0:
		for i := range w.breaks {
			w.b.WriteByte('\n')
			if w.quotes > 0 && i < w.breaks-1 {
				w.b.WriteString(strings.TrimRight(strings.Repeat("> ", w.quotes), " "))
			}
		}
		w.b.WriteString(strings.Repeat("> ", w.quotes))
	case !w.any:
		w.b.WriteString(strings.Repeat("> ", w.quotes))
	case w.space:
		w.b.WriteByte(' ')
	}
	w.b.WriteString(strings.ReplaceAll(s, "\u00a0", " "))
	w.any, w.breaks, w.space = true, 0, false
}
