package handbook

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"ingot/docs"
)

// TestEveryDocumentIsListed compares the index with the folder.
func TestEveryDocumentIsListed(t *testing.T) {
	t.Parallel()
	documents := 0
	err := fs.WalkDir(docs.Files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".md" || file == indexFile {
			return err
		}
		documents++
		folder, base := path.Split(file)
		switch p := Find(nameOf(file)); {
		case p != nil && p.Title == "":
			t.Errorf("docs/%s has no title: begin it with a line \"# Title\"", file)
		case p != nil:
		case folder == "decisions/":
			t.Errorf("docs/decisions/README.md does not list %s: run go test ./internal/archtest -run TestDecisions -update",
				base)
		default:
			t.Errorf("docs/%sREADME.md does not list %s, so that readers of /docs and 'ingot docs' do not find it: add the "+
				"line \"- [Title](%s): what it is for.\" below the heading of its purpose", folder, base, base)
		}
		return nil
	})
	if err != nil || documents < 50 {
		t.Errorf("%d documents: %v", documents, err)
	}
	var names []string
	for _, p := range Purposes() {
		names = append(names, p.Name)
		for _, one := range p.Pages {
			if one.Summary == "" || !strings.HasSuffix(one.Summary, ".") {
				t.Errorf("docs/README.md says of %s: %q, want a sentence", one.Name, one.Summary)
			}
		}
	}
	if want := []string{"Start", "Guides", "Reference", "Operate", "Understand"}; !slices.Equal(names, want) {
		t.Errorf("the purposes are %q, want %q", names, want)
	}
}

func TestNeighbours(t *testing.T) {
	t.Parallel()
	all := All()
	if all[0].Name != "tour" || all[0].Previous != nil || all[len(all)-1].Next != nil {
		t.Errorf("the first page is %+v", all[0])
	}
	for i, p := range all[1:] {
		if p.Previous != all[i] || all[i].Next != p {
			t.Errorf("%s does not follow %s", p.Name, all[i].Name)
		}
	}
	// Those of a folder follow its README.
	if next := Find("tutorials").Next; next.Name != "tutorials/node" || next.Purpose != "Start" {
		t.Errorf("after the tutorials: %+v", next)
	}
}

// TestIndexOfAFolder reads an index with a continued line, a missing file and a folder.
func TestIndexOfAFolder(t *testing.T) {
	t.Parallel()
	b := read(fstest.MapFS{
		"README.md": {Data: []byte("# Docs\n\n- [Early](a.md): before a purpose.\n\n## First\n\n- [A](a.md): one,\n  two.\n" +
			"- [Gone](gone.md): missing.\n\n## Second\n\n- [Folder](f/README.md): many.\n- [A](a.md): again.\n")},
		"a.md":        {Data: []byte("# The `a` page\n")},
		"f/README.md": {Data: []byte("# F\n\n[x](x.md) [a](../a.md) [x](x.md)\n")},
		"f/x.md":      {Data: []byte("# X\n")},
	})
	var got []string
	for _, p := range b.pages {
		got = append(got, p.Purpose+"/"+p.Name+"/"+p.Title+"/"+p.Summary)
	}
	want := []string{"First/a/The a page/one, two.", "Second/f/F/many.", "Second/f/x/X/"}
	if !slices.Equal(got, want) {
		t.Errorf("the pages are %q, want %q", got, want)
	}
}

// of returns a page of a text, which is not in the index.
func of(text string) (string, []Heading) {
	p := &Page{file: "tls.md"}
	source := []byte(text)
	doc, headings := p.parse(source)
	var b strings.Builder
	if err := markdown.Renderer().Render(&b, source, doc); err != nil {
		panic(err)
	}
	return b.String(), headings
}

func TestRendering(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, want string }{
		"HTML in a line":     {"a <b onclick=x>c</b>", "<p>a &lt;b onclick=x&gt;c&lt;/b&gt;</p>\n"},
		"a block of HTML":    {"<script>\nalert(1)\n</script>\n", "<p>&lt;script&gt;\nalert(1)\n&lt;/script&gt;</p>\n"},
		"a comment":          {"a\n\n<!-- b -->\n\nc", "<p>a</p>\n<p>c</p>\n"},
		"a script's address": {"[x](javascript:alert(1))", "<p>x</p>\n"},
		"another document":   {"[x](backup.md#every-day)", `<p><a href="/docs/backup#every-day">x</a></p>` + "\n"},
		"the index":          {"[x](README.md)", `<p><a href="/docs">x</a></p>` + "\n"},
		"a folder's":         {"[x](tutorials/README.md) [y](decisions)", `<p><a href="/docs/tutorials">x</a> <a href="/docs/decisions">y</a></p>` + "\n"},
		"a heading":          {"[x](#y)", `<p><a href="#y">x</a></p>` + "\n"},
		"another site":       {"<https://example.com>", `<p><a href="https://example.com">https://example.com</a></p>` + "\n"},
		"a source file":      {"see [the `x`](../internal/x.go).", "<p>see the <code>x</code>.</p>\n"},
		"a picture":          {"![x](images/console.png)", `<p><img src="/docs/images/console.png" alt="x"></p>` + "\n"},
		"no picture":         {"![x](images/none.png)", "<p>x</p>\n"},
		"commands": {"```console\n$ cat <<E \\\n  b\nc\n```\n", `<div class="block"><pre id="code-11"><span class="prompt">$ </span>` +
			`<span class="typed">cat &lt;&lt;E \</span>` + "\n" + `<span class="typed">  b</span>` + "\nc\n" +
			`</pre><button type="button" class="quiet copy" data-copy="code-11" hidden>Copy</button></div>` + "\n"},
		"a table": {"| A |\n|--:|\n| b |\n", "<div class=\"scroll\"><table>\n<thead>\n<tr>\n<th align=\"right\">A</th>\n" +
			"</tr>\n</thead>\n<tbody>\n" +
			"<tr>\n<td align=\"right\" data-label=\"A\">b</td>\n</tr>\n</tbody>\n</table></div>\n"},
	} {
		if got, _ := of(c.source); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	_, headings := of("# Title\n\n## The `b` file, again\n\n## A_b\n\n### The b file, again!\n")
	want := []Heading{{1, "Title", "title"}, {2, "The b file, again", "the-b-file-again"}, {2, "A_b", "a_b"},
		{3, "The b file, again!", "the-b-file-again-1"}}
	if !slices.Equal(headings, want) {
		t.Errorf("the headings are %v, want %v", headings, want)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"rolling back revision":            "revisions",
		"backup restore":                   "backup",
		"certificates from files":          "tls#certificates-from-files",
		"wildcard certificate":             "tls#wildcard-certificates",
		"hash-based routing":               "routing#hash-based-routing",
		"INGOT_TCP_PORTS":                  "configuration",
		"isolation segment":                "operators#isolation-segments",
		"support BUNDLE":                   "operating#a-support-bundle",
		"memory-enforced":                  "sidecars#enforced-memory-memory-enforced-cpu-weight",
		"quota":                            "operators#quotas",
		"cross <script>alert(1)</script> ": "",
		"xyzzyx":                           "", "": "", "…": "",
	} {
		hits, err := Search(query)
		if err != nil || len(hits) > maxHits {
			t.Errorf("%q: %d hits, %v", query, len(hits), err)
		}
		var got []string
		for _, h := range hits {
			at := h.Page.Name
			if h.Heading.Anchor != "" {
				at += "#" + h.Heading.Anchor
			}
			got = append(got, at)
		}
		if want == "" && len(hits) > 0 || want != "" && (len(got) == 0 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%q finds %q, want %q first", query, got, want)
		}
	}
	for _, query := range []string{strings.Repeat("a", MaxQuery+1), "a b c d e f g h i"} {
		if _, err := Search(query); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Errorf("%q: %v", query, err)
		}
	}
}

// TestExcerpts checks that every hit shows a word that matches, unless that is in its heading.
func TestExcerpts(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"certificate", "push app", "s", "größe", "mail server", "drain"} {
		hits, err := Search(query)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			text, match := "", false
			for _, piece := range h.Text {
				text += piece.Text
				match = match || piece.Match
			}
			inHeading := slices.ContainsFunc(split(h.Page.Title+" "+h.Heading.Text),
				func(word string) bool { return matches(word, split(query)) })
			if len(text) > 4*around || !match && !inHeading {
				t.Errorf("%s for %q shows %q", h.Page.Name, query, text)
			}
			if strings.ContainsAny(text, "`\n") {
				t.Errorf("%s for %q shows markup: %q", h.Page.Name, query, text)
			}
		}
	}
}

var identifier = regexp.MustCompile(` id="([^"]*)"`)

// TestIdentifiers checks that no page has two elements with one name.
func TestIdentifiers(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		seen := map[string]bool{}
		text, _ := p.HTML()
		for _, m := range identifier.FindAllStringSubmatch(string(text), -1) {
			if seen[m[1]] || m[1] == "" {
				t.Errorf("%s has two elements %q", p.Name, m[1])
			}
			seen[m[1]] = true
		}
	}
}

func BenchmarkPages(b *testing.B) {
	for b.Loop() {
		for _, p := range All() {
			p.HTML()
		}
	}
}

func BenchmarkBuildIndex(b *testing.B) {
	for b.Loop() {
		buildIndex()
	}
}

func BenchmarkSearch(b *testing.B) {
	for b.Loop() {
		if _, err := Search("an app in the server of a c"); err != nil {
			b.Fatal(err)
		}
	}
}

// An excerpt has no marks of Markdown.
func TestPlain(t *testing.T) {
	t.Parallel()
	got := Plain("# A\n\nUse `ingot up`, **now**: [more](a.md#b).\n\n## B\n##")
	if want := "A\n\nUse ingot up, now: more.\n\nB\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
