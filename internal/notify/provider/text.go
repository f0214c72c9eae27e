package provider

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// values are what placeholders stand for.
type values struct {
	fields  map[string]string
	secrets map[string]string
	access  string
	data    map[string]any
	// omit means that what is only a placeholder without a value is left out: services refuse addresses, for example,
	// that are empty.
	omit bool
}

// fields are the names of placeholders without arguments of text messages, and deviceFields those of push
// notifications, of which "data" may have one.
var (
	fields       = []string{"client", "id", "kind", "phone", "subject", "text", "user"}
	deviceFields = []string{"client", "data", "icon", "id", "kind", "text", "title", "token", "topic", "url", "user"}
)

// text is a text with placeholders: {{text}}, {{secret "name"}}, {{basic "name" "name"}}, {{"as it is"}}.
type text []part

// part is a literal, or a placeholder with a name.
type part struct {
	literal string
	name    string
	args    []string // names of secrets, or a path in the data
}

const (
	opens  = "{{"
	closes = "}}"
)

var errEnd = errors.New(`a placeholder that {{ begins has no }}`)

// parseText returns a text with its placeholders, which are secrets and fields.
func parseText(s string, fields []string) (text, error) {
	var t text
	for {
		before, rest, found := strings.Cut(s, opens)
		if before != "" {
			t = append(t, part{literal: before})
		}
		if !found {
			return t, nil
		}
		p, after, err := parsePlaceholder(rest, fields)
		if err != nil {
			return nil, err
		}
		t = append(t, p)
		s = after
	}
}

// parsePlaceholder reads what follows {{ and returns what follows }}.
func parsePlaceholder(s string, fields []string) (p part, rest string, err error) {
	s = strings.TrimLeft(s, " ")
	end := 0
	for end < len(s) && s[end] >= 'a' && s[end] <= 'z' {
		end++
	}
	p.name, s = s[:end], strings.TrimLeft(s[end:], " ")
	for strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return p, "", fmt.Errorf("the text in quotes after {{%s has no end", p.name)
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return p, "", fmt.Errorf("%.40s is not a text in quotes", quoted)
		}
		p.args = append(p.args, arg)
		s = strings.TrimLeft(s[len(quoted):], " ")
	}
	rest, ok := strings.CutPrefix(s, closes)
	if !ok {
		if !strings.Contains(s, closes) {
			return p, "", errEnd
		}
		bad, _, _ := strings.Cut(s, closes)
		return p, "", fmt.Errorf("%.40q in a placeholder is not understood", bad)
	}
	return p.check(rest, fields)
}

// check returns the placeholder if its name has the right arguments.
func (p part) check(rest string, fields []string) (part, string, error) {
	wrong := func(format string, args ...any) (part, string, error) { return p, "", fmt.Errorf(format, args...) }
	switch {
	case p.name == "" && len(p.args) == 1:
		return part{literal: p.args[0]}, rest, nil
	case p.name == "":
		return wrong("a placeholder is empty: use one of %s, secret, basic or access", strings.Join(fields, ", "))
	case p.name == "secret" && len(p.args) != 1:
		return wrong(`{{secret}} takes the name of a secret: {{secret "token"}}`)
	case p.name == "basic" && len(p.args) != 2:
		return wrong(`{{basic}} takes the names of two secrets, user and password: {{basic "user" "password"}}`)
	case p.name == "secret", p.name == "basic", p.name == "access" && len(p.args) == 0:
		return p, rest, nil
	case p.name == "access":
		return wrong("{{access}} takes no argument")
	case !slices.Contains(fields, p.name):
		return wrong("{{%.40s}} is not a placeholder: use one of %s, secret, basic or access", p.name,
			strings.Join(fields, ", "))
	case p.name == "data" && len(p.args) == 1:
		if !usablePath(p.args[0]) {
			return wrong(`{{data %.40q}} must have the path of a value, such as {{data "order.id"}}`, p.args[0])
		}
	case len(p.args) > 0:
		return wrong("{{%s}} takes no argument", p.name)
	}
	return p, rest, nil
}

// dynamic reports whether the part is a placeholder.
func (p part) dynamic() bool { return p.name != "" }

func (p part) value(v values) string {
	switch p.name {
	case "access":
		return v.access
	case "secret":
		return v.secrets[p.args[0]]
	case "basic":
		return base64.StdEncoding.EncodeToString([]byte(v.secrets[p.args[0]] + ":" + v.secrets[p.args[1]]))
	}
	if p.name == "data" {
		return v.datum(p.args)
	}
	return v.fields[p.name]
}

// datum returns a value of the data as a text, or all of it as JSON; "" if there is none.
func (v values) datum(path []string) string {
	var found any = v.data
	ok := len(v.data) > 0
	if len(path) > 0 {
		for step := range strings.SplitSeq(path[0], ".") {
			if found, ok = within(found, step); !ok {
				break
			}
		}
	}
	if !ok || found == nil {
		return ""
	}
	text, isText := found.(string)
	if !isText {
		raw, err := json.Marshal(found)
		if err != nil {
			return ""
		}
		text = string(raw)
	}
	return clean(text)
}

// clean replaces what no service understands.
func clean(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\ufffd") }

// absent reports whether the text is only a placeholder, and has no value.
func (t text) absent(v values) bool {
	return v.omit && len(t) == 1 && t[0].dynamic() && t[0].value(v) == ""
}

// uses reports whether the text has a placeholder of a name.
func (t text) uses(name string) bool {
	return slices.ContainsFunc(t, func(p part) bool { return p.name == name })
}

// render returns the text with the values, each escaped.
func (t text) render(v values, escape func(string) string) string {
	var b strings.Builder
	for _, p := range t {
		if p.dynamic() {
			b.WriteString(escape(p.value(v)))
		} else {
			b.WriteString(p.literal)
		}
	}
	return b.String()
}

// asIs is for values whose whole text is encoded later.
func asIs(s string) string { return s }

// secrets returns the names of the secrets in the text.
func (t text) secrets() (names []string) {
	for _, p := range t {
		if p.name != "data" {
			names = append(names, p.args...)
		}
	}
	return names
}

// placeholders counts them.
func (t text) placeholders() (n int) {
	for _, p := range t {
		if p.dynamic() {
			n++
		}
	}
	return n
}
