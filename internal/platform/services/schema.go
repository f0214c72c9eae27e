package services

import (
	"encoding/json"
	"fmt"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/schema"
	"ingot/internal/platform/services/osb"
)

// schemaOf returns the schema of parameters for an action; nil if there is none.
func schemaOf(schemas map[string]any, thing, action string) any {
	of, _ := schemas[thing].(map[string]any)
	on, _ := of[action].(map[string]any)
	if on == nil {
		return nil
	}
	return on["parameters"]
}

func compile(of any) (*schema.Schema, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	return schema.Compile(text, schema.Draft4)
}

var operations = [][2]string{{"service_instance", "create"}, {"service_instance", "update"},
	{"service_binding", "create"}}

// schemaProblems returns the problems of the schemas in a catalog.
func schemaProblems(c *osb.Catalog) (problems []string) {
	for _, s := range c.Services {
		for _, p := range s.Plans {
			for _, a := range operations {
				of := schemaOf(p.Schemas, a[0], a[1])
				if of == nil {
					continue
				}
				if _, err := compile(of); err != nil && len(problems) < 20 {
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
	of := schemaOf(schemas, thing, action)
	if of == nil || parameters == nil {
		return nil
	}
	compiled, err := compile(of)
	if err != nil {
		// The catalog was checked when it was read.
		return fmt.Errorf("the schema of a stored plan: %w", err)
	}
	text, err := json.Marshal(parameters)
	if err != nil {
		return err
	}
	found, err := compiled.Check(text)
	if err != nil {
		return err
	}
	var problems []string
	for _, p := range found {
		problems = append(problems, fmt.Sprintf("Parameters are not valid: at '%s': %s", p.Path, p.Reason))
	}
	return fault.Invalid(problems...)
}
