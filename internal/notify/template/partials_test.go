package template

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/language"

	"ingot/internal/notify"
)

func partials(all ...notify.Partial) map[string]notify.Partial {
	out := map[string]notify.Partial{}
	for _, p := range all {
		out[p.Name] = p
	}
	return out
}

var shop = partials(
	notify.Partial{Name: "layout",
		Text: "== {{block \"title\" .}}Shop{{end}} ==\n{{block \"content\" .}}{{end}}\n{{template \"footer\" .}}",
		HTML: `<div style="color:{{.Data.color}}"><h1>{{block "title" .}}Shop{{end}}</h1>{{block "content" .}}{{end}}` +
			`{{template "footer" .}}</div>`},
	notify.Partial{Name: "footer", Text: "-- {{.ClientID}}", HTML: `<p><a href="{{.UnsubscribeURL}}">Leave {{.ClientID}}</a></p>`,
		Variants: map[string]notify.Variant{"de": {HTML: `<p>Abmelden von {{.ClientID}}</p>`}}},
	notify.Partial{Name: "item", Text: "{{.n}} x {{.title}} for {{$.Data.name}}\n", HTML: `<a title="{{.title}}" href="{{.url}}">{{.title}}</a>`},
	notify.Partial{Name: "loop-a", Text: `{{template "loop-b"}}`}, notify.Partial{Name: "loop-b", Text: `{{template "loop-a"}}`},
	notify.Partial{Name: "double", Text: strings.Repeat(`{{template "many"}}`, 60)},
	notify.Partial{Name: "many", Text: strings.Repeat(`{{.To}}`, 100)},
	notify.Partial{Name: "broken", Text: "a\nbc {{.Nope}}"}, notify.Partial{Name: "open", Text: "{{if .To}}"},
)

func TestPartials(t *testing.T) {
	t.Parallel()
	source := notify.Template{Name: "t", Subject: `{{template "subject"}}: {{.Data.name}}`,
		Text: `{{template "layout" .}}{{define "content"}}{{range .Data.items}}{{template "item" .}}{{end}}{{end}}`,
		HTML: `{{template "layout" .}}{{define "title"}}<i>Order</i>{{end}}` +
			`{{define "content"}}{{range .Data.items}}{{template "item" .}}{{else}}none{{end}}{{end}}`,
		Partials: shop}
	source.Partials = partials(notify.Partial{Name: "subject", Text: "Order\n"})
	for name, p := range shop {
		source.Partials[name] = p
	}
	data := map[string]any{"name": "Ann", "color": "red", "items": []any{
		map[string]any{"n": "1", "title": "Bell", "url": "https://shop.example/bell"},
		map[string]any{"n": "2", "title": `"><script>x</script>`, "url": "javascript:alert(1)"}}}
	v := Values{ClientID: "shop", Data: data, UnsubscribeURL: "https://n.example/u"}
	c, err := Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	body, err := c.Render(v)
	if err != nil {
		t.Fatal(err)
	}
	if body.Subject != "Order : Ann" {
		t.Errorf("subject %q", body.Subject)
	}
	if want := "== Shop ==\n1 x Bell for Ann\n2 x \"><script>x</script> for Ann\n\n-- shop"; body.Text != want {
		t.Errorf("text %q, want %q", body.Text, want)
	}
	for _, want := range []string{`<div style="color:red"><h1><i>Order</i></h1>`, `<a title="Bell" href="https://shop.example/bell">Bell</a>`,
		`<a href="https://n.example/u">Leave shop</a>`, `title="&#34;&gt;&lt;script&gt;x&lt;/script&gt;"`} {
		if !strings.Contains(body.HTML, want) {
			t.Errorf("the HTML has no %s: %s", want, body.HTML)
		}
	}
	if strings.Contains(body.HTML, "<script") || strings.Contains(body.HTML, "javascript") {
		t.Errorf("active content: %s", body.HTML)
	}
	german, locale, key := source.For(language.Make("de-AT"))
	if locale != language.Make("de-AT") || !strings.Contains(key, "|de") {
		t.Errorf("for de-AT it is %v, %q", locale, key)
	}
	if body, err := Preview(german, v); err != nil || !strings.Contains(body.HTML, "Abmelden von shop") {
		t.Errorf("in German it is %v, %v", body, err)
	}
	if !c.Personal() && !c.linkInside.Load() && strings.Contains(body.HTML, notify.UnsubscribeMark) {
		t.Error("a mark is left")
	}
}

func TestPartialProblems(t *testing.T) {
	t.Parallel()
	chain := map[string]notify.Partial{}
	for i := range notify.MaxPartialDepth + 1 {
		chain[fmt.Sprint("p", i)] = notify.Partial{Name: fmt.Sprint("p", i), Text: fmt.Sprintf(`{{template "p%d"}}`, i+1)}
	}
	for _, c := range []struct {
		text     string
		partials map[string]notify.Partial
		want     Problem
	}{
		{"a\n  {{template \"none\" .}}", shop, Problem{"text", 2, 14, `there is no partial "none": create it with PUT /partials/none, or define it here`, ""}},
		{`{{template "loop-a"}}`, shop, Problem{"text", 1, 12, `"loop-a" uses itself: loop-a, loop-b, loop-a`, "loop-b"}},
		{`{{template "p0"}}`, chain, Problem{"text", 1, 12, "partials and blocks use each other more than 8 deep: p0, p1, p2, p3, p4, p5, p6, p7, p8", "p7"}},
		{`{{template "double"}}`, shop, Problem{"text", 1, 353, "with its partials, the template has more than the 5000 actions allowed", "many"}},
		{`{{template "broken"}}`, shop, Problem{"text", 2, 6, "unknown variable .Nope; known are " + known(), "broken"}},
		{`{{template "open"}}`, shop, Problem{"text", 1, 1, "this {{if}} has no {{end}}", "open"}},
		{`{{template "layout" .}}{{define "contnt"}}x{{end}}`, shop, Problem{"text", 1, 43, `"contnt" is defined, but nothing uses it: ` +
			`neither this template nor its layout has a block or a {{template}} with this name`, ""}},
		{`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`, nil, Problem{"text", 1, 26, `"a" uses itself: a, a`, ""}},
		{`{{template "layout" .}}{{define "content"}}{{.Nope}}{{end}}`, shop, Problem{"text", 1, 46, "unknown variable .Nope; known are " + known(), ""}},
		{`{{if .To}}{{define "a"}}x{{end}}{{end}}`, nil, Problem{"text", 1, 11, "unexpected <define>", ""}},
		{`{{define "a"}}` + strings.Repeat("x", 100<<10) + `{{end}}` + strings.Repeat(`{{template "a"}}`, 50), nil,
			Problem{"text", 1, 15, "with its partials and definitions, the template has more than the 4 MiB allowed", ""}},
		{`{{template .To}}`, nil, Problem{"text", 1, 1, `unexpected ".To" in template clause`, ""}},
	} {
		got := Problems(notify.Template{Name: "t", Text: c.text, Partials: c.partials})
		if len(got) != 1 || got[0].Part != c.want.Part || got[0].Partial != c.want.Partial || got[0].Line != c.want.Line ||
			!strings.Contains(got[0].Message, c.want.Message) {
			t.Errorf("%.200s: %+v, want %+v", c.text, got, c.want)
		} else if got[0].Column != c.want.Column {
			t.Errorf("%s: column %d, want %d (%s)", c.text, got[0].Column, c.want.Column, got[0].Message)
		}
	}
}

func TestCheckPartial(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`{{.title}} and {{.n}}`:   "", // for a value of data
		`{{.Subject}}`:            "",
		`{{if .To}}`:              `Text syntax is malformed please check your braces (at 1:1: this {{if}} has no {{end}})`,
		`{{template "p"}}`:        `"p" uses itself: p, p`,
		`{{template "none"}}`:     `there is no partial "none"`,
		`{{upper}}`:               "Text cannot be used (at 1:3:",
		`{{template "broken" .}}`: "",
	} {
		err := CheckPartial(notify.Partial{Name: "p", Text: source}, shop)
		if got := fmt.Sprint(err); (want == "") != (err == nil) || err != nil && !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
	german := notify.Partial{Name: "p", Text: "x", Variants: map[string]notify.Variant{"de": {Text: "{{end}}"}}}
	if err := CheckPartial(german, nil); err == nil || !strings.Contains(err.Error(), "Text in de syntax") {
		t.Error(err)
	}
}
