package libraries

import (
	"strings"
	"testing"

	"github.com/k3a/html2text"
	"github.com/microcosm-cc/bluemonday"

	"ingot/internal/notify/template"
)

// mailHTML is HTML as mail tools generate it.
var mailHTML = `<!DOCTYPE html><html><head><title>Invoice</title><style>
@media (max-width: 600px) { .column { width: 100% !important } }
</style></head><body style="margin:0;background:#f4f4f4">
<!--[if mso]><table><tr><td width="600"><![endif]-->
` + strings.Repeat(`<table role="presentation" width="600" cellpadding="0" style="border-collapse:collapse"><tr>
<td class="column" style="padding:12px;font-family:Arial,sans-serif;color:#333333"><h2>Your app crashed</h2>
<p>Instance <b>2</b> of <i>orders</i> ended &amp; was started again.</p>
<ul><li>Status: 137</li><li>Reason: out of memory</li></ul>
<a href="https://example.org/apps/orders?tab=logs&amp;since=1h" style="color:#0066cc">Read the log</a>
<img src="https://example.org/logo.png" width="40" height="40" alt="Logo"></td></tr></table>
`, 20) + `<!--[if mso]></td></tr></table><![endif]--></body></html>`

// mailPolicy is the most generous policy of bluemonday for mail: what its authors
// offer for content of users, with the elements, attributes and styles of mailHTML.
func mailPolicy() *bluemonday.Policy {
	p := bluemonday.UGCPolicy()
	p.RequireNoFollowOnLinks(false)
	p.AllowComments()
	p.AllowElements("html", "head", "title", "body", "style", "center", "font")
	p.AllowUnsafe(true) // without it style elements lose their content
	p.AllowAttrs("class", "id", "role", "width", "height", "cellpadding", "cellspacing", "align", "valign", "bgcolor",
		"border").Globally()
	p.AllowStyles("margin", "padding", "background", "color", "font-family", "border-collapse").Globally()
	return p
}

func BenchmarkClean(b *testing.B) {
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(mailHTML)))
		for b.Loop() {
			template.Clean(mailHTML)
		}
	})
	b.Run("bluemonday", func(b *testing.B) {
		p := mailPolicy()
		b.SetBytes(int64(len(mailHTML)))
		for b.Loop() {
			p.Sanitize(mailHTML)
		}
	})
}

// TestCleanBesideBluemonday shows what keeps us from bluemonday.
func TestCleanBesideBluemonday(t *testing.T) {
	t.Parallel()
	p := mailPolicy()
	for name, test := range map[string]struct {
		in, want  string // the input, and what of it has to stay or must not
		removed   bool   // want must not stay
		libraryOK bool
	}{
		"the doctype stays": {`<!DOCTYPE html><p>x</p>`, `<!DOCTYPE html>`, false, false},
		"colours of Outlook stay": {`<p style="mso-line-height-rule:exactly;color:red">x</p>`,
			`mso-line-height-rule:exactly`, false, false},
		"layout is written as it came": {`<p style="margin:0 0 12px">x</p>`, `style="margin:0 0 12px"`, false, false},
		"rules for small screens stay": {`<style>@media (max-width:600px){.a{width:100%}}</style><p>x</p>`,
			`@media (max-width:600px)`, false, true},
		"comments cannot hide what is active": {`<!--[if gte mso 9]><script>x()</script><![endif]--><p>x</p>`, `<script>`,
			true, false},
		"scripts go": {`<p onclick="x()">x<script>y()</script></p>`, `script`, true, true},
	} {
		check := func(out string) bool { return strings.Contains(out, test.want) != test.removed }
		if out := template.Clean(test.in); !check(out) {
			t.Errorf("%s: ours wrote %q", name, out)
		}
		if out := p.Sanitize(test.in); check(out) != test.libraryOK {
			t.Errorf("%s: bluemonday does it: %t, the decision says %t; it wrote %q", name, check(out), test.libraryOK, out)
		}
	}
}

func BenchmarkToText(b *testing.B) {
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(mailHTML)))
		for b.Loop() {
			template.ToText(mailHTML)
		}
	})
	b.Run("html2text", func(b *testing.B) {
		b.SetBytes(int64(len(mailHTML)))
		for b.Loop() {
			html2text.HTML2TextWithOptions(mailHTML, html2text.WithLinksInnerText(), html2text.WithListSupport(),
				html2text.WithUnixLineBreaks())
		}
	})
}

// TestToTextBesideHTML2Text shows what keeps us from html2text.
func TestToTextBesideHTML2Text(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in, want  string
		libraryOK bool
	}{
		"link": {`<a href="https://example.org/a?b=1&amp;c=2">Log</a>`,
			"Log <https://example.org/a?b=1&c=2>", true},
		"cells are apart":   {`<table><tr><td>a</td><td>b</td></tr></table>`, "a b", false},
		"numbered list":     {`<ol><li>one</li><li>two</li></ol>`, "1. one\n2. two", false},
		"preformatted text": {"<pre>a\n  b</pre>", "a\n  b", false},
		"quotation":         {`<blockquote>said</blockquote>`, "> said", false},
		"picture":           {`<p>x <img src="l.png" alt="Logo"></p>`, "x Logo", false},
	} {
		if got := template.ToText(test.in); strings.TrimSpace(got) != test.want {
			t.Errorf("%s: ours wrote %q, want %q", name, got, test.want)
		}
		got := html2text.HTML2TextWithOptions(test.in, html2text.WithLinksInnerText(), html2text.WithListSupport(),
			html2text.WithUnixLineBreaks())
		if ok := strings.TrimSpace(got) == test.want; ok != test.libraryOK {
			t.Errorf("%s: html2text does it: %t, the decision says %t; it wrote %q", name, ok, test.libraryOK, got)
		}
	}
}
