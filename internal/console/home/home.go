package home

import (
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/access"
	"ingot/internal/console/apps"
	"ingot/internal/console/page"
	"ingot/internal/console/services"
)

type homeData struct {
	Crashed     []apps.Row
	Orgs        []orgCard
	Deployments []deployed
	Apps        int
	Push        string
	MayCreate   bool // an app; looked up only if there is none
	// Place is set while there is no space, for users who may create one.
	Place *page.Place
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
	cfapi.Deployment
	App apps.Row
}

//go:embed pages/*.html
var files embed.FS

// Files are the templates of the first page and the search.
var Files = page.Files{FS: files}

// pages serves the first page and the search.
type pages struct{ *page.Console }

// New returns the first page and the search.
func New(core *page.Console) page.Part {
	c := pages{core}
	return page.Part{Screens: map[string]page.Screen{
		"":        {Title: "Home", Section: "home", Template: "home.html", Live: "home", Load: c.loadHome},
		"/search": {Title: "Search", Section: "search", Template: "search.html", Load: c.search},
	}}
}

// loadHome is GET /console.
func (c pages) loadHome(r *http.Request, s *page.Session) (any, error) {
	call := c.Platform(r, s)
	var o *apps.Overview
	var recent []cfapi.Deployment
	err := page.Together(
		func() (err error) { o, err = apps.LoadOverview(call); return err },
		page.List(call, &recent, "/v3/deployments", url.Values{"order_by": {"-created_at"}, "per_page": {"8"}}),
	)
	if err != nil {
		return nil, err
	}
	data := &homeData{Apps: len(o.Rows), Push: apps.FirstPush()}
	if len(o.Spaces) == 0 {
		data.Place = s.NewPlace()
	}
	if len(o.Rows) == 0 && data.Place == nil {
		if data.MayCreate, err = apps.MayCreate(call, ""); err != nil {
			return nil, err
		}
	}
	cards := map[string]*spaceCard{}
	byGUID := map[string]apps.Row{}
	for _, r := range o.Rows {
		byGUID[r.GUID] = r
		guid := r.Relationships.Space.GUID()
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
	for _, org := range o.Orgs {
		card := orgCard{GUID: org.GUID, Name: org.Name}
		for _, sp := range o.Spaces {
			if sp.Relationships.Organization.GUID() != org.GUID {
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
		if of, ok := byGUID[d.Relationships.App.GUID()]; ok {
			data.Deployments = append(data.Deployments, deployed{d, of})
		}
	}
	return data, nil
}

// search is GET /console/search: apps, spaces, service instances and users whose name
// contains a text.
func (c pages) search(r *http.Request, s *page.Session) (any, error) {
	text := strings.TrimSpace(r.URL.Query().Get("q"))
	data := map[string]any{"Query": text}
	if text != "" {
		var o *apps.Overview
		var found []services.Row
		var users []cfapi.User
		call := c.Platform(r, s)
		err := page.Together(
			func() (err error) { o, err = apps.LoadOverview(call); return err },
			func() (err error) { found, err = services.Find(call, text); return err },
			func() (err error) { users, err = access.FindUsers(c.Console, r, s, text); return err },
		)
		if err != nil {
			return nil, err
		}
		rows := slices.DeleteFunc(o.Rows, func(r apps.Row) bool { return !page.Matches(r.Name, text) })
		spaces := slices.DeleteFunc(o.Spaces, func(s cfapi.Space) bool { return !page.Matches(s.Name, text) })
		data["Services"], data["Users"], data["MayOpenUsers"] = found, users, s.Has(access.UserScopes...)
		data["More"] = max(0, len(rows)-page.PerPage)
		data["Apps"], data["Spaces"] = rows[:min(len(rows), page.PerPage)], spaces[:min(len(spaces), page.PerPage)]
	}
	return data, nil
}
