package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/background"
)

// row is an app in a list.
type row struct {
	app
	Org, Space      string
	Running, Wanted int
	Crashed         int
	URL, Link       string
	CPU             float64
	Memory          int64
	Measured        bool
	Charts          charts
	MayWrite        bool
	Restart         string
	Stop            string
	Start           string
}

// Health is the worst that can be said of the app in one word.
func (r row) Health() string {
	switch {
	case !r.started():
		return "stopped"
	case r.Crashed > 0:
		return "crashed"
	case r.Running < r.Wanted:
		return "starting"
	}
	return "running"
}

// overview is what lists are made of.
type overview struct {
	orgs   []organization
	spaces []space
	rows   []row
}

// together calls functions at the same time and returns their first error.
func together(calls ...func() error) error {
	errs := make([]error, len(calls))
	var group background.WaitGroup
	for i, call := range calls {
		group.Try("console", &errs[i], call)
	}
	group.Wait()
	return cmp.Or(errs...)
}

func loadOverview(c *caller) (*overview, error) {
	var o overview
	var apps []summary
	err := together(
		func() (err error) { o.orgs, err = all[organization](c, "/v3/organizations", nil); return err },
		func() (err error) { o.spaces, err = all[space](c, "/v3/spaces", nil); return err },
		func() (err error) {
			apps, err = all[summary](c, "/v3/app_summaries", url.Values{"order_by": {"name"}})
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	orgs := map[string]string{}
	for _, org := range o.orgs {
		orgs[org.GUID] = org.Name
	}
	spaces := map[string]space{}
	for _, s := range o.spaces {
		spaces[s.GUID] = s
	}
	for _, a := range apps {
		in := spaces[a.SpaceGUID]
		one := row{
			app: app{GUID: a.GUID, Name: a.Name, State: a.State}, Space: in.Name, Org: orgs[in.Relationships.Organization.Data.GUID],
			Wanted: a.Instances.Desired, Running: a.Instances.Running, Crashed: a.Instances.Crashed,
		}
		one.Relationships.Space.Data.GUID = a.SpaceGUID
		o.rows = append(o.rows, one)
	}
	return &o, nil
}

type homeData struct {
	Crashed     []row
	Orgs        []orgCard
	Deployments []deployed
	Apps        int
	Push        string
}

type orgCard struct {
	GUID, Name string
	Spaces     []spaceCard
}

type spaceCard struct {
	GUID, Name                      string
	Apps, Running, Crashed, Stopped int
}

type deployed struct {
	deployment
	App row
}

// home is GET /console.
func (c *Console) home(w http.ResponseWriter, r *http.Request, s *Session) error {
	data, err := c.loadHome(r, s)
	if err != nil {
		return err
	}
	return c.show(w, r, s, http.StatusOK, "home.html", page{Title: "Home", Section: "home", Live: "home", Data: data})
}

func (c *Console) loadHome(r *http.Request, s *Session) (*homeData, error) {
	call := c.platform(r, s)
	var o *overview
	var recent []deployment
	err := together(
		func() (err error) { o, err = loadOverview(call); return err },
		func() (err error) {
			recent, err = all[deployment](call, "/v3/deployments", url.Values{"order_by": {"-created_at"}, "per_page": {"8"}})
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	data := &homeData{Apps: len(o.rows), Push: command("cf", "push")}
	cards := map[string]*spaceCard{}
	byGUID := map[string]row{}
	for _, r := range o.rows {
		byGUID[r.GUID] = r
		guid := r.Relationships.Space.Data.GUID
		card := cards[guid]
		if card == nil {
			card = &spaceCard{}
			cards[guid] = card
		}
		card.Apps++
		switch r.Health() {
		case "crashed":
			card.Crashed++
			data.Crashed = append(data.Crashed, r)
		case "stopped":
			card.Stopped++
		default:
			card.Running++
		}
	}
	for _, org := range o.orgs {
		card := orgCard{GUID: org.GUID, Name: org.Name}
		for _, sp := range o.spaces {
			if sp.Relationships.Organization.Data.GUID != org.GUID {
				continue
			}
			one := spaceCard{}
			if cards[sp.GUID] != nil {
				one = *cards[sp.GUID]
			}
			one.GUID, one.Name = sp.GUID, sp.Name
			card.Spaces = append(card.Spaces, one)
		}
		data.Orgs = append(data.Orgs, card)
	}
	for _, d := range recent {
		if of, ok := byGUID[d.Relationships.App.Data.GUID]; ok {
			data.Deployments = append(data.Deployments, deployed{d, of})
		}
	}
	return data, nil
}

// search is GET /console/search: apps, spaces, service instances and users whose name
// contains a text.
func (c *Console) search(w http.ResponseWriter, r *http.Request, s *Session) error {
	text := strings.TrimSpace(r.URL.Query().Get("q"))
	data := map[string]any{"Query": text}
	if text != "" {
		var o *overview
		var services []serviceRow
		var users []platformUser
		call := c.platform(r, s)
		err := together(
			func() (err error) { o, err = loadOverview(call); return err },
			func() (err error) { services, err = call.findServices(text); return err },
			func() (err error) { users, err = c.findUsers(r, s, text); return err },
		)
		if err != nil {
			return err
		}
		rows := slices.DeleteFunc(o.rows, func(r row) bool { return !matches(r.Name, text) })
		spaces := slices.DeleteFunc(o.spaces, func(s space) bool { return !matches(s.Name, text) })
		data["Services"], data["Users"], data["MayOpenUsers"] = services, users, s.has(userScopes...)
		data["More"] = max(0, len(rows)-perPage)
		data["Apps"], data["Spaces"] = rows[:min(len(rows), perPage)], spaces[:min(len(spaces), perPage)]
	}
	return c.show(w, r, s, http.StatusOK, "search.html", page{Title: "Search", Section: "search", Data: data})
}

func matches(name, text string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(text))
}
