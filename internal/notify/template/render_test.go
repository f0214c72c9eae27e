package template

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

func render(t *testing.T, tpl notify.Template, v Values) *notify.Body {
	t.Helper()
	c, err := Compile(tpl)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Render(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// page renders an HTML template and returns the content of the body.
func page(t *testing.T, source string, v Values) string {
	t.Helper()
	if v.HTML == "" {
		v.HTML = "<i>given</i>"
	}
	b := render(t, notify.Template{HTML: source, Subject: "x"}, v)
	_, inside, ok := strings.Cut(b.HTML, "<body>\n")
	if !ok {
		return b.HTML
	}
	return strings.TrimSuffix(inside, "\n</body>\n</html>\n")
}

func TestDefaultTemplates(t *testing.T) {
	t.Parallel()
	v := Values{Subject: "Hello", Text: "a < b", HTML: "<b>bold</b><script>x</script>", Endorsement: `You "belong".`}
	got := render(t, Default(), v)
	want := notify.Body{
		Subject: "CF Notification: Hello",
		Text:    "You \"belong\".\na < b",
		HTML:    "<html>\n<head></head>\n<body>\n<p>You &#34;belong&#34;.</p><b>bold</b>\n</body>\n</html>\n",
	}
	if *got != want {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
	got = render(t, DefaultV2(), v)
	want = notify.Body{Subject: "Hello", Text: "a < b",
		HTML: "<html>\n<head></head>\n<body>\n<b>bold</b>\n</body>\n</html>\n"}
	if *got != want {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
	for _, d := range []notify.Template{Default(), DefaultV2()} {
		if err := Check(d); err != nil {
			t.Error(err)
		}
		if string(d.Metadata) != "{}" {
			t.Errorf("template is %+v, want metadata {}", d)
		}
	}
	if Default().Name != "Default Template" || DefaultV2().Name != "The Default Template" {
		t.Errorf("names %q and %q", Default().Name, DefaultV2().Name)
	}
	v.UnsubscribeURL = "https://n.example/unsubscribe/abc"
	got = render(t, Default(), v)
	if !strings.HasSuffix(got.Text, "\n\n-- \nUnsubscribe: https://n.example/unsubscribe/abc") {
		t.Errorf("text %q has no footer", got.Text)
	}
	if !strings.Contains(got.HTML, `<a href="https://n.example/unsubscribe/abc">Unsubscribe</a>`) {
		t.Errorf("HTML %q has no footer", got.HTML)
	}
	if Default().ID != "default" || DefaultV2().ID != "default-v2" {
		t.Error("ids")
	}
}

// Every variable of the original exists, in each part, and shows its value.
func TestVariables(t *testing.T) {
	t.Parallel()
	names := strings.Fields(`From ReplyTo To Subject Text HTML HTMLComponents.BodyContent HTMLComponents.BodyAttributes HTMLComponents.Head
		HTMLComponents.Doctype TextTemplate HTMLTemplate SubjectTemplate KindDescription SourceDescription UserGUID ClientID MessageID
		Space SpaceGUID Organization OrganizationGUID UnsubscribeID UnsubscribeURL Scope Endorsement OrganizationRole RequestReceived Domain`)
	if want := len(names) + 2; len(variables) != want { // and Data, Digest
		t.Errorf("%d variables, want %d", len(variables), want)
	}
	var v Values
	for i := range reflect.TypeFor[Values]().NumField() {
		if f := reflect.ValueOf(&v).Elem().Field(i); f.Kind() == reflect.String {
			f.SetString("value of " + reflect.TypeFor[Values]().Field(i).Name)
		}
	}
	v.RequestReceived = time.Date(2026, time.November, 15, 14, 3, 7, 250, time.UTC)
	v.HTML = `<!DOCTYPE html><html><head><title>t</title></head><body class="c"><p>given</p></body></html>`
	tpl := notify.Template{}
	want := map[string]string{
		"HTML": "<p>given</p>", "HTMLComponents.BodyContent": "<p>given</p>", "HTMLComponents.BodyAttributes": ` class="c"`,
		"HTMLComponents.Head": "<title>t</title>", "HTMLComponents.Doctype": "<!DOCTYPE html>",
		"RequestReceived": "2026-11-15 14:03:07.00000025 +0000 UTC",
	}
	for _, name := range names {
		action := "{{." + name + "}}"
		tpl.Text, tpl.HTML, tpl.Subject = action, "<div>"+action+"</div>", action
		b := render(t, tpl, v)
		w, ok := want[name]
		switch name {
		case "TextTemplate", "SubjectTemplate":
			w = action
		case "HTMLTemplate":
			w = tpl.HTML
		default:
			if !ok {
				w = "value of " + name
			}
		}
		if strings.TrimSpace(b.Text) != strings.TrimSpace(w) || strings.TrimSpace(b.Subject) != strings.TrimSpace(w) {
			t.Errorf("%s: text %q, subject %q, want %q", name, b.Text, b.Subject, w)
		}
		in := "<div>" + w + "</div>"
		switch name {
		case "HTMLTemplate", "HTMLComponents.BodyAttributes":
			in = "<div>" + string(appendEscaped(nil, w)) + "</div>"
		}
		if !strings.Contains(b.HTML, in) {
			t.Errorf("%s: HTML %q has no %q", name, b.HTML, in)
		}
	}
}

func TestPersonal(t *testing.T) {
	t.Parallel()
	for _, v := range variables {
		want := v.name == "To" || v.name == "UserGUID" || v.name == "MessageID" || v.name == "UnsubscribeID"
		for _, form := range []string{"{{.%s}}", "{{if .%s}}x{{end}}", "{{with .%s}}x{{end}}",
			"{{if true}}{{else}}{{.%s | html}}{{end}}", "{{with .Text}}{{$.%s}}{{end}}", "{{print (or .Text .%s)}}"} {
			source := fmt.Sprintf(form, v.name)
			for _, tpl := range []notify.Template{{Subject: source}, {Text: source}, {HTML: source}} {
				c, err := Compile(tpl)
				if err != nil {
					t.Fatal(err)
				}
				want := want
				if v.name == "UnsubscribeURL" { // a mark can stand in for it where it is only shown
					want = tpl.Subject != "" || strings.Contains(form, "html") || strings.Contains(form, "or")
				}
				if c.Personal() != want {
					t.Errorf("%+v: personal is %v", tpl, c.Personal())
				}
			}
		}
	}
	c, err := Compile(Default())
	if err != nil || c.Personal() {
		t.Errorf("the default template is personal, %v", err)
	}
	c, err = Compile(notify.Template{HTML: "{{with .HTMLComponents}}{{.Head}}{{end}}{{/* .To */}} .To"})
	if err != nil || c.Personal() {
		t.Errorf("a template that names no recipient is personal, %v", err)
	}
}

// Personal agrees with rendering: two recipients get the same body of a template
// that is not personal.
func TestPersonalProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		one := rapid.Custom(func(r *rapid.T) string {
			v := rapid.SampledFrom(variables).Draw(r, "variable")
			forms := []string{"{{.%s}}", "{{if .%s}}a{{else}}b{{end}}", "{{with .%s}}{{.}}{{end}}", `<a title="{{.%s}}">`,
				`<a href="https://x.example/?q={{.%s}}">`}
			if v.kind != kindTime {
				forms = append(forms, "{{if eq .%s \"x\"}}c{{end}}", "{{len .%s}}")
			}
			return fmt.Sprintf(rapid.SampledFrom(forms).Draw(r, "form"), v.name)
		})
		tpl := notify.Template{Subject: one.Draw(r, "subject"), Text: one.Draw(r, "text"), HTML: one.Draw(r, "html") +
			one.Draw(r, "html2")}
		c, err := Compile(tpl)
		if err != nil {
			r.Fatal(err)
		}
		v := sample(Values{UnsubscribeURL: notify.UnsubscribeMark})
		a, err := c.Render(v)
		if errors.Is(err, ErrPersonal) && c.Personal() {
			return
		}
		if err != nil {
			r.Fatal(err)
		}
		v.To, v.UserGUID, v.MessageID, v.UnsubscribeID = "x", "x", "x", "x"
		b, err := c.Render(v)
		if err != nil {
			r.Fatal(err)
		}
		if *a != *b && !c.Personal() {
			r.Fatalf("%+v is shared, but gives\n%+v\n%+v", tpl, a, b)
		}
	})
}

func TestEscapingByPlace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ source, text, want string }{
		{`<p>{{.Text}}</p>`, `<b>&"'`, `<p>&lt;b&gt;&amp;&#34;&#39;</p>`},
		{`<p>{{.Text | html}}</p>`, `<b>`, `<p>&lt;b&gt;</p>`},
		{`<p title="{{.Text}}">x</p>`, `" onclick="x`, `<p title="&#34; onclick=&#34;x">x</p>`},
		{`<p title='{{.Text}}'>x</p>`, `' onclick='x`, `<p title="&#39; onclick=&#39;x">x</p>`},
		{`<p title={{.Text}}>x</p>`, `a onclick=x`, `<p title="a onclick=x">x</p>`},
		{`<a href="{{.Text}}">x</a>`, `https://x.example/a b?c=d&e="f"#g`,
			`<a href="https://x.example/a%20b?c=d&amp;e=%22f%22#g">x</a>`},
		{`<a href="{{.Text}}">x</a>`, `javascript:alert(1)`, `<a>x</a>`},
		{`<a href="{{.Text}}">x</a>`, " JaVa\tScRipt:alert(1)", `<a>x</a>`},
		{`<a href=" {{.Text}}">x</a>`, `javascript:alert(1)`, `<a>x</a>`},
		{`<a href="java{{.Text}}">x</a>`, `script:alert(1)`, `<a>x</a>`},
		{`<a href="{{.Text}}:alert(1)">x</a>`, `javascript`, `<a>x</a>`},
		{`<a href="https://x.example/?q={{.Text}}&r=1">x</a>`, `a&b=c#d e`,
			`<a href="https://x.example/?q=a%26b%3Dc%23d%20e&amp;r=1">x</a>`},
		{`<a href="https://x.example/{{.Text}}">x</a>`, `a/b c`, `<a href="https://x.example/a/b%20c">x</a>`},
		{`<img src="{{.Text}}">`, `data:text/html,x`, `<img>`},
		{`<img src="{{.Text}}">`, `data:image/png;base64,iVBO+w0K/A==`, `<img src="data:image/png;base64,iVBO+w0K/A==">`},
		{`<img src="{{.Text}}">`, `cid:x@y`, `<img src="cid:x@y">`},
		{`<p style="color:{{.Text}}">x</p>`, `#ff0000`, `<p style="color:#ff0000">x</p>`},
		{`<p style="color:{{.Text}}">x</p>`, `red;background:url(//evil.example)`, `<p style="color:">x</p>`},
		{`<p style="a:exp{{.Text}}(1)">x</p>`, `ression`, `<p>x</p>`},
		{`<style>p{color:{{.Text}}}</style>`, `blue`, `<style>p{color:blue}</style>`},
		{`<style>p{color:{{.Text}}}</style>`, `</style><script>x</script>`, `<style>p{color:}</style>`},
		{`<script>var x = "{{.Text}}"</script>y`, `"`, `y`},
		{`<p onclick="{{.Text}}">x</p>`, `alert(1)`, `<p>x</p>`},
		{`<{{.Text}}>x`, `script`, `x`},
		{`<p {{.Text}}>x</p>`, `onclick=x`, `<p>x</p>`},
		{`<p {{.Text}}="a">x</p>`, `title`, `<p>x</p>`},
		{`<p on{{.Text}}="a">x</p>`, `click`, `<p>x</p>`},
		{`<scr{{/* split */}}ipt>x</script>y`, ``, `y`},
		{`<textarea>{{.Text}}</textarea>`, `</textarea><script>`, `<textarea>&lt;/textarea&gt;&lt;script&gt;</textarea>`},
		{`<!-- {{.Text}} -->x`, `--><script>`, `x`},
		{`<!--[if mso]><b title="{{.Text}}">{{.Text}}</b><![endif]-->x`, `--><i>`,
			`<!--[if mso]><b title="--&gt;&lt;i&gt;">--&gt;&lt;i&gt;</b><![endif]-->x`},
		{`<meta http-equiv="content-type" content="{{.Text}}">x`, `text/html; charset=utf-7`, `x`},
		{`<meta http-equiv="{{.Text}}" content="0;url=https://evil.example">x`, `refresh`, `x`},
		{`<meta name="description" content="{{.Text}}">x`, `a"b`, `<meta name="description" content="a&#34;b">x`},
		{`<form action="{{.Text}}"></form>`, `javascript:x`, `<form></form>`},
		{`<img srcset="{{.Text}} 1x">`, `a, javascript:x`, `<img srcset="a%2C%20javascript%3Ax 1x">`},
		{`{{.HTML}}<p title="{{.HTML}}">{{print .HTML}}</p>`, ``,
			`<i>given</i><p title="&lt;i&gt;given&lt;/i&gt;">&lt;i&gt;given&lt;/i&gt;</p>`},
		{`{{or .Space .HTML}}`, ``, `<i>given</i>`},
		{`{{with .HTML}}{{.}}{{end}}`, ``, `<i>given</i>`},
		{`<td {{.HTMLComponents.BodyAttributes}}>x</td>`, ``, `<td>x</td>`},
		{`<p>{{.Text}}</p>`, "nul\x00\x1b[31m\xff", `<p>nul[31m�</p>`},
	} {
		got := page(t, test.source, Values{Text: test.text})
		if got != test.want {
			t.Errorf("%s with %q\ngot  %s\nwant %s", test.source, test.text, got, test.want)
		}
		if found := active(t, got); len(found) > 0 {
			t.Errorf("%s with %q gives %s with %q", test.source, test.text, got, found)
		}
	}
}

// No value creates active content, wherever it is inserted.
func TestNothingActiveComesOut(t *testing.T) {
	t.Parallel()
	forms := []string{
		"{{.%s}}", `<a href="{{.%s}}">`, `<a href={{.%s}}>`, `<a title='{{.%s}}'>`, `<img src="{{.%s}}">`,
		`<p style="{{.%s}}">`, `<style>{{.%s}}</style>`,
		`<p {{.%s}}>`, `<{{.%s}}>`, `<!--[if mso]>{{.%s}}<![endif]-->`, `<title>{{.%s}}</title>`, `<td background="{{.%s}}">`,
		`<a href="x{{.%s}}`, `">`, `<!--{{.%s}}`,
		`<script>{{.%s}}</script>`, `<svg>{{.%s}}`, `<meta http-equiv="{{.%s}}" content="0;url={{.Text}}">`,
		`<link rel="{{.%s}}" href="https://x">`, `<input type={{.%s}} `,
	}
	hostile := append([]string{
		`"><script>alert(1)</script>`, `'><img src=x onerror=alert(1)>`, `javascript:alert(1)`, `refresh`, `import`,
		`--><script>`, `]]>`, `expression(1)`,
		`onclick=alert(1)`, `script`, `</style><script>`, `url(javascript:x)`, `</title><script>`, "java\tscript:x",
		`data:text/html,<script>x</script>`,
	}, vectors...)
	rapid.Check(t, func(r *rapid.T) {
		var source strings.Builder
		for _, f := range rapid.SliceOfN(rapid.SampledFrom(forms), 1, 5).Draw(r, "forms") {
			if strings.Contains(f, "%s") {
				f = fmt.Sprintf(f, rapid.SampledFrom([]string{"Text", "Subject", "HTML", "HTMLComponents.BodyAttributes",
					"HTMLComponents.Head", "HTMLComponents.Doctype"}).Draw(r, "variable"))
			}
			source.WriteString(f)
		}
		v := Values{
			Text: rapid.SampledFrom(hostile).Draw(r, "text"), Subject: rapid.SampledFrom(hostile).Draw(r, "subject"),
			HTML: rapid.SampledFrom(hostile).Draw(r, "html") + "x",
		}
		c, err := Compile(notify.Template{HTML: source.String()})
		if err != nil {
			r.Fatal(err)
		}
		b, err := c.Render(v)
		if err != nil {
			r.Fatal(err)
		}
		if found := active(t, b.HTML); len(found) > 0 {
			r.Fatalf("%s with %+v\ngives %s\nwith %q", source.String(), v, b.HTML, found)
		}
	})
}

func TestParts(t *testing.T) {
	t.Parallel()
	both := notify.Template{Subject: "{{.Subject}}", Text: "T:{{.Text}}", HTML: "H:{{.HTML}}"}
	wrapped := func(s string) string { return "<html>\n<head></head>\n<body>\n" + s + "\n</body>\n</html>\n" }
	for name, test := range map[string]struct {
		tpl  notify.Template
		v    Values
		want notify.Body
	}{
		"text only": {both, Values{Subject: "s", Text: "a"}, notify.Body{Subject: "s", Text: "T:a"}},
		"html only": {both, Values{Subject: "s", HTML: "<p>a</p>"}, notify.Body{Subject: "s", Text: "T:a",
			HTML: wrapped("H:<p>a</p>")}},
		"both": {both, Values{Subject: "s", Text: "x", HTML: "<p>a</p>"},
			notify.Body{Subject: "s", Text: "T:x", HTML: wrapped("H:<p>a</p>")}},
		"html of nothing": {both, Values{Subject: "s", HTML: "<script>x</script>", Text: "a"},
			notify.Body{Subject: "s", Text: "T:a"}},
		"no subject": {both, Values{Subject: " \r\n", Text: "a"}, notify.Body{Subject: "[no subject]",
			Text: "T:a"}},
		"text template, html": {notify.Template{Subject: "s", Text: "T:{{.Text}}"}, Values{HTML: "<p>a</p>"},
			notify.Body{Subject: "s", Text: "T:a"}},
		"html template, text": {notify.Template{Subject: "s", HTML: "H:{{.HTML}}"}, Values{Text: "a"},
			notify.Body{Subject: "s", Text: "a"}},
		"html template, html": {notify.Template{Subject: "s", HTML: "H:{{.HTML}}"}, Values{HTML: "<p>a</p>"},
			notify.Body{Subject: "s", Text: "H:\n\na", HTML: wrapped("H:<p>a</p>")}},
		"text template of blank": {notify.Template{Subject: "s", Text: "{{if .Scope}}x{{end}}\n", HTML: "H"},
			Values{Text: "a"}, notify.Body{Subject: "s", Text: "a"}},
		"nothing at all": {notify.Template{}, Values{}, notify.Body{Subject: "[no subject]", Text: "[no subject]"}},
		"injection": {both, Values{Subject: "a\r\nBcc: x@y\x00\u2028z", Text: "a\x00b\n"},
			notify.Body{Subject: "a  Bcc: x@y z", Text: "T:ab"}},
	} {
		if got := render(t, test.tpl, test.v); *got != test.want {
			t.Errorf("%s:\ngot  %+q\nwant %+q", name, *got, test.want)
		}
	}
}

func TestWrapping(t *testing.T) {
	t.Parallel()
	given := `<!DOCTYPE html><html lang="de"><head><style>p{color:red}</style></head><body class="c" onload="x"><p>a</p></body></html>`
	for source, want := range map[string]string{
		`<i>x</i>{{.HTML}}`: "<!DOCTYPE html>\n<html lang=\"de\">\n<head><style>p{color:red}</style></head>\n<body " +
			"class=\"c\">\n<i>x</i><p>a</p>\n</body>\n</html>\n",
		`<html><head><title>t</title></head><body id="b">{{.HTML}}</body></html>`:                                                                                      `<html><head><title>t</title><style>p{color:red}</style></head><body id="b"><p>a</p></body></html>`,
		`{{.HTMLComponents.Doctype}}<html><head>{{.HTMLComponents.Head}}</head><body {{.HTMLComponents.BodyAttributes}}>{{.HTMLComponents.BodyContent}}</body></html>`: `<!DOCTYPE html><html><head><style>p{color:red}</style></head><body class="c"><p>a</p></body></html>`,
		`<html><body>{{.HTML}}</body></html>`: `<html><style>p{color:red}</style><body><p>a</p></body></html>`,
		`<!DOCTYPE html>{{.HTML}}`:            `<!DOCTYPE html><p>a</p>`,
	} {
		if got := render(t, notify.Template{HTML: source}, Values{HTML: given}).HTML; got != want {
			t.Errorf("%s\ngot  %q\nwant %q", source, got, want)
		}
	}
}

func TestEndorse(t *testing.T) {
	t.Parallel()
	space := notify.Audience{Type: notify.ToSpace, SpaceName: `sp"c`, OrgName: "org"}
	org := notify.Audience{Type: notify.ToOrg, OrgName: "org"}
	role := notify.Audience{Type: notify.ToOrg, OrgName: "org", Role: "OrgManager"}
	for _, test := range []struct {
		a      notify.Audience
		v1, v2 string
	}{
		{notify.Audience{Type: notify.ToUser}, "This message was sent directly to you.", ""},
		{notify.Audience{Type: notify.ToEmail}, "This message was sent directly to your email address.", ""},
		{notify.Audience{Type: notify.ToEveryone}, "This message was sent to everyone.", ""},
		{notify.Audience{Type: notify.ToScope, ID: "a.b"}, "You received this message because you have the a.b scope.", ""},
		{space, `You received this message because you belong to the "sp"c" space in the "org" organization.`,
			`You received this message because you belong to the "sp\"c" space in the "org" organization.`},
		{org, `You received this message because you belong to the "org" organization.`,
			`You received this message because you belong to the org organization.`},
		{role, `You received this message because you are an OrgManager in the "org" organization.`,
			`You received this message because you are an OrgManager in the org organization.`},
	} {
		if test.v2 == "" {
			test.v2 = test.v1
		}
		if got := Endorse(test.a, false); got != test.v1 {
			t.Errorf("v1: %s", got)
		}
		if got := Endorse(test.a, true); got != test.v2 {
			t.Errorf("v2: %s", got)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 200<<10)
	for _, tpl := range []notify.Template{
		{Text: strings.Repeat("{{.Text}}", 100)}, {HTML: strings.Repeat("{{.Text}}", 100)},
		{HTML: strings.Repeat("{{.HTML}}", 100)},
		{Text: `{{if eq (html .Text) "a"}}x{{end}}` + strings.Repeat(`{{if eq (html .Text) "a"}}x{{end}}`, 200)},
		{Subject: strings.Repeat("{{.Text}}", 100)},
	} {
		c, err := Compile(tpl)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Render(Values{Text: big, HTML: big})
		if !fault.Is(err, fault.Unprocessable) || !errors.Is(err, errTooLarge) && !errors.Is(err, errWork) {
			t.Errorf("rendering %.40s: error is %v, want too large or too much work", tpl.Text+tpl.HTML+tpl.Subject, err)
		}
	}
	doubling := notify.Template{Text: `{{"\\"` + strings.Repeat(" | js", 60) + "}}"}
	if err := Check(doubling); !errors.Is(err, errWork) {
		t.Errorf("doubling: %v", err)
	}
	if s := render(t, notify.Template{Subject: "{{.Subject}}"}, Values{Subject: strings.Repeat("ä", 5000)}).
		Subject; len(s) > maxSubject || strings.Contains(s, "�") {
		t.Errorf("a subject of %d bytes", len(s))
	}
}

// A template with more paths than are cached renders correctly.
func TestManyPaths(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for i := range 9 {
		fmt.Fprintf(&source, `{{if ge (len .Text) %d}}<b title="{{.To}}">%d</b>{{end}}{{if eq .Text "%s"}}!{{end}}`, i, i,
			strings.Repeat("x", i))
	}
	c, err := Compile(notify.Template{HTML: source.String() + `{{if eq .To "never"}}{{end}}`})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 9 {
				v := Values{Text: strings.Repeat("x", i), To: fmt.Sprint(worker), HTML: "x"}
				if i == 0 {
					v.Text = "y"
				}
				b, err := c.Render(v)
				if err != nil {
					t.Error(err)
					return
				}
				if n := strings.Count(b.HTML, fmt.Sprintf(`<b title="%d">`, worker)); n != max(i, 1)+1 {
					t.Errorf("%d of %d: %s", n, i, b.HTML)
				}
			}
		})
	}
	all.Wait()
}

func TestPreview(t *testing.T) {
	t.Parallel()
	b, err := Preview(Default(), Values{Subject: "Mine"})
	if err != nil || b.Subject != "CF Notification: Mine" || !strings.Contains(b.HTML, "sample message") ||
		!strings.Contains(b.Text, "sample message") {
		t.Errorf("preview is %+v, %v, want subject Mine and the sample message", b, err)
	}
	if _, err := Preview(notify.Template{HTML: "{{"}, Values{}); !fault.Is(err, fault.Unprocessable) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkRender(b *testing.B) {
	layout := layouts["document"] + strings.Repeat(layouts["table"], 50)
	personal := Default()
	personal.HTML = `<p>{{.Endorsement}}</p>{{.HTML}}<p><a href="https://x.example/unsubscribe?id={{.UnsubscribeID}}">{{.To}}</a></p>`
	personal.Text += "\n{{.To}}"
	fancy := personal
	fancy.HTML = layouts["document"] + strings.Repeat(layouts["table"]+
		`{{if .To}}<p style="color:red" title="{{.To}}">{{.Text}}</p>{{end}}`, 20)
	for name, bench := range map[string]struct {
		tpl  notify.Template
		html string
	}{"default": {Default(), "<p>Hello <b>you</b></p>"}, "personal": {personal, "<p>Hello <b>you</b></p>"},
		"personal/15KB": {personal, layout}, "fancy": {fancy, layout}} {
		b.Run(name, func(b *testing.B) {
			c, err := Compile(bench.tpl)
			if err != nil {
				b.Fatal(err)
			}
			v := sample(Values{HTML: bench.html})
			for b.Loop() {
				if _, err := c.Render(v); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "renders/s")
		})
	}
}
