package services

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// shapes describes the fields of a form in a line.
func shapes(fields []*field) string {
	var all []string
	for _, f := range fields {
		text := f.key + ":" + f.Kind
		if f.Required {
			text += "!"
		}
		if f.Value != "" {
			text += "=" + f.Value
		}
		if f.Kind == kindGroup {
			text += "(" + shapes(f.Fields) + ")"
		}
		for _, o := range f.Options {
			if o.Chosen {
				text += "=" + o.Value
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestSchemaForm(t *testing.T) {
	t.Parallel()
	const object = `{"type":"object","additionalProperties":false,`
	for _, test := range []struct {
		name, schema, shape string
		free                bool
		form                string
		want                string // JSON, or the problems after "! "
	}{
		{name: "no schema", free: true, form: `param={"a":[1,{"b":null}]}`, want: `{"a":[1,{"b":null}]}`},
		{name: "no schema, no text", schema: `{}`, free: true, want: `{}`},
		{name: "no schema, no JSON", schema: `{}`, free: true, form: `param={a:1}`, want: `! This is not JSON.`},
		{name: "no schema, two values", schema: `{}`, free: true, form: `param={} {}`, want: `! This is not JSON.`},
		{name: "no schema, no object", schema: `null`, free: true, form: `param=[1]`, want: `! This must be a JSON object`},
		{name: "no parameters", schema: object + `"properties":{}}`, form: `param={"a":1}`, want: `{}`},
		{
			name: "scalars", schema: object + `"required":["name"],"properties":{"name":{"type":"string"},"size":{"type":"integer","default":3},"rate":{"type":"number"},"on":{"type":"boolean","default":true}}}`,
			shape: "name:text! on:check=true rate:number size:number=3", form: "param/name= x %26 <y>&param/size=10&param/rate=1.50", want: `{"name":" x \u0026 \u003cy\u003e","on":false,"rate":1.50,"size":10}`,
		},
		{name: "left out", schema: object +
			`"properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"},"d":{"enum":["x"]}}}`,
			shape: "a:text b:number c:select d:select", form: "param/a=&param/b=+&param/c=&param/d=", want: `{}`},
		{name: "required", schema: object + `"required":["a"],"properties":{"a":{"type":"string"}}}`, shape: "a:text!",
			want: `! This is required.`},
		{name: "no number", schema: object + `"properties":{"n":{"type":"number"}}}`, shape: "n:number", form: "param/n=ten",
			want: `! This must be a number`},
		{name: "no number but JSON", schema: object + `"properties":{"n":{"type":"number"}}}`, shape: "n:number",
			form: "param/n=true", want: `! This must be a number`},
		{name: "no integer", schema: object + `"properties":{"n":{"type":"integer"}}}`, shape: "n:number",
			form: "param/n=1.5", want: `! This must be a whole number.`},
		{name: "large integer", schema: object + `"properties":{"n":{"type":"integer"}}}`, shape: "n:number",
			form: "param/n=-12345678901234567890", want: `{"n":-12345678901234567890}`},
		{name: "nullable", schema: object +
			`"properties":{"n":{"type":["integer","null"]},"m":{"type":["string","integer"]}}}`, shape: "m:json n:number",
			form: `param/n=1&param/m="x"`, want: `{"m":"x","n":1}`},
		{name: "enum of types", schema: object + `"properties":{"e":{"enum":["a",2,true,2],"default":2}}}`,
			shape: "e:select=2", form: "param/e=true", want: `{"e":true}`},
		{name: "enum of numbers", schema: object + `"properties":{"e":{"type":"integer","enum":[1,2]}}}`, shape: "e:select",
			form: "param/e=2", want: `{"e":2}`},
		{name: "none of an enum", schema: object + `"properties":{"e":{"enum":["a"]}}}`, shape: "e:select", form: "param/e=b",
			want: `! Choose one of the options.`},
		{name: "const", schema: object + `"properties":{"e":{"const":"a"}}}`, shape: "e:select", form: "param/e=a",
			want: `{"e":"a"}`},
		{name: "array of an enum", schema: object +
			`"properties":{"e":{"type":"array","items":{"type":"string","enum":["a","b","c"]},"default":["b"]}}}`,
			shape: "e:checks=b=b", form: "param/e=c&param/e=a&param/e=z", want: `{"e":["a","c"]}`},
		{name: "array of texts", schema: object + `"properties":{"e":{"type":"array","items":{"type":"string"}}}}`,
			shape: "e:lines", form: "param/e=a b%0d%0a%0d%0a c ", want: `{"e":["a b","c"]}`},
		{name: "array of integers", schema: object + `"properties":{"e":{"type":"array","items":{"type":"integer"}}}}`,
			shape: "e:lines", form: "param/e=1%0a2", want: `{"e":[1,2]}`},
		{name: "array of a wrong integer", schema: object + `"properties":{"e":{"type":"array","items":{"type":"integer"}}}}`,
			shape: "e:lines", form: "param/e=1%0ax", want: `! This must be a number`},
		{name: "required array", schema: object +
			`"required":["e"],"properties":{"e":{"type":"array","items":{"type":"string"}}}}`, shape: "e:lines!",
			want: `{"e":[]}`},
		{name: "array of objects", schema: object + `"properties":{"e":{"type":"array","items":{"type":"object"}}}}`,
			shape: "e:json", form: `param/e=[{"a":1}]`, want: `{"e":[{"a":1}]}`},
		{
			name: "object", schema: object + `"properties":{"o":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"deep":{"type":"object","properties":{"x":{}}}}}}}`,
			shape: "o:group(a:text! deep:json)", form: `param/o/a=1&param/o/deep={"x":2}`, want: `{"o":{"a":"1","deep":{"x":2}}}`,
		},
		{name: "object left out", schema: object +
			`"properties":{"o":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"boolean","default":false}}}}}`, shape: "o:group(a:text! b:select=false)", want: `{}`},
		{name: "part of an object", schema: object +
			`"properties":{"o":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"string"}}}}}`,
			shape: "o:group(a:text! b:text)", form: "param/o/b=x", want: `! See below. This is required.`},
		{name: "wrong JSON of a property", schema: object + `"properties":{"o":{"$ref":"#/definitions/x"}}}`, shape: "o:json",
			form: "param/o={", want: `! This is not JSON.`},
		{name: "more allowed", schema: `{"properties":{"a":{"type":"string"}}}`, shape: "a:text", free: true,
			form: `param/a=x&param={"b":1}`, want: `{"a":"x","b":1}`},
		{name: "given twice", schema: `{"properties":{"a":{"type":"string"}}}`, shape: "a:text", free: true,
			form: `param/a=x&param={"a":1}`, want: `! There is a field for a.`},
		{name: "names to escape", schema: object + `"properties":{"a/b~c":{"type":"string"}}}`, shape: "a/b~c:text",
			form: "param/a~1b~0c=x", want: `{"a/b~c":"x"}`},
		{name: "wrong default", schema: object +
			`"properties":{"a":{"type":"string","default":{"x":1}},"b":{"type":"integer","default":"x"},"c":{"enum":["x"],"default":"y"}}}`, shape: "a:text b:number c:select", want: `{}`},
		{name: "one of", schema: object + `"oneOf":[{}],"properties":{"a":{"type":"string"}}}`, shape: "a:text", free: true,
			want: `{}`},
		{name: "reference", schema: `{"$ref":"#/x","properties":{"a":{"type":"string"}}}`, free: true, want: `{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newSchemaForm(json.RawMessage(test.schema))
			if got := shapes(f.Fields); got != test.shape || f.Free != test.free {
				t.Errorf("the form is %q, free %t, want %q, %t", got, f.Free, test.shape, test.free)
			}
			form, err := url.ParseQuery(strings.ReplaceAll(test.form, "+", "%20"))
			if err != nil {
				t.Fatal(err)
			}
			parameters, ok := f.read(form)
			got := jsonText(parameters)
			if !ok {
				got = "! " + strings.TrimSpace(problems(f.Fields)+" "+f.Problem)
			}
			if got != test.want && !(strings.HasPrefix(test.want, "! ") && strings.HasPrefix(got, test.want)) {
				t.Errorf("%s becomes %s, want %s", test.form, got, test.want)
			}
			if _, err := core().Render("schemafields", f); err != nil {
				t.Error(err)
			}
		})
	}
}

func problems(fields []*field) string {
	var all []string
	for _, f := range fields {
		if f.Problem != "" {
			all = append(all, f.Problem)
		}
		if inner := problems(f.Fields); inner != "" {
			all = append(all, inner)
		}
	}
	return strings.Join(all, " ")
}

// TestSchemaFormKeeps checks that a form shows again what was typed.
func TestSchemaFormKeeps(t *testing.T) {
	t.Parallel()
	f := newSchemaForm(json.RawMessage(
		`{"properties":{"n":{"type":"integer","default":1},"s":{"type":"string"},"e":{"enum":["a","b"],"default":"a"},"l":{"type":"array","items":{"type":"string"}},"c":{"type":"array","items":{"enum":["x","y"]}}}}`))
	if _, ok := f.read(url.Values{"param/n": {"ten"}, "param/s": {`"><script>`}, "param/e": {"b"}, "param/l": {"1\r\n2"},
		"param/c": {"y"}, "param": {"{"}}); ok {
		t.Fatal("accepted")
	}
	b, err := core().Render("schemafields", f)
	if err != nil {
		t.Fatal(err)
	}
	html := string(b)
	for _, want := range []string{`value="ten"`, `&#34;&gt;&lt;script&gt;`, `<option value="b" selected>`,
		"1\n2</textarea>", `value="y" checked`, "This must be a number", "This is not JSON",
		`placeholder="{}" aria-invalid="true">{</textarea>`} {
		if !strings.Contains(html, want) {
			t.Errorf("%s is not in\n%s", want, html)
		}
	}
	if strings.Contains(html, `<option value="a" selected>`) {
		t.Error("the default is selected instead of what was chosen")
	}
}

// TestSchemaFormHostile gives schemas that no broker should have.
func TestSchemaFormHostile(t *testing.T) {
	t.Parallel()
	many := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, ",")
	}
	for name, schema := range map[string]string{
		"deep nesting": strings.Repeat(`{"type":"object","properties":{"a":`, 4000) + `{}` + strings.Repeat(`}}`, 4000),
		"deep arrays": `{"properties":{"a":` + strings.Repeat(`{"type":"array","items":`, 4000) + `{}` +
			strings.Repeat(`}`, 4000) + `}}`,
		"huge enum":       `{"properties":{"a":{"enum":[` + many(100_000, `"v%d"`) + `]}}}`,
		"many properties": `{"properties":{` + many(10_000, `"p%d":{"type":"string"}`) + `}}`,
		"many nested": `{"properties":{"o":{"type":"object","properties":{` +
			many(10_000, `"p%d":{"type":"string"}`) + `}}}}`,
		"wrong types":      `{"type":7,"properties":{"a":[],"b":"x","c":null,"d":{"type":{}},"e":{"type":[1]},"f":{"enum":"x"},"g":{"enum":[{},[],null]},"h":{"type":"array","items":[1]},"i":{"type":"object","properties":3},"j":{"type":"number","minimum":"x","maximum":{}},"k":{"title":3,"description":[]}},"required":"a","additionalProperties":"no"}`,
		"wrong required":   `{"properties":{"a":{"type":"string"}},"required":[1,null,{},"z"]}`,
		"wrong properties": `{"type":"object","properties":[1,2]}`,
		"a list":           `[1,2]`,
		"true":             `true`,
		"cut off":          `{"properties":{"a":`,
		"not UTF-8":        "{\"properties\":{\"\xff\":{\"type\":\"string\"}}}",
		"long texts":       `{"properties":{"a":{"type":"string","description":"` + strings.Repeat("ä", 100_000) + `"}}}`,
		"hostile texts":    `{"properties":{"</textarea><script>alert(1)</script>":{"type":"string","default":"\"><script>alert(2)</script>","description":"<img onerror=alert(3)>"}}}`,
		"empty names":      `{"properties":{"":{"type":"object","properties":{"":{"type":"string"}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSchemaForm(json.RawMessage(schema))
			b, err := core().Render("schemafields", f)
			if err != nil {
				t.Fatal(err)
			}
			if len(b) > 100_000 || strings.Contains(string(b), "<script>alert") {
				t.Errorf("the form has %d bytes: %.300s", len(b), b)
			}
			f.read(url.Values{"param": {"{}"}})
		})
	}
}

func FuzzSchemaForm(f *testing.F) {
	f.Add(`{"properties":{"a":{"type":"array","items":{"enum":[1]}},"o":{"type":"object","properties":{"b":{"type":"boolean"}}}}}`, "param/a=1&param/o/b=true&param={}")
	f.Fuzz(func(t *testing.T, schema, typed string) {
		form, _ := url.ParseQuery(typed)
		made := newSchemaForm(json.RawMessage(schema))
		parameters, ok := made.read(form)
		if _, err := json.Marshal(parameters); ok && err != nil {
			t.Errorf("%v cannot be sent: %v", parameters, err)
		}
		if _, err := core().Render("schemafields", made); err != nil {
			t.Error(err)
		}
	})
}
