package cli

import (
	"bytes"
	"encoding/json"

	"ingot/internal/cli/term"
)

// result is the outcome of a command. It is shown as text, or encoded as JSON.
type result interface{ show(p *term.Printer) }

// output holds the output flags that every command has.
type output struct {
	JSON  bool `long:"json" description:"Write the result as JSON to standard output, and nothing else"`
	Quiet bool `short:"q" long:"quiet" description:"Suppress progress output"`
}

// jsonOnly returns r for JSON output and nil for text output, where it was
// already shown.
func (s *session) jsonOnly(r result) result {
	if s.JSON {
		return r
	}
	return nil
}

// text is a one-line result.
type text struct {
	key, value string
}

func (t *text) MarshalJSON() ([]byte, error) { return marshal(map[string]string{t.key: t.value}) }

func (t *text) show(p *term.Printer) { p.Println(t.value) }

// orNil keeps a nil pointer from becoming a result.
func orNil[T any, P interface {
	*T
	result
}](r P, err error) (result, error) {
	if r == nil || err != nil {
		return nil, err
	}
	return r, nil
}

// made is a resource that was created or already existed.
type made struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	GUID    string `json:"guid,omitempty"`
	Existed bool   `json:"existed"`
}

func (m *made) show(*term.Printer) {}

// marshal returns indented JSON without HTML escapes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// removed is the result of a deletion.
type removed struct {
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Gone   bool     `json:"deleted"`
	Routes []string `json:"routes,omitempty"`
}

func (r *removed) show(*term.Printer) {}

// jsonAs is a result with a different value in JSON.
type jsonAs struct {
	result
	json any
}

// MarshalJSON encodes the JSON value.
func (j *jsonAs) MarshalJSON() ([]byte, error) { return marshal(j.json) }

// sheet shows one resource.
type sheet struct {
	pairs [][2]string
	text  string // shown below, optional
	more  result // shown below, optional
	json  any
}

// MarshalJSON encodes the resource.
func (t *sheet) MarshalJSON() ([]byte, error) { return marshal(t.json) }

func (t *sheet) show(p *term.Printer) {
	p.Println("")
	p.Pairs(t.pairs...)
	if t.text != "" {
		p.Println(t.text)
	}
	if t.more != nil {
		t.more.show(p)
	}
}
