package rest

import (
	"bytes"
	"encoding/json"
	"maps"

	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
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

// Named returns the resources of guids.
func Named[T any](repo platform.Repo[T], guids []string) ([]*T, error) {
	found, _, err := repo.List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids)}})
	return found, err
}

// ByGUID returns the resources that items refer to, by their guids.
func ByGUID[T any, U any, P interface {
	*U
	Base() *platform.Resource
}](repo platform.Repo[U], items []*T, guid func(*T) string) (map[string]*U, error) {
	found, _, err := repo.List(platform.Query{WithoutSecrets: true,
		Where: []platform.Cond{platform.InStrings("guid", GUIDsOf(items, guid))}})
	out := make(map[string]*U, len(found))
	for _, item := range found {
		out[P(item).Base().GUID] = item
	}
	return out, err
}

// Bodies presents the resources of guids. The caller may see them because it may see
// the resources that refer to them.
func (s Resource[T, B]) Bodies(req *Request, guids []string) ([]B, error) {
	found, err := Named(s.Repo(req.Tx), guids)
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

// Includer returns the resources for "included" that items refer to.
type Includer[T any] func(req *Request, items []*T) (map[string]any, error)

// Referred includes the resources whose guids are returned by guid.
func Referred[T, U, B any](name string, s Resource[U, B], guid func(*T) string) Includer[T] {
	return func(req *Request, items []*T) (map[string]any, error) {
		return Included(req, name, s, GUIDsOf(items, guid))
	}
}

// IncludeBy returns the function for Resource.Include: it includes what the request names.
func IncludeBy[T any](names ...map[string]Includer[T]) func(*Request, *listing.Request, []*T) (map[string]any, error) {
	known := map[string]Includer[T]{}
	for _, some := range names {
		maps.Copy(known, some)
	}
	return func(req *Request, l *listing.Request, items []*T) (map[string]any, error) {
		var out map[string]any
		for _, name := range l.Include {
			more, err := known[name](req, items)
			if err != nil {
				return nil, err
			}
			if out == nil {
				out = map[string]any{}
			}
			maps.Copy(out, more)
		}
		return out, nil
	}
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
