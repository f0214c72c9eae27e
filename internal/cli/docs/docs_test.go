package docs

import (
	"bytes"
	"strings"
	"testing"

	"ingot/internal/base/handbook"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

const source = "# The `title`\n\nA [link](x.md) and **more** words that are long enough to be wrapped at " +
	"forty columns.\n\n<!-- a comment\nof two lines -->\n\n" +
	"- one item\n  continued [here](y.md)\n  - inner\n2. second\n\n" +
	"```console\n$ ingot apps\nname   # not a heading\n\n| no table |\n```\n\n" +
	"| Key | Meaning |\n|---|---|\n| `a` | x \\| y |\n| bb | |\n"

func formatted(t *testing.T, text string, width int) string {
	t.Helper()
	return strings.Join(format(text, width, term.NewPrinter(&bytes.Buffer{}, false)), "\n")
}

func TestFormat(t *testing.T) {
	t.Parallel()
	const want = `The title

A link and more words that are long
enough to be wrapped at forty columns.

- one item continued here
  - inner
2. second

    $ ingot apps
    name   # not a heading
    
    | no table |

Key  Meaning
a    x | y
bb`
	if got := formatted(t, source, 40); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	const narrow = "- a long item with words enough\n\n| A | B |\n|---|---|\n| one long cell here | another one |\n"
	const listed = "- a long item with\n  words enough\n\n  A: one long cell\n    here\n    B: another one"
	if got := formatted(t, narrow, 24); got != listed {
		t.Errorf("got\n%s", got)
	}
	if got := formatted(t, "one\ntwo", 0); got != "one two" {
		t.Errorf("without a width: %q", got)
	}
}

// TestEveryDocumentIsFormatted writes all documents: no line of text is wider than the terminal, and no fence
// stays open.
func TestEveryDocumentIsFormatted(t *testing.T) {
	t.Parallel()
	for _, p := range handbook.All() {
		f := &formatter{Printer: term.NewPrinter(&bytes.Buffer{}, false), width: 80}
		for line := range strings.SplitSeq(string(p.Source()), "\n") {
			f.line(line)
		}
		if f.flush(); f.code || f.comment || len(f.lines) < 3 {
			t.Errorf("%s: code %t, comment %t, %d lines", p.Name, f.code, f.comment, len(f.lines))
		}
	}
}

func TestSections(t *testing.T) {
	t.Parallel()
	d, err := newPage(handbook.Find("tls"), "certificates-with-acme", 0)
	if err != nil || !strings.HasPrefix(d.Text, "## Certificates with ACME\n") ||
		!strings.Contains(d.Text, "\n### Wildcard certificates\n") || strings.Contains(d.Text, "## Client certificates") {
		t.Errorf("the section is %v (%v)", d, err)
	}
	_, err = newPage(handbook.Find("tls"), "certificates-with-acne", 0)
	problem, ok := err.(*core.Problem) //nolint:errorlint // it is not wrapped
	if !ok || !strings.Contains(problem.What, "did you mean certificates-with-acme?") {
		t.Errorf("an unknown heading: %v", err)
	}
}

// TestShown shows the index, and what a search found.
func TestShown(t *testing.T) {
	t.Parallel()
	hits, err := handbook.Search("wildcard certificate")
	if err != nil {
		t.Fatal(err)
	}
	for want, result := range map[string]core.Result{
		"Start\n  tour": listOf(handbook.Purposes()), "tls#wildcard-certificates\n  ": newResults(hits, "ingot"),
	} {
		var out bytes.Buffer
		result.Show(term.NewPrinter(&out, false))
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, &out)
		}
	}
}
