package uaaclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Person is a user with mail addresses, the primary one first.
type Person struct {
	ID     string
	Emails []string
}

type personBody struct {
	ID     string `json:"id"`
	Emails []struct {
		Value   string `json:"value"`
		Primary bool   `json:"primary"`
	} `json:"emails"`
}

func (b personBody) person() Person {
	p := Person{ID: b.ID}
	for _, primary := range []bool{true, false} {
		for _, e := range b.Emails {
			if e.Primary == primary {
				p.Emails = append(p.Emails, e.Value)
			}
		}
	}
	return p
}

const peopleAttributes = "id,emails"

// PeopleByID returns the existing users among ids, by id.
func (c *Client) PeopleByID(ctx context.Context, ids []string) (map[string]Person, error) {
	found := make(map[string]Person, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), idsAtOnce)
		query := url.Values{"filter": {anyOf("id", ids[:n])}, "attributes": {peopleAttributes}, "countTotal": {"false"}}
		err := pages(ctx, c, query, n, func(b personBody) { found[b.ID] = b.person() })
		if err != nil {
			return found, err
		}
		ids = ids[n:]
	}
	return found, nil
}

// LocalesByID returns the locales of the existing users among ids, by id; "" for users without one.
func (c *Client) LocalesByID(ctx context.Context, ids []string) (map[string]string, error) {
	found := make(map[string]string, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), idsAtOnce)
		query := url.Values{"filter": {anyOf("id", ids[:n])}, "attributes": {"id,locale"}, "countTotal": {"false"}}
		err := pages(ctx, c, query, n, func(b struct{ ID, Locale string }) { found[b.ID] = b.Locale })
		if err != nil {
			return found, err
		}
		ids = ids[n:]
	}
	return found, nil
}

// PhonesByID returns the phone numbers of the existing users among ids, by id, as they were entered.
func (c *Client) PhonesByID(ctx context.Context, ids []string) (map[string][]string, error) {
	found := make(map[string][]string, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), idsAtOnce)
		query := url.Values{"filter": {anyOf("id", ids[:n])}, "attributes": {"id,phoneNumbers"}, "countTotal": {"false"}}
		err := pages(ctx, c, query, n, func(b struct {
			ID     string
			Phones []struct {
				Value string `json:"value"`
			} `json:"phoneNumbers"`
		}) {
			numbers := make([]string, 0, len(b.Phones))
			for _, p := range b.Phones {
				numbers = append(numbers, p.Value)
			}
			found[b.ID] = numbers
		})
		if err != nil {
			return found, err
		}
		ids = ids[n:]
	}
	return found, nil
}

// GroupsOf returns the names of the groups that a user is in, directly or through others; nil if there is no such user,
// or the user is not active.
func (c *Client) GroupsOf(ctx context.Context, id string) ([]string, error) {
	query := url.Values{"filter": {anyOf("id", []string{id})}, "attributes": {"id,active,groups"}}
	var names []string
	err := pages(ctx, c, query, 1, func(b struct {
		ID     string
		Active *bool
		Groups []struct {
			Display string `json:"display"`
		} `json:"groups"`
	}) {
		if b.ID != id || b.Active != nil && !*b.Active {
			return
		}
		names = make([]string, 0, len(b.Groups))
		for _, g := range b.Groups {
			names = append(names, g.Display)
		}
	})
	return names, err
}

// PeopleAfter returns about count users that follow id in the order of ids (""
// is before the first), and whether there are more. It does not miss users when
// others are added or deleted meanwhile, and is as fast at the end of a long
// list as at its beginning.
func (c *Client) PeopleAfter(ctx context.Context, id string, count int) (page []Person, more bool, err error) {
	// countTotal=false saves Ingot from counting the rest; UAA ignores it.
	query := url.Values{"attributes": {peopleAttributes}, "sortBy": {"id"}, "count": {strconv.Itoa(count)},
		"countTotal": {"false"}}
	if id != "" {
		quoted := strings.TrimPrefix(anyOf("id", []string{id}), "id eq ")
		query.Set("filter", "id gt "+quoted)
	}
	return c.peopleOnce(ctx, query, 1)
}

// PeopleFrom is like PeopleAfter for a server that cannot compare ids: it takes
// a start index, beginning with 1.
func (c *Client) PeopleFrom(ctx context.Context, start, count int) (page []Person, more bool, err error) {
	return c.peopleOnce(ctx, url.Values{
		"attributes": {peopleAttributes}, "sortBy": {"id"}, "startIndex": {strconv.Itoa(start)},
		"count": {strconv.Itoa(count)},
	}, start)
}

func (c *Client) peopleOnce(ctx context.Context, query url.Values, start int) ([]Person, bool, error) {
	var p listPage[personBody]
	if err := c.get(ctx, "/Users", query, &p); err != nil {
		return nil, false, err
	}
	out := make([]Person, 0, len(p.Resources))
	for _, b := range p.Resources {
		out = append(out, b.person())
	}
	if len(out) == 0 && start <= p.Total {
		return nil, false, errShort
	}
	return out, start-1+len(out) < p.Total, nil
}

// Group is a group with its members.
type Group struct {
	ID      string   `json:"id"`
	Name    string   `json:"displayName"`
	Members []Member `json:"members"`
}

// Member is a user or a group in a group.
type Member struct {
	ID   string `json:"value"`
	Type string `json:"type"` // "USER" or "GROUP"
}

// IsGroup reports whether the member is a group.
func (m Member) IsGroup() bool { return strings.EqualFold(m.Type, "GROUP") }

// groupLimit limits the size of a response with groups, which contain all their
// members.
const groupLimit = 128 << 20

// GroupByName returns the group with this name, which is also the name of a
// scope, or nil if there is none.
func (c *Client) GroupByName(ctx context.Context, name string) (*Group, error) {
	query := url.Values{"filter": {anyOf("displayName", []string{name})}, "attributes": {"id,displayName,members"}}
	var page struct {
		Resources []Group `json:"resources"`
	}
	if err := c.fetch(ctx, c.o.HTTP, c.o.BaseURL+"/Groups?"+query.Encode(), groupLimit, &page); err != nil {
		return nil, err
	}
	for i := range page.Resources {
		// Servers ignore the case of names; scopes do not.
		if g := &page.Resources[i]; g.Name == name || g.Name == "" {
			return g, nil
		}
	}
	return nil, nil
}

// GroupByID returns a group, or nil if there is none.
func (c *Client) GroupByID(ctx context.Context, id string) (*Group, error) {
	var g Group
	err := c.fetch(ctx, c.o.HTTP, c.o.BaseURL+"/Groups/"+url.PathEscape(id), groupLimit, &g)
	if StatusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &g, nil
}

// Fetch reads a JSON document from another server that accepts tokens of this
// one, with the client's own token.
func (c *Client) Fetch(ctx context.Context, h *http.Client, address string, into any) error {
	return c.fetch(ctx, h, address, answerLimit, into)
}
