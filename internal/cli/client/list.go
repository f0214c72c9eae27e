package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"ingot/internal/base/cfapi"
)

// Included are the resources included with a list, by kind.
type Included map[string][]json.RawMessage

// List returns all items of a paginated list.
func List[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	all, _, err := ListWith[T](ctx, c, path, query)
	return all, err
}

// ListWith is like List and also returns the included resources.
func ListWith[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, Included, error) {
	all, included := []T{}, Included{}
	for path != "" {
		var page cfapi.List[T, Included]
		if _, err := c.Do(ctx, Call{Method: http.MethodGet, URL: path, Query: query, Into: &page}); err != nil {
			return nil, nil, err
		}
		all = append(all, page.Resources...)
		for kind, some := range page.Included {
			included[kind] = append(included[kind], some...)
		}
		path, query = "", nil
		if page.Pagination.Next != nil {
			path = page.Pagination.Next.Href
		}
	}
	return all, included, nil
}

// Of decodes the included resources of a kind, by guid.
func Of[T interface{ ID() string }](included Included, kind string) map[string]T {
	all := map[string]T{}
	for _, raw := range included[kind] {
		var one T
		if json.Unmarshal(raw, &one) == nil {
			all[one.ID()] = one
		}
	}
	return all
}
