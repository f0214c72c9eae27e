package schema

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// MaxSize limits a schema in bytes, as in Cloud Foundry.
const MaxSize = 65536

// Schema is a compiled schema.
type Schema struct{ compiled *jsonschema.Schema }

// Draft4 and Draft2020 are versions of JSON Schema, for schemas that name none.
var (
	Draft4    = jsonschema.Draft4
	Draft2020 = jsonschema.Draft2020
)

// noLoader rejects external references.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("external references are not allowed: %s", url)
}

// Compile compiles a schema.
func Compile(text []byte, draft *jsonschema.Draft) (*Schema, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxSize)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.DefaultDraft(draft)
	const here = "ingot:///schema"
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled}, nil
}

// Problem says what is wrong at a path such as /items/0/price, without the value, which may be
// secret.
type Problem struct{ Path, Reason string }

const maxProblems = 10

var english = message.NewPrinter(language.English)

// Check returns the problems of a JSON text, at most ten; none if it is valid.
func (s *Schema) Check(text []byte) ([]Problem, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	err = s.compiled.Validate(doc)
	var invalid *jsonschema.ValidationError
	if err == nil || !errors.As(err, &invalid) {
		return nil, err
	}
	var problems []Problem
	collect(invalid, &problems)
	return problems, nil
}

// collect lists the innermost reasons.
func collect(e *jsonschema.ValidationError, to *[]Problem) {
	if len(e.Causes) == 0 && len(*to) < maxProblems {
		*to = append(*to, Problem{"/" + strings.Join(e.InstanceLocation, "/"), e.ErrorKind.LocalizedString(english)})
		return
	}
	for _, cause := range e.Causes {
		collect(cause, to)
	}
}
