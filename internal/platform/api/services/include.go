package services

import (
	"encoding/json"
	"maps"
	"strings"

	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/orgs"
	"ingot/internal/platform/api/rest"
)

// picked are resources for "included" with the requested fields only;
// "relationships.x" requests that relationship.
func picked[T, B any](req *rest.Request, name string, s rest.Resource[T, B], guids,
	fields []string) (map[string]any, error) {
	bodies, err := s.Bodies(req, guids)
	if err != nil {
		return nil, err
	}
	out := make([]map[string]any, 0, len(bodies))
	for _, b := range bodies {
		one, err := pick(b, fields)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return map[string]any{name: out}, nil
}

func pick(body any, fields []string) (map[string]any, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, f := range fields {
		name, inner, nested := strings.Cut(f, ".")
		value, ok := all[name]
		if !ok {
			continue
		}
		if !nested {
			out[name] = value
			continue
		}
		from, _ := value.(map[string]any)
		if part, ok := from[inner]; ok {
			to, _ := out[name].(map[string]any)
			if to == nil {
				to = map[string]any{}
			}
			to[inner] = part
			out[name] = to
		}
	}
	return out, nil
}

// chain follows references from resources to their parents, and includes each that
// was requested.
type chain struct {
	req *rest.Request
	l   *listing.Request
	out map[string]any
}

func (c *chain) done() map[string]any {
	if len(c.out) == 0 {
		return nil
	}
	return c.out
}

// add includes the resources that key requests.
func (c *chain) add(key string, include func(fields []string) (map[string]any, error)) error {
	fields, asked := c.l.Fields[key]
	if !asked {
		return nil
	}
	more, err := include(fields)
	maps.Copy(c.out, more)
	return err
}

// places includes spaces and their organizations by fields.
func (c *chain) places(prefix string, spaceGUIDs []string) error {
	if err := c.add(prefix+"space", func(f []string) (map[string]any, error) {
		return picked(c.req, "spaces", orgs.Spaces,
			spaceGUIDs, f)
	}); err != nil {
		return err
	}
	return c.add(prefix+"space.organization", func(f []string) (map[string]any, error) {
		inside, err := rest.Named(c.req.Tx.Spaces(), spaceGUIDs)
		if err != nil {
			return nil, err
		}
		return picked(c.req, "organizations", orgs.Organizations,
			rest.GUIDsOf(inside, func(s *platform.Space) string { return s.OrgGUID }), f)
	})
}

// catalog includes offerings of plans and their brokers by fields.
func (c *chain) catalog(offering, broker string, offeringGUIDs []string) error {
	err := c.add(offering, func(f []string) (map[string]any, error) {
		return picked(c.req, "service_offerings", serviceOfferings, offeringGUIDs, f)
	})
	if err != nil {
		return err
	}
	return c.add(broker, func(f []string) (map[string]any, error) {
		found, err := rest.Named(c.req.Tx.ServiceOfferings(), offeringGUIDs)
		if err != nil {
			return nil, err
		}
		return picked(c.req, "service_brokers", serviceBrokers,
			rest.GUIDsOf(found, func(o *platform.ServiceOffering) string { return o.BrokerGUID }), f)
	})
}
