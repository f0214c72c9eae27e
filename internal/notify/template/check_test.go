package template

import (
	"errors"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const malformed = " syntax is malformed please check your braces (at "
	for _, test := range []struct {
		source string
		want   string // after the part's name; empty means valid
	}{
		{"", ""},
		{"no braces } at { all }}", ""},
		{"{{.Subject}} {{ .Text }} {{- .HTML -}}", ""},
		{"{{/* a comment */}}x{{- /* .Bogus */ -}}", ""},
		{"{{if .Space}}{{.Space}}{{else if .Scope}}{{.Scope}}{{else}}x{{end}}", ""},
		{"{{with .Space}}{{.}}{{$.To}}{{else}}{{.To}}{{end}}", ""},
		{"{{with .HTMLComponents}}{{.Head}}{{end}}{{(.HTMLComponents).Doctype}}", ""},
		{`{{if and .Space (not .Scope) (eq .OrganizationRole "OrgManager" "x")}}{{end}}`, ""},
		{`{{.Text | urlquery | printf "%s-%q" "a"}}{{print .To 1 true}}{{len .Text}}{{if gt (len .Text) 3}}{{end}}`, ""},
		{"{{ \"}}\" }}{{ `{{` }}", ""},
		{"{{if $}}{{end}}{{with .}}{{.To}}{{end}}", ""},

		{"a\nbc {{.Text", malformed + "2:4: the braces are not closed: }} is missing)"},
		{"{{.Text {{.HTML}}", malformed + "1:1: the braces are not closed: the next {{ follows before }})"},
		{"{{if .Text}}\nx", malformed + "1:1: this {{if}} has no {{end}})"},
		{"ü{{end}}", malformed + "1:2: end without if, with or range)"},
		{"{{else}}", malformed + "1:1: else without if, with or range)"},
		{"{{if .Text}}{{else}}{{else}}{{end}}", malformed + "1:21: "},
		{"x\n{{.Text}}\n  {{.Text)}}", malformed + "3:3: "},
		{"{{}}", malformed + "1:1: "},
		{`{{"abc}}`, malformed + "1:3: the string is not closed)"},
		{"{{/* x }}", malformed + "1:1: the comment is not closed"},
		{"{{/* x */ y}}", malformed + "1:1: a comment must be alone"},
		{"{{bogus .Text}}", malformed + `1:3: function "bogus" not defined; available are and, date, default, eq,`},
		{"{{call .Text}}", malformed + `1:3: function "call" not defined`},
		{"{{index .Text 0}}", ` cannot be used (at 1:3: index needs a list`},
		{"{{.Text | env}}", malformed + `1:11: function "env" not defined`},

		{"x\n{{.Bogus}}", " cannot be used (at 2:3: unknown variable .Bogus; known are .From"},
		{"{{.OrganizationName}}", " cannot be used (at 1:3: unknown variable .OrganizationName"},
		{"{{.Text.Length}}", " cannot be used (at 1:"},
		{"{{.HTMLComponents.Bogus}}", " cannot be used (at 1:"},
		{"{{.HTMLComponents}}", " cannot be used (at 1:3: .HTMLComponents has several values"},
		{"{{.}}", " cannot be used (at 1:3: . has several values"},
		{"{{with .Text}}{{.To}}{{end}}", " cannot be used (at 1:17: unknown variable .To"},
		{"{{range .Text}}{{end}}", ` cannot be used (at 1:9: .Text is not a list`},
		{`{{template "x"}}`, ` cannot be used (at 1:12: there is no partial "x": `},
		{`{{define "x"}}{{template "x"}}{{end}}`, ` cannot be used (at 1:15: "x" is defined, but nothing uses it`},
		{"{{$x := .Text}}", " cannot be used (at 1:"},
		{"{{if $x := .Text}}{{$x}}{{end}}", " cannot be used (at 1:"},
		{`{{printf "%999999999d" 1}}`, " cannot be used (at 1:3: printf supports"},
		{`{{printf "%*d" 1 2}}`, " cannot be used (at 1:3: printf supports"},
		{`{{printf .Text}}`, " cannot be used (at 1:3: printf needs its format"},
		{`{{printf "%s"}}`, " cannot be used (at 1:3: printf has 1 verb(s) for 0"},
		{`{{eq .Text 1}}`, " cannot be used (at 1:3: eq cannot compare"},
		{`{{len 1}}`, " cannot be used (at 1:3: len needs a string"},
		{`{{not}}`, " cannot be used (at 1:3: not needs at least 1"},
		{`{{eq . .}}`, " cannot be used (at 1:"},
		{`{{.Text "x"}}`, " cannot be used (at 1:3: .Text is not a function"},
		{`{{1.5}}`, " cannot be used (at 1:3: 1.5 is not an integer"},
		{`{{print nil}}`, " cannot be used (at 1:"},
		{strings.Repeat("{{.To}}", maxActions+1), " cannot be used (at 1:35001: there are more than"},
		{"{{" + strings.Repeat("(", 100000) + ".To" + strings.Repeat(")", 100000) + "}}",
			" cannot be used (at 1:53: parentheses are nested"},
		{strings.Repeat("{{if .To}}", 4000) + strings.Repeat("{{end}}", 4000),
			" cannot be used (at 1:1001: if, with, range and block are nested"},
		{"{{if .To}}" + strings.Repeat("{{else if .To}}", 4000) + "{{end}}",
			" cannot be used (at 1:1496: if, with, range and block are nested"},
		{strings.Repeat("x", maxSource+1), " cannot be used (at 1:1: it is longer"},
	} {
		for part, tpl := range map[string]notify.Template{"Subject": {Subject: test.source}, "Text": {Text: test.source},
			"HTML": {HTML: test.source}} {
			err := Check(tpl)
			if test.want == "" {
				if err != nil {
					t.Errorf("checking %.80q: %v", test.source, err)
				}
				continue
			}
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != fault.Unprocessable || !strings.HasPrefix(f.Message, part+test.want) {
				t.Errorf("%.80q:\ngot  %v\nwant %s", test.source, err, part+test.want)
			}
		}
	}
	err := Check(notify.Template{Subject: "{{", Text: "{{.Bogus}}", HTML: "{{end}}"})
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Messages()) != 3 {
		t.Errorf("not all parts are named: %v", err)
	}
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	v := Values{Subject: "s", Text: `a&"b`, Space: "sp", OrganizationRole: "OrgManager"}
	for source, want := range map[string]string{
		`{{.Text}}`: `a&"b`,
		`{{.Text | html}} {{.Text | urlquery}} {{.Text | js}}`:           `a&amp;&#34;b a%26%22b a\u0026\"b`,
		`{{printf "%s|%q|%d|%t|%v|%%" .Space .Space 3 true .Text}}`:      `sp|"sp"|3|true|a&"b|%`,
		`{{print .Space "-" 1}}{{println 1 2}}x`:                         "sp-11 2\nx",
		`{{if .Scope}}1{{else if .Space}}2{{else}}3{{end}}`:              "2",
		`{{with .Scope}}1{{else with .Space}}{{.}}{{end}}`:               "sp",
		`{{and .Space .Scope}}|{{or .Scope .Space}}|{{not .Scope}}`:      "|sp|true",
		`{{eq .Space "sp"}}{{ne .Space "sp"}}{{eq .Space "x" "sp"}}`:     "truefalsetrue",
		`{{lt 1 2}}{{le 2 2}}{{gt 1 2}}{{ge .Space "so"}}{{len .Space}}`: "truetruefalsetrue2",
		`{{lt -9223372036854775808 9223372036854775807}}`:                "true",
		`a {{- .Space -}} b`:                  "aspb",
		`{{with .Space}}{{$.Subject}}{{end}}`: "s",
		`{{eq (or .Scope 1) .Space}}`:         "false",
		"{{`raw`}}{{\"\\u00e4\"}}{{'a'}}":     "rawä97",
		`{{.Subject}}` + "\n":                 "s",
	} {
		if got := render(t, notify.Template{Text: source}, v).Text; got != want {
			t.Errorf("%s\ngot  %q\nwant %q", source, got, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		"{{.Text}}", `{{if eq .To "x"}}<a href="{{.Text}}">{{else}}{{with .HTMLComponents}}{{.Head}}{{end}}{{end}}`,
		"{{/* x */}}", `{{printf "%q" .HTML | html}}`,
		"{{- .To -}}", "{{end}}", "{{`", "{{with .Text}}{{.}}{{$.To}}{{end}}",
		`<style>{{.Text}}</style><p style="{{.To}}" {{.To}}>`, "<!--[if mso]>{{.HTML}}<![endif]-->",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		tpl := notify.Template{Subject: source, Text: source, HTML: source}
		if Check(tpl) != nil {
			return
		}
		c, err := Compile(tpl)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []Values{{}, sample(Values{}), {Text: `<>"'\`, HTML: `<p title="x">y</p>`, To: "javascript:x"}} {
			b, err := c.Render(v)
			if errors.Is(err, errTooLarge) || errors.Is(err, errWork) {
				continue
			}
			if err != nil {
				t.Fatalf("%q passes Check and does not render: %v", source, err)
			}
			if strings.ContainsAny(b.Subject, "\r\n\x00") || b.Text == "" || b.Subject == "" {
				t.Fatalf("%q gives %+q", source, b)
			}
			if found := active(t, b.HTML); len(found) > 0 {
				t.Fatalf("%q gives %q with %q", source, b.HTML, found)
			}
			if strings.Contains(b.HTML, slotMark) {
				t.Fatalf("%q leaves a slot: %q", source, b.HTML)
			}
		}
	})
}
