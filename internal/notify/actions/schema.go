package actions

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/schema"
	"ingot/internal/notify"
)

const (
	// maxSchemaParts limits the parts of a schema, with what its references lead to.
	maxSchemaParts = 500
	// maxChecking limits what checking the data of one request costs: its bytes, times the parts
	// of the schema.
	maxChecking = 1 << 30
)

// CheckSchema returns why a JSON Schema cannot be used for the data of a kind.
func CheckSchema(raw json.RawMessage) error {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '{' {
		return fault.Invalid("the schema must be an object")
	}
	_, err := schema.Compile(raw, schema.Draft2020)
	if err == nil {
		_, err = schema.Cost(raw, maxSchemaParts)
	}
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return fault.Wrap(err, fault.Unprocessable, "The schema is not valid: %s", first)
	}
	return nil
}

// dataCheck checks the data of a request with the schema of its kind.
type dataCheck struct {
	kind   string
	schema *schema.Schema // nil if the kind has none
	common map[string]any
	data   json.RawMessage
	parts  int
	left   int // see maxChecking
}

func (s *Service) dataCheck(ctx context.Context, ref notify.KindRef, data json.RawMessage) (*dataCheck, error) {
	raw, err := s.o.Store.Schema(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("look up the schema of a kind: %w", err)
	}
	c := &dataCheck{kind: ref.KindID, data: data, left: maxChecking}
	if raw == nil {
		return c, nil
	}
	if c.schema, err = schema.Compile(raw, schema.Draft2020); err != nil {
		return nil, fmt.Errorf("the stored schema of kind %q: %w", ref.KindID, err)
	}
	if c.parts, err = schema.Cost(raw, maxSchemaParts); err != nil {
		return nil, fmt.Errorf("the stored schema of kind %q: %w", ref.KindID, err)
	}
	c.common, err = notify.DecodeData(data)
	return c, err
}

// all checks the data that all recipients get.
func (c *dataCheck) all() error {
	if c.schema == nil {
		return nil
	}
	return c.check("", c.data)
}

// member checks the data of a recipient, over that of all.
func (c *dataCheck) member(number int, m notify.Member) error {
	if c.schema == nil {
		return nil
	}
	data := c.data
	if len(m.Data) > 0 {
		merged, err := notify.MergeData(c.common, m.Data)
		if err != nil {
			return err
		}
		if data, err = json.Marshal(merged); err != nil {
			return err
		}
	}
	return c.check(fmt.Sprintf("recipient %d: ", number), data)
}

func (c *dataCheck) check(who string, data json.RawMessage) error {
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}
	if c.left -= len(data) * c.parts; c.left < 0 {
		return fault.Invalid(fmt.Sprintf("the schema of kind %q has %d parts, too many for this much data: "+
			"send to fewer recipients or simplify it; nothing was sent", c.kind, c.parts))
	}
	found, err := c.schema.Check(data)
	if err != nil {
		return err
	}
	problems := make([]string, 0, len(found))
	for _, p := range found {
		problems = append(problems, fmt.Sprintf("%s%q is not as the schema of kind %q wants: at %s: %s; nothing was sent",
			who, "data", c.kind, p.Path, p.Reason))
	}
	return fault.Invalid(problems...)
}
