package services

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"ingot/internal/base/fault"
	"ingot/internal/platform/services/osb"
)

// maxSchema limits the size of a schema in bytes, as in Cloud Foundry.
const maxSchema = 65536

// noLoader rejects external references, so that a broker cannot make the server read
// files or URLs.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("external references are not allowed: %s", url)
}

// schemaOf returns the schema of parameters for an action; nil if there is none.
func schemaOf(schemas map[string]any, thing, action string) any {
	of, _ := schemas[thing].(map[string]any)
	on, _ := of[action].(map[string]any)
	if on == nil {
		return nil
	}
	return on["parameters"]
}

func compile(schema any) (*jsonschema.Schema, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	if len(text) > maxSchema {
		return nil, fmt.Errorf("it is larger than %d bytes", maxSchema)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.DefaultDraft(jsonschema.Draft4)
	const here = "broker:///schema"
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	return c.Compile(here)
}

var operations = [][2]string{{"service_instance", "create"}, {"service_instance", "update"},
	{"service_binding", "create"}}

// schemaProblems returns the problems of the schemas in a catalog.
func schemaProblems(c *osb.Catalog) (problems []string) {
	for _, s := range c.Services {
		for _, p := range s.Plans {
			for _, a := range operations {
				schema := schemaOf(p.Schemas, a[0], a[1])
				if schema == nil {
					continue
				}
				if _, err := compile(schema); err != nil && len(problems) < 20 {
					first, _, _ := strings.Cut(err.Error(), "\n")
					problems = append(problems, fmt.Sprintf("Service '%s', plan '%s': schema %s.%s.parameters is not valid: %s",
						s.Name, p.Name, a[0], a[1], first))
				}
			}
		}
	}
	return problems
}

// checkParameters validates parameters with the schema of the plan, if it has one.
func checkParameters(schemas, parameters map[string]any, thing, action string) error {
	schema := schemaOf(schemas, thing, action)
	if schema == nil || parameters == nil {
		return nil
	}
	compiled, err := compile(schema)
	if err != nil {
		// The catalog was checked when it was read.
		return fmt.Errorf("the schema of a stored plan: %w", err)
	}
	text, err := json.Marshal(parameters)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	err = compiled.Validate(doc)
	var invalid *jsonschema.ValidationError
	if err == nil || !errors.As(err, &invalid) {
		return err
	}
	var problems []string
	collect(invalid, &problems)
	return fault.Invalid(problems...)
}

var english = message.NewPrinter(language.English)

// collect lists the innermost reasons without the values, which may be secret.
func collect(e *jsonschema.ValidationError, to *[]string) {
	if len(e.Causes) == 0 && len(*to) < 10 {
		*to = append(*to, fmt.Sprintf("Parameters are not valid: at '/%s': %s", strings.Join(e.InstanceLocation, "/"),
			e.ErrorKind.LocalizedString(english)))
		return
	}
	for _, cause := range e.Causes {
		collect(cause, to)
	}
}
