package core

import (
	"bytes"
	"encoding/json"

	"ingot/internal/cli/term"
)

// Result is the outcome of a command. It is shown as text, or encoded as JSON.
type Result interface{ Show(p *term.Printer) }

// Output holds the flags that every command has.
type Output struct {
	JSON  bool `long:"json" description:"Write the result as JSON to standard output, and nothing else"`
	Quiet bool `short:"q" long:"quiet" description:"Suppress progress output"`
	// Context is no output, but every command has it, too.
	Context string `long:"context" value-name:"NAME" description:"Context to use for this command, or $INGOT_CONTEXT"`
}

// JSONOnly returns r for JSON output and nil for text output, where it was
// already shown.
func (s *Session) JSONOnly(r Result) Result {
	if s.JSON {
		return r
	}
	return nil
}

// Text is a one-line result.
type Text struct {
	Key, Value string
}

func (t *Text) MarshalJSON() ([]byte, error) { return Marshal(map[string]string{t.Key: t.Value}) }

func (t *Text) Show(p *term.Printer) { p.Println(t.Value) }

// OrNil keeps a nil pointer from becoming a result.
func OrNil[T any, P interface {
	*T
	Result
}](r P, err error) (Result, error) {
	if r == nil || err != nil {
		return nil, err
	}
	return r, nil
}

// Made is a resource that was created or already existed.
type Made struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	GUID    string `json:"guid,omitempty"`
	Existed bool   `json:"existed"`
}

func (m *Made) Show(*term.Printer) {}

// Marshal returns JSON without HTML escapes.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// Removed is the result of a deletion.
type Removed struct {
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Gone   bool     `json:"deleted"`
	Routes []string `json:"routes,omitempty"`
}

func (r *Removed) Show(*term.Printer) {}

// JSONAs is a result with a different value in JSON.
type JSONAs struct {
	Result
	JSON any
}

// MarshalJSON encodes the JSON value.
func (j *JSONAs) MarshalJSON() ([]byte, error) { return Marshal(j.JSON) }

// Sheet shows one resource.
type Sheet struct {
	Pairs [][2]string
	Text  string // shown below, optional
	More  Result // shown below, optional
	JSON  any
}

// MarshalJSON encodes the resource.
func (t *Sheet) MarshalJSON() ([]byte, error) { return Marshal(t.JSON) }

func (t *Sheet) Show(p *term.Printer) {
	p.Println("")
	p.Pairs(t.Pairs...)
	if t.Text != "" {
		p.Println(t.Text)
	}
	if t.More != nil {
		t.More.Show(p)
	}
}
