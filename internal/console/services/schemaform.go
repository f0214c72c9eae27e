package services

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/console/page"
)

const (
	// maxFields is how many properties of an object get fields. Beyond that, one field for JSON
	// is easier to fill in.
	maxFields = 60
	// maxOptions is how many values of an enum are offered as options.
	maxOptions = 200
	// paramField is the name of the field for JSON, and the first part of the names of fields.
	paramField = "param"
	// maxHelp limits the text beside a field.
	maxHelp = 600
)

// Kinds of fields.
const (
	kindText   = "text"
	kindNumber = "number"
	kindCheck  = "check"  // a check box
	kindSelect = "select" // one of some values
	kindLines  = "lines"  // an array, a value on each line
	kindChecks = "checks" // an array of some values
	kindJSON   = "json"   // anything else
	kindGroup  = "group"  // an object
)

// schemaForm is a form for the parameters that a JSON schema describes. The broker's schema is
// foreign text: whatever it contains, the result is a form, at worst one field for JSON.
type schemaForm struct {
	Fields []*field
	Free   bool   // there is a field for parameters that the others do not cover
	Text   string // what it contains
	// Problem says what is wrong with Text.
	Problem string
}

// Empty reports whether no parameters are allowed.
func (f *schemaForm) Empty() bool { return !f.Free && len(f.Fields) == 0 }

// field is an input for a value.
type field struct {
	Name     string // of the input
	Label    string
	Help     string
	Kind     string
	Required bool
	Must     bool // the browser demands a value
	Value    string
	Step     string
	Min, Max string
	Options  []page.Option
	Fields   []*field // of a group
	Problem  string
	key      string
	integer  bool
	numbers  bool // the values of an array are numbers
}

// newSchemaForm returns the form of a schema.
func newSchemaForm(raw json.RawMessage) *schemaForm {
	free := &schemaForm{Free: true}
	value, err := decodeJSON(string(raw))
	schema, ok := value.(map[string]any)
	if err != nil || !ok {
		return free
	}
	properties, ok := schema["properties"].(map[string]any)
	kind := typeOf(schema)
	if !ok || schema["$ref"] != nil || kind != "" && kind != "object" || len(properties) > maxFields {
		return free
	}
	f := &schemaForm{Free: schema["additionalProperties"] != false || complicated(schema)}
	f.Fields = fieldsOf(paramField, schema, properties, true, false)
	return f
}

// fieldsOf returns the fields of an object's properties, required ones first.
func fieldsOf(prefix string, schema, properties map[string]any, demanded, nested bool) []*field {
	required := map[string]bool{}
	names, _ := schema["required"].([]any)
	for _, one := range names {
		if name, ok := one.(string); ok {
			required[name] = true
		}
	}
	var fields []*field
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		of, _ := properties[key].(map[string]any)
		f := &field{
			Name: prefix + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key), key: key, Label: key,
			Help: helpOf(of), Required: required[key], Must: required[key] && demanded,
		}
		f.shape(of, nested)
		fields = append(fields, f)
	}
	slices.SortStableFunc(fields, func(a, b *field) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return fields
}

func helpOf(schema map[string]any) string {
	title, _ := schema["title"].(string)
	about, _ := schema["description"].(string)
	text := strings.TrimSpace(title)
	if about = strings.TrimSpace(about); about != "" && text != "" {
		text += ": " + about
	} else {
		text += about
	}
	if runes := []rune(text); len(runes) > maxHelp {
		text = string(runes[:maxHelp]) + "…"
	}
	return text
}

// complicated reports whether a schema has parts that fields cannot express.
func complicated(schema map[string]any) bool {
	return slices.ContainsFunc([]string{"$ref", "oneOf", "anyOf", "allOf", "not", "patternProperties"},
		func(key string) bool { return schema[key] != nil })
}

// typeOf returns the type of a schema, without null; "" if it has none or several.
func typeOf(schema map[string]any) string {
	switch t := schema["type"].(type) {
	case string:
		return t
	case []any:
		found := ""
		for _, one := range t {
			name, ok := one.(string)
			if !ok || found != "" && name != "null" {
				return ""
			}
			if name != "null" {
				found = name
			}
		}
		return found
	}
	return ""
}

// shape sets the kind of a field, and the value that it has at first.
func (f *field) shape(schema map[string]any, nested bool) {
	f.Kind = kindJSON
	given, hasDefault := schema["default"]
	defer func() {
		if hasDefault && given != nil {
			f.preset(given)
		}
	}()
	if complicated(schema) {
		return
	}
	if options := optionsOf(schema); options != nil {
		f.Kind, f.Options = kindSelect, options
		return
	}
	switch typeOf(schema) {
	case "string":
		f.Kind = kindText
	case "integer", "number":
		f.Kind, f.integer, f.Step = kindNumber, typeOf(schema) == "integer", "any"
		if f.integer {
			f.Step = "1"
		}
		f.Min, f.Max = numberText(schema["minimum"]), numberText(schema["maximum"])
	case "boolean":
		f.Kind = kindCheck
		if !f.Must && !(hasDefault && !nested) {
			// Not set is something else than false.
			f.Kind, f.Options = kindSelect, []page.Option{{Value: "true", Label: "true", JSON: true},
				{Value: "false", Label: "false", JSON: false}}
		}
	case "array":
		items, _ := schema["items"].(map[string]any)
		f.shapeArray(items)
	case "object":
		properties, ok := schema["properties"].(map[string]any)
		if ok && !nested && len(properties) > 0 && len(properties) <= maxFields {
			f.Kind = kindGroup
			f.Fields = fieldsOf(f.Name, schema, properties, f.Must, true)
		}
	}
}

func (f *field) shapeArray(items map[string]any) {
	if items == nil || complicated(items) {
		return
	}
	if f.Options = optionsOf(items); f.Options != nil {
		f.Kind = kindChecks
		return
	}
	switch typeOf(items) {
	case "string":
		f.Kind = kindLines
	case "integer", "number":
		f.Kind, f.numbers, f.integer = kindLines, true, typeOf(items) == "integer"
	}
}

// optionsOf returns the values of an enum; nil if there is none that options can express.
func optionsOf(schema map[string]any) []page.Option {
	values, _ := schema["enum"].([]any)
	if only, ok := schema["const"]; ok && values == nil {
		values = []any{only}
	}
	if len(values) > maxOptions {
		return nil
	}
	var options []page.Option
	for _, v := range values {
		text, ok := scalarText(v)
		if !ok {
			return nil
		}
		if text != "" && !slices.ContainsFunc(options, func(o page.Option) bool { return o.Value == text }) {
			options = append(options, page.Option{Value: text, Label: text, JSON: v})
		}
	}
	return options
}

func scalarText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return jsonText(v), true
	}
	return "", false
}

func numberText(v any) string {
	n, _ := v.(json.Number)
	return n.String()
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

// preset sets a default value, if it has the type of the field.
func (f *field) preset(v any) {
	text, scalar := scalarText(v)
	list, _ := v.([]any)
	switch f.Kind {
	case kindJSON:
		f.Value = jsonText(v)
	case kindText:
		if s, ok := v.(string); ok {
			f.Value = s
		}
	case kindNumber:
		if n, ok := v.(json.Number); ok {
			f.Value = n.String()
		}
	case kindCheck:
		if v == true {
			f.Value = "true"
		}
	case kindSelect:
		if scalar {
			f.choose([]string{text})
		}
	case kindLines, kindChecks:
		var texts []string
		for _, one := range list {
			if text, ok := scalarText(one); ok {
				texts = append(texts, text)
			}
		}
		f.Value = strings.Join(texts, "\n")
		f.choose(texts)
	}
}

func (f *field) choose(values []string) {
	for i := range f.Options {
		f.Options[i].Chosen = slices.Contains(values, f.Options[i].Value)
	}
}

// read sets what was typed, so that the form can be shown again, and returns the parameters;
// ok is false if a field has a problem.
func (f *schemaForm) read(form url.Values) (parameters map[string]any, ok bool) {
	parameters, ok = readFields(f.Fields, form, true)
	if !f.Free {
		return parameters, ok
	}
	f.Text, f.Problem = form.Get(paramField), ""
	more, err := objectOf(f.Text)
	if err != nil {
		f.Problem = err.Error()
		return parameters, false
	}
	for key, v := range more {
		if _, twice := parameters[key]; twice {
			f.Problem = "There is a field for " + key + "."
			return parameters, false
		}
		parameters[key] = v
	}
	return parameters, ok
}

// readFields reads fields of an object. Of an object that is not demanded, required fields
// may be empty if all are.
func readFields(fields []*field, form url.Values, demanded bool) (map[string]any, bool) {
	out, ok := map[string]any{}, true
	for _, f := range fields {
		f.Problem = ""
		v, set := f.read(form)
		if f.Problem != "" {
			ok = false
		}
		if set {
			out[f.key] = v
		}
	}
	if !demanded && len(out) == 0 {
		return out, ok
	}
	for _, f := range fields {
		if _, set := out[f.key]; f.Required && !set && f.Problem == "" {
			f.Problem, ok = "This is required.", false
		}
	}
	return out, ok
}

// read returns the value of a field; set is false if it is left out.
func (f *field) read(form url.Values) (v any, set bool) {
	f.Value = strings.ReplaceAll(form.Get(f.Name), "\r\n", "\n")
	switch f.Kind {
	case kindText:
		return f.Value, f.Value != ""
	case kindNumber:
		return f.number(f.Value)
	case kindCheck:
		return f.Value != "", true
	case kindSelect:
		f.choose([]string{f.Value})
		if i := slices.IndexFunc(f.Options, func(o page.Option) bool { return o.Chosen }); i >= 0 {
			return f.Options[i].JSON, true
		}
		if f.Value != "" {
			f.Problem = "Choose one of the options."
		}
		return nil, false
	case kindChecks:
		f.choose(form[f.Name])
		list := []any{}
		for _, o := range f.Options {
			if o.Chosen {
				list = append(list, o.JSON)
			}
		}
		return list, f.Required || len(list) > 0
	case kindLines:
		return f.lines()
	case kindGroup:
		inner, ok := readFields(f.Fields, form, f.Must)
		if !ok {
			f.Problem = "See below."
		}
		return inner, f.Required || len(inner) > 0
	}
	if strings.TrimSpace(f.Value) == "" {
		return nil, false
	}
	v, err := decodeJSON(f.Value)
	if err != nil {
		f.Problem = err.Error()
	}
	return v, err == nil
}

func (f *field) number(text string) (any, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, false
	}
	v, err := decodeJSON(text)
	n, ok := v.(json.Number)
	switch {
	case err != nil || !ok || len(text) > 40:
		f.Problem = "This must be a number, for example 10."
	case f.integer && strings.ContainsAny(n.String(), ".eE"):
		f.Problem = "This must be a whole number."
	default:
		return n, true
	}
	return nil, false
}

func (f *field) lines() (any, bool) {
	list := []any{}
	for text := range strings.SplitSeq(f.Value, "\n") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if !f.numbers {
			list = append(list, text)
			continue
		}
		n, ok := f.number(text)
		if !ok {
			return nil, false
		}
		list = append(list, n)
	}
	return list, f.Required || len(list) > 0
}

// errNotJSON and errNotObject are shown beside fields.
var (
	errNotJSON = errors.New( //nolint:staticcheck // shown to users
		`This is not JSON. Texts need double quotes, for example {"size": 3, "name": "x"}.`) //nolint:revive // the same
	errNotObject = errors.New( //nolint:staticcheck // shown to users
		`This must be a JSON object, for example {"size": 3}.`) //nolint:revive // the same
)

// decodeJSON decodes a text with one JSON value, and keeps numbers as they were written.
func decodeJSON(text string) (any, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errNotJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotJSON
	}
	return v, nil
}

// objectOf decodes a JSON object. An empty text is an object without members.
func objectOf(text string) (map[string]any, error) {
	v, err := decodeJSON(cmp.Or(strings.TrimSpace(text), "{}"))
	if err != nil {
		return nil, err
	}
	of, ok := v.(map[string]any)
	if !ok {
		return nil, errNotObject
	}
	return of, nil
}
