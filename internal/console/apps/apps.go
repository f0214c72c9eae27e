package apps

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
)

type appsData struct {
	Rows          []Row
	Query, Health string
	Healths       []string
	Space         string // its guid
	SpaceName     string
	Pager         page.Pager
	Command, Push string
	MayCreate     bool // an app; looked up only if there is none
}

// FirstPush is the command that pushes the first app, of the client that the documentation teaches.
func FirstPush() string { return page.Command("ingot", "push") }

// firstApp is what a page without apps offers.
type firstApp struct {
	CSRF, Push string
	Space      string // its guid; empty for any
	May        bool   // the user may create apps there
}

// loadApps is GET /console/apps: ?q= part of a name, ?health=, ?space= guid, ?page=.
func (c *pages) loadApps(r *http.Request, s *page.Session) (any, error) {
	call, q := c.Platform(r, s), r.URL.Query()
	o, err := LoadOverview(call)
	if err != nil {
		return nil, err
	}
	data := &appsData{Query: strings.TrimSpace(q.Get("q")), Health: q.Get("health"), Space: q.Get("space"),
		Command: page.Command("cf", "apps"), Push: FirstPush(),
		Healths: []string{"running", "starting", "crashed", "stopped"}}
	for _, s := range o.Spaces {
		if s.GUID == data.Space {
			data.SpaceName = s.Name
		}
	}
	rows := slices.DeleteFunc(o.Rows, func(r Row) bool {
		return !page.Matches(r.Name, data.Query) || data.Health != "" && r.Health() != data.Health || data.Space != "" &&
			r.Relationships.Space.GUID() != data.Space
	})
	data.Pager = page.NewPager(r, len(rows), page.PerPage, "apps")
	data.Pager.At, data.Pager.Query = page.Path+"/apps", url.Values{}
	for key, value := range map[string]string{"q": data.Query, "health": data.Health, "space": data.Space} {
		if value != "" {
			data.Pager.Query.Set(key, value)
		}
	}
	data.Rows = page.Visible(data.Pager, rows, page.PerPage)
	if len(rows) == 0 {
		if data.MayCreate, err = MayCreate(call, data.Space); err != nil {
			return nil, err
		}
	}
	for i := range data.Rows {
		one := &data.Rows[i]
		one.Restart, one.Stop, one.Start = page.Command("cf", "restart", one.Name), page.Command("cf", "stop", one.Name),
			page.Command("cf", "start", one.Name)
	}
	return data, page.Together(
		func() error { return markWritable(call, data.Rows) },
		func() error { return c.complete(r, call, data.Rows) },
		func() error { return markBuilds(call, data.Rows) },
	)
}

// markWritable sets which apps the user may change.
func markWritable(c *page.Caller, rows []Row) error {
	writable := map[string]bool{}
	if !c.Session.Admin() {
		roles, err := page.All[cfapi.Role](c, "/v3/roles", url.Values{"user_guids": {c.Session.UserID},
			"types": {"space_developer,space_supporter"}})
		if err != nil {
			return err
		}
		for _, one := range roles {
			writable[one.Relationships.Space.GUID()] = true
		}
	}
	for i := range rows {
		rows[i].MayWrite = c.Session.Admin() || writable[rows[i].Relationships.Space.GUID()]
	}
	return nil
}

// buildsRead is how many of the newest builds of the apps of a page are looked at.
const buildsRead = "200"

// markBuilds sets which apps could not be built the last time.
func markBuilds(c *page.Caller, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	var guids []string
	for i := range rows {
		guids = append(guids, rows[i].GUID)
	}
	var builds struct{ Resources []cfapi.Build }
	err := c.Get(&builds, "/v3/builds", url.Values{"app_guids": {strings.Join(guids, ",")}, "order_by": {"-created_at"},
		"per_page": {buildsRead}})
	newest := map[string]bool{}
	for _, b := range builds.Resources {
		app := b.Relationships.App.GUID()
		if _, known := newest[app]; !known {
			newest[app] = b.Failed()
		}
	}
	for i := range rows {
		rows[i].BuildFailed = newest[rows[i].GUID]
	}
	return err
}

// complete adds what a row needs and lists do not have: the first URL and what the app
// uses.
func (c *pages) complete(req *http.Request, call *page.Caller, rows []Row) error {
	calls := make([]func() error, 0, 3*len(rows))
	for i := range rows {
		r := &rows[i]
		calls = append(calls, func() error {
			routes, err := page.All[route](call, "/v3/apps/"+r.GUID+"/routes",
				url.Values{"per_page": {"1"}, "order_by": {"created_at"}})
			if page.Gone(err) || err == nil && len(routes) == 0 {
				return nil
			}
			if err == nil {
				r.URL, r.Link = routes[0].URL, routes[0].link(req)
			}
			return err
		})
		if r.Running == 0 {
			continue
		}
		calls = append(calls, func() error {
			r.Charts, _ = c.charts(call, r.GUID) // the list is worth showing without them
			return nil
		})
		calls = append(calls, func() error {
			var stats struct{ Resources []cfapi.Stat }
			err := call.Get(&stats, "/v3/apps/"+r.GUID+"/processes/web/stats", nil)
			for _, in := range stats.Resources {
				r.CPU += in.Usage.CPU
				r.Memory += in.Usage.Mem
				r.Measured = true
			}
			if page.Gone(err) {
				return nil
			}
			return err
		})
	}
	for some := range slices.Chunk(calls, 8) {
		if err := page.Together(some...); err != nil {
			return err
		}
	}
	return nil
}
