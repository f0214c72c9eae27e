package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// ProblemOf returns the status and text of an error that is shown beside a form, so that what
// was typed is not lost; ok is false for other errors.
func ProblemOf(err error) (status int, text string, ok bool) {
	var e *fault.Error
	if !errors.As(err, &e) {
		return 0, "", false
	}
	switch e.Code {
	case fault.Internal, fault.Unauthenticated, fault.InvalidToken, fault.NotFound:
		return 0, "", false
	}
	return web.StatusOf(e.Code), e.Message, true
}

// GoTo sends the browser to a page of the console, which says what was done.
func GoTo(w http.ResponseWriter, r *http.Request, path, said string) error {
	if said != "" {
		path += "?said=" + said
	}
	http.Redirect(w, r, Path+path, http.StatusSeeOther) //nolint:gosec // a path of the console
	return nil
}

// Confirmed returns an error unless the user typed the name of the resource to delete.
func Confirmed(r *http.Request, name string) error {
	if r.PostForm.Get("confirm") != name {
		return fault.New(fault.Unprocessable, "Type the name %s to confirm.", name)
	}
	return nil
}

// GoBack sends the browser to the page that a form names, if it is one of the console.
func GoBack(w http.ResponseWriter, r *http.Request, to, said string) error {
	u, err := url.Parse(localPath(to))
	if err != nil {
		return err
	}
	q := u.Query()
	q.Set("said", said)
	u.RawQuery = q.Encode()
	http.Redirect(w, r, u.String(), http.StatusSeeOther) //nolint:gosec // a path of the console
	return nil
}

// Variable is a member of a JSON object, as text.
type Variable struct{ Name, Value string }

// InOrder returns the members of an object in their order.
func InOrder(raw json.RawMessage) ([]Variable, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	var list []Variable
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		text, ok := value.(string)
		if !ok {
			b, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		list = append(list, Variable{name.(string), text}) //nolint:forcetypeassert // a key of JSON
	}
	return list, nil
}

// Indented returns JSON with a member on each line.
func Indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// Words splits a list that is separated by commas, blanks or lines.
func Words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
}

// Option is a value to choose.
type Option struct {
	Value, Label string
	Chosen       bool
	JSON         any // the value of a JSON schema that Value stands for
}

// Place is a form that creates a space and its organization.
type Place struct {
	CSRF  string
	Typed url.Values
}

// NewPlace returns the form to create a space, or nil for users who may not create organizations.
func (s *Session) NewPlace() *Place {
	if !s.Admin() {
		return nil
	}
	return &Place{CSRF: s.csrfToken()}
}
