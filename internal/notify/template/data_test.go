package template

import (
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/text/language"

	"ingot/internal/notify"
)

// decode returns JSON as callers of this package have it.
func decode(t *testing.T, source string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(source))
	d.UseNumber()
	var data map[string]any
	if err := d.Decode(&data); err != nil {
		t.Fatal(err)
	}
	return data
}

const purchase = `{"name": "Ann <b>", "empty": "", "zero": 0, "no": false, "nothing": null, "vip": true, "first-name": "A",
	"total": 1234.5, "exact": "1234567.891", "count": 3, "one": 1, "placed": "2026-03-29T23:30:00Z", "day": "2026-12-24",
	"unix": 1767225600, "tags": ["red", 7, true], "site": "javascript:alert(1)",
	"items": [{"title": "Pen", "price": 1.2, "parts": ["cap", "ink"]}, {"title": "Ink", "price": 3}], "by": {"b": 2, "a": 1}}`

func TestData(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`{{.Data.name}}`: "Ann <b>",
		`{{.Data.total}} {{.Data.exact}} {{.Data.count}}`:                                        "1234.5 1234567.891 3",
		`{{.Data.missing}}{{.Data.name.deeper}}|`:                                                "|",
		`{{index .Data "first-name"}} {{index .Data.tags 1}}{{index .Data.tags 9}}`:              "A 7",
		`{{default "friend" .Data.missing}} {{.Data.empty | default "x"}}`:                       "friend x",
		`{{default 5 .Data.zero}} {{default "y" .Data.no}}`:                                      "0 false",
		`{{if .Data.zero}}a{{else}}b{{end}}{{if .Data.total}}c{{end}}`:                           "bc",
		`{{if .Data.items}}d{{end}}{{if .Data.nothing}}e{{end}}`:                                 "d",
		`{{if and .Data.vip (gt .Data.count 2)}}many{{end}}`:                                     "many",
		`{{if gt .Data.total 1000}}much{{end}}{{if lt .Data.one .Data.total}} less{{end}}`:       "much less",
		`{{if eq .Data.name "Ann <b>"}}her{{end}}{{if ne .Data.count 4}} not{{end}}`:             "her not",
		`{{if eq .Data.items .Data.items}}!{{end}}|`:                                             "|",
		`{{range .Data.items}}{{.title}}:{{range .parts}} {{.}}{{else}} no parts{{end}};{{end}}`: "Pen: cap ink;Ink: no parts;",
		`{{range .Data.missing}}x{{else}}none{{end}} {{range .Data.by}}{{.}}{{end}}`:             "none 12",
		`{{range .Data.name}}x{{else}}no list{{end}}`:                                            "no list",
		`{{range .Data.items}}{{$.Data.name}} {{end}}`:                                           "Ann <b> Ann <b>",
		`{{with .Data.by}}{{.a}}{{.b}}{{end}}`:                                                   "12",
		`{{join " + " .Data.tags}}; {{.Data.tags}}; {{.Data.by}}`:                                `red + 7 + true; red, 7, true; {"a":1,"b":2}`,
		`{{len .Data.items}} {{len .Data.name}} {{upper .Data.name}}`:                            "2 7 ANN <B>",
		`{{date "2 Jan 2006 15:04" .Data.placed}}`:                                               "29 Mar 2026 23:30",
		`{{date "2 Jan 2006 15:04" "Europe/Berlin" .Data.placed}}`:                               "30 Mar 2026 01:30",
		`{{.Data.day | date "Monday"}} {{date "2006" .Data.unix}} {{date "2006" .Data.name}}`:    "Thursday 2026 Ann <b>",
		`{{number .Data.total}} {{number 2 .Data.total}}`:                                        "1,234.5 1,234.50",
		`{{number 1 .Data.exact}} {{number .Data.name}}`:                                         "1,234,567.9 Ann <b>",
		`{{money "EUR" .Data.total}} {{money "JPY" .Data.total}}`:                                "€1,234.50 ¥1,234",
		`{{money .Data.name .Data.count}}`:                                                       "3 Ann <b>",
		`{{plural .Data.one "one" "# file" "other" "# files"}}`:                                  "1 file",
		`{{plural .Data.count "one" "# file" "other" "# files"}}`:                                "3 files",
	} {
		b := render(t, notify.Template{Subject: "s", Text: source}, Values{Data: decode(t, purchase)})
		if strings.TrimSpace(b.Text) != want {
			t.Errorf("%s: %q, want %q", source, b.Text, want)
		}
	}
}

// In HTML, data is escaped for its context.
func TestDataEscaped(t *testing.T) {
	t.Parallel()
	b := render(t, notify.Template{Subject: "s", Text: "t",
		HTML: `<p title="{{.Data.name}}">{{.Data.name}}</p><a href="{{.Data.site}}">x</a><ul>{{range .Data.items}}<li>{{.title}}</li>{{end}}</ul>`},
		Values{Data: decode(t, purchase)})
	for _, part := range []string{`<p title="Ann &lt;b&gt;">Ann &lt;b&gt;</p>`, "<li>Pen</li><li>Ink</li>"} {
		if !strings.Contains(b.HTML, part) {
			t.Errorf("%s has no %s", b.HTML, part)
		}
	}
	if strings.Contains(b.HTML, "javascript") {
		t.Errorf("a script in %s", b.HTML)
	}
	if subject := render(t, notify.Template{Subject: "{{.Data.x}}", Text: "t"},
		Values{Data: map[string]any{"x": "a\r\nBcc: eve@example.org"}}).Subject; strings.ContainsAny(subject, "\r\n") {
		t.Errorf("subject %q", subject)
	}
}

func TestFormatsByLanguage(t *testing.T) {
	t.Parallel()
	const source = `{{number 2 .Data.total}}; {{money "EUR" .Data.total}}; {{plural .Data.count "one" "# plik" "few" "# pliki" "many" "# plików" "other" "# pliku"}}`
	for locale, want := range map[string]string{
		"en":    "1,234.50; €1,234.50; 3 pliku",
		"de":    "1.234,50; 1.234,50\u00a0€; 3 pliku",
		"de-CH": "1’234.50; 1’234.50\u00a0EUR; 3 pliku",
		"pl":    "1\u00a0234,50; 1\u00a0234,50\u00a0€; 3 pliki",
	} {
		b := render(t, notify.Template{Subject: "s", Text: source},
			Values{Data: decode(t, purchase), Locale: language.MustParse(locale)})
		if b.Text != want {
			t.Errorf("%s: %q, want %q", locale, b.Text, want)
		}
	}
}

// What cannot work is refused when the template is saved, with what would.
func TestDataRefused(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{{range .Text}}x{{end}}":                       "1:9: .Text is not a list",
		"{{range $i, $x := .Data.items}}x{{end}}":       "variables cannot be set here",
		"{{range .Data.items}}x":                        "1:1: this {{range}} has no {{end}}",
		"{{range .Data.items}}{{break}}{{end}}":         `1:22: "break" is not available here`,
		"{{.Datum.name}}":                               "unknown variable .Datum",
		`{{date .Data.layout .Data.day}}`:               "needs its layout as a string literal",
		`{{date "2006" "Mars/Olympus" .Data.day}}`:      `does not know the time zone "Mars/Olympus"`,
		`{{money "EURO" .Data.total}}`:                  `does not know the currency "EURO"`,
		`{{number 99 .Data.total}}`:                     "from 0 to 10",
		`{{plural .Data.count "one" "# file"}}`:         `needs a text for the form "other"`,
		`{{plural .Data.count "some" "x" "other" "y"}}`: `does not know the form "some"`,
		`{{plural .Data.count "one"}}`:                  "texts by form",
		`{{index .Text 1}}`:                             "needs a list or an object of .Data",
		`{{default "x"}}`:                               "needs at least 2",
	} {
		err := Check(notify.Template{Text: source})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// Loops end: hostile data and templates get an error instead of a message.
func TestDataBounds(t *testing.T) {
	t.Parallel()
	items := make([]any, 5000)
	for i := range items {
		items[i] = map[string]any{"in": []any{"a", "b", "c", "d"}}
	}
	long := strings.Repeat("x", 500_000)
	for name, tpl := range map[string]notify.Template{
		"rounds, text":        {Text: "{{range .Data.items}}{{range $.Data.items}}{{end}}{{end}}"},
		"rounds, HTML":        {Text: "t", HTML: "{{range .Data.items}}{{range .in}}<p>{{.}}</p>{{end}}{{end}}"},
		"a long text":         {Text: "{{range .Data.items}}" + long + "{{end}}"},
		"a long text in HTML": {Text: "t", HTML: "{{range .Data.items}}" + long + "{{end}}"},
		"an object in a loop": {Text: "{{range .Data.items}}{{$.Data}}{{end}}"},
		"many values":         {Text: "t", HTML: "{{range .Data.items}}" + strings.Repeat("{{.}}", 30) + "{{end}}"},
	} {
		c, err := Compile(tpl)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := c.Render(Values{Data: map[string]any{"items": items}}); err == nil {
			t.Errorf("%s: rendered", name)
		}
	}
	// Paths of all lengths do not fill the memory.
	c, err := Compile(notify.Template{Text: "t",
		HTML: "{{range .Data.items}}<p>{{.in}} and more words than the others</p>{{end}}"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 400 {
		if _, err := c.Render(Values{Data: map[string]any{"items": items[:n*2]}}); err != nil {
			t.Fatal(err)
		}
	}
	if c.kept > keptBytes {
		t.Errorf("%d bytes of skeletons are kept", c.kept)
	}
}

func TestUsesData(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]bool{
		"{{.Text}}": false, "{{if .Data.x}}{{end}}": true, "{{with $.Data}}{{end}}": true, "{{number 1000}}": true,
	} {
		if c, err := Compile(notify.Template{HTML: source}); err != nil || c.UsesData() != want {
			t.Errorf("%s: %v, %v", source, !want, err)
		}
	}
}
