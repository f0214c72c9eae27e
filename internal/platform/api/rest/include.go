package rest

import (
	"bytes"
	"encoding/json"

	"ingot/internal/platform"
)

// GUIDsOf returns the guids that resources refer to, without duplicates.
func GUIDsOf[T any](items []*T, guid func(*T) string) []string {
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

// Bodies presents the resources of guids. The caller may see them because it may see
// the resources that refer to them.
func (s Resource[T, B]) Bodies(req *Request, guids []string) ([]B, error) {
	found, _, err := s.Repo(req.Tx).List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids)}})
	if err != nil {
		return nil, err
	}
	return s.Present(req, found)
}

// Included returns resources for "included".
func Included[T, B any](req *Request, name string, s Resource[T, B], guids []string) (map[string]any, error) {
	bodies, err := s.Bodies(req, guids)
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
