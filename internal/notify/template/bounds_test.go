package template

import (
	"strings"
	"testing"
)

// Each of these inputs would take minutes if any step were quadratic.
func TestLargeInput(t *testing.T) {
	t.Parallel()
	n := 5_000
	if testing.Short() {
		n = 1_000
	}
	for _, s := range []string{
		"<svg>", "<", "<p ", "<!--[if mso]>", "<!--", "</", "<style>url(", "&", "<a href=", "<noscript>", "<![if mso]>",
		"<li>", "<ul>", "<a href=x>", "<blockquote>",
		`<p style="width:expression(`, "<p a=1>", "<xmp>", "<object></object>", "x-->",
	} {
		source := strings.Repeat(s, n)
		if found := active(t, Clean(source[:min(len(source), 3_000)])); len(found) > 0 {
			t.Errorf("cleaned %q has the active content %q, want none", s, found)
		}
		Clean(source)
		ToText(source)
		split(source)
	}
	for _, s := range []string{"url(", "expression(", ";", "{", "/*", `\`, "'", "(", "a:b;", "url(x)", "/**/"} {
		cleanCSS(strings.Repeat(s, n) + "expression(1)")
	}
	for _, s := range []string{"{{", "{{.To}}", "{{if .To}}", "{{/*", "{{`", "(", "}}"} {
		_, _ = compilePart(strings.Repeat(s, n), sourcesOf(nil, false))
	}
}
