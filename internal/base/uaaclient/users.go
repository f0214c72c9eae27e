package uaaclient

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
)

// User is the part of a user that this package reads.
type User struct {
	ID       string `json:"id"`
	UserName string `json:"userName"`
	Origin   string `json:"origin"`
}

// idsAtOnce limits the length of a filter, and thus of the request's URL.
const idsAtOnce = 50

// UsersByID returns the existing users among ids.
func (c *Client) UsersByID(ctx context.Context, ids []string) (map[string]User, error) {
	found := make(map[string]User, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), idsAtOnce)
		if err := c.users(ctx, anyOf("id", ids[:n]), n, found); err != nil {
			return found, err
		}
		ids = ids[n:]
	}
	return found, nil
}

// UsersByName returns the users with these names, of the given origins, or of
// any if none is given.
func (c *Client) UsersByName(ctx context.Context, names, origins []string) ([]User, error) {
	found := map[string]User{}
	for len(names) > 0 {
		n := min(len(names), idsAtOnce)
		filter := anyOf("userName", names[:n])
		if len(origins) > 0 {
			filter = "(" + filter + ") and (" + anyOf("origin", origins) + ")"
		}
		if err := c.users(ctx, filter, n, found); err != nil {
			return nil, err
		}
		names = names[n:]
	}
	return slices.Collect(maps.Values(found)), nil
}

// CreateUser registers a user of another identity provider, without a password. An
// address is required and not known yet, so the name is sent, as by Cloud Foundry.
func (c *Client) CreateUser(ctx context.Context, name, origin string) (User, error) {
	body := map[string]any{"userName": name, "origin": origin,
		"emails": []map[string]any{{"value": name, "primary": true}}}
	var made User
	err := c.send(ctx, http.MethodPost, "/Users", body, &made)
	if status := StatusOf(err); status == http.StatusBadRequest || status == http.StatusUnprocessableEntity {
		return made, fault.Wrap(err, fault.Unprocessable,
			"The authorization server refused the username '%s' or the origin '%s'.", name, origin)
	}
	return made, err
}

// anyOf returns `id eq "a" or id eq "b"`. Values are JSON strings in a SCIM
// filter, so that a value cannot extend it.
func anyOf(attribute string, values []string) string {
	terms := make([]string, len(values))
	for i, v := range values {
		quoted, _ := json.Marshal(v) // of a string: cannot fail
		terms[i] = attribute + " eq " + string(quoted)
	}
	return strings.Join(terms, " or ")
}

// listPage is a page of a SCIM list.
type listPage[T any] struct {
	Resources []T `json:"resources"`
	Total     int `json:"totalResults"`
}

var errShort = errors.New("incomplete list of users")

func (c *Client) users(ctx context.Context, filter string, count int, into map[string]User) error {
	query := url.Values{"filter": {filter}, "attributes": {"id,userName,origin"}}
	return pages(ctx, c, query, count, func(u User) { into[u.ID] = u })
}

// pages reads all pages of a list of users. Pages may be smaller than
// requested.
func pages[T any](ctx context.Context, c *Client, query url.Values, count int, each func(T)) error {
	for start := 1; ; {
		query.Set("startIndex", strconv.Itoa(start))
		query.Set("count", strconv.Itoa(count))
		var page listPage[T]
		if err := c.get(ctx, "/Users", query, &page); err != nil {
			return err
		}
		for _, one := range page.Resources {
			each(one)
		}
		start += len(page.Resources)
		if start > page.Total {
			return nil
		}
		if len(page.Resources) == 0 {
			return errShort
		}
	}
}
