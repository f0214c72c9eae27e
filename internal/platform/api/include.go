package api

import (
	"bytes"
	"encoding/json"

	"ingot/internal/platform"
)

// guidsOf returns the guids that resources refer to, without duplicates.
func guidsOf[T any](items []*T, guid func(*T) string) []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, item := range items {
		if g := guid(item); !seen[g] {
			seen[g] = true
			out = append(out, g)
		}
	}
	return out
}

// included returns the resources for "included". The caller may see them because it
// may see the resources that refer to them.
func included[T, B any](req *request, name string, s resource[T, B], guids []string) (map[string]any, error) {
	found, _, err := s.repo(req.tx).List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids)}})
	if err != nil {
		return nil, err
	}
	bodies, err := s.present(req, found)
	return map[string]any{name: bodies}, err
}

// withIncluded adds the member "included" to a body.
type withIncluded struct {
	body     any
	included map[string]any
}

// MarshalJSON appends the member to those of the body, which is an object.
func (b withIncluded) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(b.body)
	if err != nil {
		return nil, err
	}
	included, err := json.Marshal(b.included)
	if err != nil {
		return nil, err
	}
	out := append(bytes.TrimSuffix(body, []byte("}")), `,"included":`...)
	return append(append(out, included...), '}'), nil
}
