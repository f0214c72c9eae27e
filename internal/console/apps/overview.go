package apps

import (
	"net/url"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
)

// Row is an app in a list.
type Row struct {
	cfapi.App
	Org, Space      string
	Running, Wanted int
	Crashed         int
	BuildFailed     bool // the last build
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
func (r Row) Health() string { return health(&r.App, r.Wanted, r.Running, r.Crashed) }

// health is the state of an app on all pages.
func health(app *cfapi.App, wanted, running, crashed int) string {
	switch {
	case !app.Started():
		return "stopped"
	case crashed > 0:
		return "crashed"
	case running < wanted:
		return "starting"
	}
	return "running"
}

// Overview is what lists are made of.
type Overview struct {
	Orgs   []cfapi.Thing
	Spaces []cfapi.Space
	Rows   []Row
}

// LoadOverview reads all apps, spaces and organizations that the user sees.
func LoadOverview(c *page.Caller) (*Overview, error) {
	var o Overview
	var apps []summary
	err := page.Together(
		page.List(c, &o.Orgs, "/v3/organizations", nil),
		page.List(c, &o.Spaces, "/v3/spaces", nil),
		page.List(c, &apps, "/v3/app_summaries", url.Values{"order_by": {"name"}}),
	)
	if err != nil {
		return nil, err
	}
	orgs := cfapi.Names(o.Orgs)
	spaces := map[string]cfapi.Space{}
	for _, s := range o.Spaces {
		spaces[s.GUID] = s
	}
	for _, a := range apps {
		in := spaces[a.SpaceGUID]
		one := Row{
			App: cfapi.App{Thing: cfapi.Thing{GUID: a.GUID, Name: a.Name}, State: a.State}, Space: in.Name,
			Org: orgs[in.Relationships.Organization.GUID()], Wanted: a.Instances.Desired, Running: a.Instances.Running,
			Crashed: a.Instances.Crashed,
		}
		one.Relationships.Space = cfapi.Relate(a.SpaceGUID)
		o.Rows = append(o.Rows, one)
	}
	return &o, nil
}
