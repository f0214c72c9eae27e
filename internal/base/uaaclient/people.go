package uaaclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Person is a user with addresses, the primary one first.
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

// PeopleByID returns those of ids that the server knows, by their ids.
func (c *Client) PeopleByID(ctx context.Context, ids []string) (map[string]Person, error) {
	found := make(map[string]Person, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), idsAtOnce)
		query := url.Values{"filter": {anyOf("id", ids[:n])}, "attributes": {peopleAttributes}}
		err := pages(ctx, c, query, n, func(b personBody) { found[b.ID] = b.person() })
		if err != nil {
			return found, err
		}
		ids = ids[n:]
	}
	return found, nil
}

// PeopleAfter returns users in the order of their ids, about count of those
// that follow the id given ("" is before the first), and whether there are more.
// It does not miss anybody when users come and go meanwhile, and is as fast at
// the end of a long list as at its beginning.
func (c *Client) PeopleAfter(ctx context.Context, id string, count int) (page []Person, more bool, err error) {
	// countTotal spares an Ingot the counting of all that follow; a UAA does not
	// know it.
	query := url.Values{"attributes": {peopleAttributes}, "sortBy": {"id"}, "count": {strconv.Itoa(count)}, "countTotal": {"false"}}
	if id != "" {
		quoted := strings.TrimPrefix(anyOf("id", []string{id}), "id eq ")
		query.Set("filter", "id gt "+quoted)
	}
	return c.peopleOnce(ctx, query, 1)
}

// PeopleFrom is PeopleAfter for a server that does not compare ids: it counts
// from start, the first being 1.
func (c *Client) PeopleFrom(ctx context.Context, start, count int) (page []Person, more bool, err error) {
	return c.peopleOnce(ctx, url.Values{
		"attributes": {peopleAttributes}, "sortBy": {"id"}, "startIndex": {strconv.Itoa(start)}, "count": {strconv.Itoa(count)},
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

// IsGroup tells whether the member is a group.
func (m Member) IsGroup() bool { return strings.EqualFold(m.Type, "GROUP") }

// groupLimit bounds an answer that holds groups: their members come all at once.
const groupLimit = 128 << 20

// GroupByName returns the group of a name, which is also that of a scope; nil
// if there is none.
func (c *Client) GroupByName(ctx context.Context, name string) (*Group, error) {
	query := url.Values{"filter": {anyOf("displayName", []string{name})}, "attributes": {"id,displayName,members"}}
	var page struct {
		Resources []Group `json:"resources"`
	}
	if err := c.fetch(ctx, c.o.HTTP, c.o.BaseURL+"/Groups?"+query.Encode(), groupLimit, &page); err != nil {
		return nil, err
	}
	for i := range page.Resources {
		// Servers compare names in any case; scopes differ by it.
		if g := &page.Resources[i]; g.Name == name || g.Name == "" {
			return g, nil
		}
	}
	return nil, nil
}

// GroupByID returns a group; nil if there is none.
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

// Fetch reads a JSON document of another server that takes the tokens of this
// one, with the client's own token.
func (c *Client) Fetch(ctx context.Context, h *http.Client, address string, into any) error {
	return c.fetch(ctx, h, address, answerLimit, into)
}
