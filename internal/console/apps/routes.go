package apps

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

type routesData struct {
	Routes  []routeRow
	Domains []cfapi.Thing
	Map     string
	// Requests are all of the running instances, as the router counts them.
	Requests int64
	Since    time.Time // the oldest line of the log that the figures are from; zero means none
}

type routeRow struct {
	route
	Figures figures
	Unmap   string
}

// unmapCommand returns the command that unmaps a route of one of the domains.
func unmapCommand(app, routeURL string, domains []cfapi.Thing) string {
	host, path, _ := strings.Cut(routeURL, "/")
	best := ""
	for _, d := range domains {
		if (host == d.Name || strings.HasSuffix(host, "."+d.Name)) && len(d.Name) > len(best) {
			best = d.Name
		}
	}
	words := []string{"cf", "unmap-route", app, cmp.Or(best, host)}
	if name := strings.TrimSuffix(strings.TrimSuffix(host, best), "."); best != "" && name != "" {
		words = append(words, "--hostname", name)
	}
	if path != "" {
		words = append(words, "--path", path)
	}
	return page.Command(words...)
}

// loadRoutes is GET /console/apps/GUID/routes.
func loadRoutes(r *http.Request, call *page.Caller, d *Data) (any, error) {
	data := &routesData{
		Map: page.Command("cf", "map-route", d.App.Name, "DOMAIN", "--hostname", "HOST", "--app-port", "PORT"),
	}
	var routes []route
	var requests []line
	var stats struct{ Resources []cfapi.Stat }
	err := page.Together(
		page.List(call, &routes, "/v3/apps/"+d.App.GUID+"/routes", nil),
		page.List(call, &data.Domains, "/v3/domains", nil),
		func() (err error) {
			if d.MayReadLogs {
				requests, err = readLines(call, d.App.GUID, newest())
			}
			return err
		},
		func() error {
			err := call.Get(&stats, "/v3/apps/"+d.App.GUID+"/processes/web/stats", nil)
			if page.Gone(err) {
				return nil
			}
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	for _, in := range stats.Resources {
		if in.Router != nil {
			data.Requests += in.Router.Requests
		}
	}
	if len(requests) > 0 {
		data.Since = requests[0].At
	}
	counted := countRequests(routes, requests)
	for i, one := range routes {
		one.Link = one.link(r)
		data.Routes = append(data.Routes, routeRow{one, counted[i], unmapCommand(d.App.Name, one.URL, data.Domains)})
	}
	return data, nil
}

// mapRoute is POST /console/apps/GUID/routes/map, with the fields host, domain (its guid),
// path, port, protocol, and tcp_port of a route of a TCP domain. The route is created if it does not exist.
func (c *pages) mapRoute(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, guid := c.Platform(r, s), web.Param(r, "guid")
	app, err := loadName(call, guid)
	if err != nil {
		return err
	}
	host, path := strings.TrimSpace(r.PostForm.Get("host")), strings.TrimSpace(r.PostForm.Get("path"))
	q := url.Values{"hosts": {host}, "domain_guids": {r.PostForm.Get("domain")}, "paths": {path},
		"space_guids": {app.SpaceGUID}}
	if port := r.PostForm.Get("tcp_port"); port != "" {
		q.Set("ports", port)
	}
	found, err := page.All[cfapi.Route](call, "/v3/routes", q)
	if err != nil {
		return err
	}
	to := cfapi.Route{}
	if len(found) > 0 {
		to = found[0]
	} else {
		body := map[string]any{"relationships": map[string]any{
			"domain": cfapi.Relate(r.PostForm.Get("domain")), "space": cfapi.Relate(app.SpaceGUID),
		}}
		if host != "" {
			body["host"] = host
		}
		if path != "" {
			body["path"] = path
		}
		if text := r.PostForm.Get("tcp_port"); text != "" {
			port, err := strconv.Atoi(text)
			if err != nil {
				return fault.New(fault.Unprocessable, "The port of the route must be a number, not %.50q.", text)
			}
			body["port"] = port
		}
		if err := call.Do(http.MethodPost, "/v3/routes", body, &to); err != nil {
			return err
		}
	}
	destination := map[string]any{"app": map[string]any{"guid": guid}}
	if text := r.PostForm.Get("port"); text != "" {
		port, err := strconv.Atoi(text)
		if err != nil {
			return fault.New(fault.Unprocessable, "The port must be a number, not %.50q.", text)
		}
		destination["port"] = port
	}
	cfapi.Add(destination, "protocol", r.PostForm.Get("protocol"))
	body := map[string]any{"destinations": []any{destination}}
	if err := call.Do(http.MethodPost, "/v3/routes/"+to.GUID+"/destinations", body, nil); err != nil {
		return err
	}
	return backTo(w, r, guid, "routes", "mapped")
}

// unmapRoute is POST /console/apps/GUID/routes/GUID/unmap: it removes all destinations of
// the app.
func (c *pages) unmapRoute(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, guid := c.Platform(r, s), web.Param(r, "guid")
	path := "/v3/routes/" + url.PathEscape(web.Param(r, "route")) + "/destinations"
	var found cfapi.Route
	if err := call.Get(&found, path, nil); err != nil {
		return err
	}
	for _, d := range found.Destinations {
		if d.App.GUID != guid {
			continue
		}
		if err := call.Do(http.MethodDelete, path+"/"+url.PathEscape(d.GUID), nil, nil); err != nil {
			return err
		}
	}
	return backTo(w, r, guid, "routes", "unmapped")
}
