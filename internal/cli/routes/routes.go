package routes

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

type routeRow struct {
	GUID     string   `json:"guid"`
	URL      string   `json:"url"`
	Address  string   `json:"address"`
	Host     string   `json:"host"`
	Domain   string   `json:"domain"`
	Port     int      `json:"port,omitempty"`
	Path     string   `json:"path,omitempty"`
	Protocol string   `json:"protocol"`
	Apps     []string `json:"apps"`
}

func listRoutes(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Getting routes")
	var routes []cfapi.Route
	var apps []cfapi.App
	var domains []cfapi.Thing
	err := core.Concurrently(
		core.Into(ctx, s, &routes, "/v3/routes", s.InSpace("per_page", "5000")),
		core.Into(ctx, s, &apps, "/v3/apps", s.InSpace("per_page", "5000")),
		core.Into(ctx, s, &domains, "/v3/domains", nil))
	if err != nil {
		return nil, err
	}
	appNames, domainNames := cfapi.Names(apps), cfapi.Names(domains)
	bare := s.Env.Program == "cf" // shows cf's columns, without URLs
	list := &core.Listing[routeRow]{
		Key: "routes", Heading: []string{"url", "host", "domain", "port", "path", "protocol", "apps"}, Paint: core.Plain,
		Cells: func(r routeRow) []string {
			return []string{r.Address, r.Host, r.Domain, shownPort(r.Port), r.Path, r.Protocol, strings.Join(r.Apps, ", ")}
		},
	}
	if bare {
		cells := list.Cells
		list.Heading, list.Cells = list.Heading[1:], func(r routeRow) []string { return cells(r)[1:] }
	}
	for _, r := range routes {
		row := routeRow{r.GUID, r.URL, s.Address(r), r.Host, domainNames[r.Relationships.Domain.GUID()], r.Port, r.Path,
			r.Protocol, []string{}}
		for _, d := range r.Destinations {
			name := cmp.Or(appNames[d.App.GUID], d.App.GUID)
			if d.Port != 0 && d.Port != 8080 {
				name += ":" + strconv.Itoa(d.Port)
			}
			if d.App.Sidecar != nil && !bare {
				name += " (" + d.App.Sidecar.Name + ")"
			}
			row.Apps = append(row.Apps, name)
		}
		list.Rows = append(list.Rows, row)
	}
	return list, nil
}

// shownPort returns a port as text; HTTP routes have none.
func shownPort(port int) string {
	if port == 0 {
		return ""
	}
	return strconv.Itoa(port)
}

// RouteFlags identify a route of a domain.
type RouteFlags struct {
	Host string `short:"n" long:"hostname" value-name:"HOST" description:"Host name"`
	Path string `long:"path" value-name:"PATH" description:"Path, such as /api"`
	Port int    `long:"port" value-name:"PORT" description:"Port, for TCP domains"`
}

func (f RouteFlags) query(domain string) url.Values {
	q := url.Values{"domain_guids": {domain}, "hosts": {f.Host}, "paths": {f.path()}}
	cfapi.Filter(q, "ports", shownPort(f.Port))
	return q
}

func (f RouteFlags) path() string {
	if f.Path != "" && !strings.HasPrefix(f.Path, "/") {
		return "/" + f.Path
	}
	return f.Path
}

// find returns the route, or nil if it does not exist.
func (f RouteFlags) find(ctx context.Context, s *core.Session, domain string) (*cfapi.Route, error) {
	found, err := client.List[cfapi.Route](ctx, s.API, "/v3/routes", f.query(domain))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (f RouteFlags) create(ctx context.Context, s *core.Session, domain string) (*cfapi.Route, error) {
	body := map[string]any{"relationships": map[string]any{"space": cfapi.Relate(s.Config.Space.GUID),
		"domain": cfapi.Relate(domain)}}
	cfapi.Add(body, "host", f.Host, "path", f.path(), "port", f.Port)
	var route cfapi.Route
	_, err := s.API.Post(ctx, "/v3/routes", body, &route)
	return &route, err
}

type mapRouteFlags struct {
	RouteFlags
	AppPort  int    `long:"app-port" value-name:"PORT" description:"Port of the app that receives the requests, such as a sidecar's"`
	Sidecar  string `long:"sidecar" value-name:"NAME" description:"Sidecar that receives the requests, on the first port it declares"`
	Protocol string `long:"app-protocol" value-name:"http1|http2" description:"Protocol the app speaks"`
	Process  string `long:"process" value-name:"TYPE" description:"Process type that receives the requests (default: web)"`
}

// mapped is a route with its destinations.
type mapped struct {
	Route  string `json:"route"`
	GUID   string `json:"guid"`
	App    string `json:"app"`
	Port   int    `json:"port,omitempty"`
	Mapped bool   `json:"mapped"`
}

func (*mapped) Show(*term.Printer) {}

// parts finds the app APP, the domain DOMAIN and the route, which is nil if it does not exist.
func (f RouteFlags) parts(
	ctx context.Context, s *core.Session, w core.Words,
) (app cfapi.App, domain cfapi.Thing, route *cfapi.Route, err error) {
	if domain, err = s.Domain(ctx, w["DOMAIN"]); err == nil {
		app, err = s.App(ctx, w["APP"])
	}
	if err == nil {
		route, err = f.find(ctx, s, domain.GUID)
	}
	return app, domain, route, err
}

func mapRoute(ctx context.Context, s *core.Session, w core.Words, f *mapRouteFlags) (core.Result, error) {
	app, domain, route, err := f.parts(ctx, s, w)
	if err != nil {
		return nil, err
	}
	if route == nil {
		s.Doing("Creating route %s", f.Address(domain.Name))
		if route, err = f.create(ctx, s, domain.GUID); err != nil {
			return nil, err
		}
		s.OK()
	}
	s.Doing("Mapping route %s to app %s", route.URL, app.Name)
	target := map[string]any{"guid": app.GUID}
	to := map[string]any{"app": target}
	if f.Process != "" {
		target["process"] = map[string]string{"type": f.Process}
	}
	if f.Sidecar != "" {
		target["sidecar"] = map[string]string{"name": f.Sidecar}
	}
	cfapi.Add(to, "port", f.AppPort, "protocol", f.Protocol)
	var all cfapi.Route
	body := map[string]any{"destinations": []any{to}}
	if _, err := s.API.Post(ctx, "/v3/routes/"+route.GUID+"/destinations", body, &all); err != nil {
		return nil, err
	}
	s.OK()
	if f.Sidecar != "" && f.AppPort == 0 {
		for _, d := range all.Destinations {
			if d.App.GUID == app.GUID && d.App.Sidecar != nil && d.App.Sidecar.Name == f.Sidecar {
				f.AppPort = d.Port
			}
		}
	}
	if f.AppPort > 0 {
		s.Say("TIP: A new app port takes effect after a restart: '%s restart %s'.", s.Env.Program, app.Name)
	}
	return &mapped{route.URL, route.GUID, app.Name, f.AppPort, true}, nil
}

func unmapRoute(ctx context.Context, s *core.Session, w core.Words, f *RouteFlags) (core.Result, error) {
	app, domain, route, err := f.parts(ctx, s, w)
	if err != nil {
		return nil, err
	}
	if route == nil {
		return nil, &core.Problem{What: fmt.Sprintf("Route not found in the domain %s.", domain.Name),
			Try: fmt.Sprintf("'%s routes' lists them", s.Env.Program)}
	}
	s.Doing("Removing route %s from app %s", route.URL, app.Name)
	found := false
	for _, d := range route.Destinations {
		if d.App.GUID == app.GUID {
			found = true
			if err := s.API.Delete(ctx, "/v3/routes/"+route.GUID+"/destinations/"+d.GUID); err != nil {
				return nil, err
			}
		}
	}
	if !found {
		s.Say("Route %s is not mapped to app %s.", route.URL, app.Name)
	}
	s.OK()
	return &mapped{route.URL, route.GUID, app.Name, 0, false}, nil
}

func mapCommands() []*core.Command {
	return core.InGroup(core.GroupRoutes,
		core.Entry("routes", "", "List the routes in the target space", core.NeedsSpace, listRoutes, "").Alias("r"),
		core.Entry("map-route", "APP DOMAIN [-n HOST] [--app-port PORT | --sidecar NAME]", "Map a route to an app",
			core.NeedsSpace, mapRoute,
			"my-app apps.localhost -n blue", "my-app apps.localhost -n dump --app-port 8082",
			"my-app apps.localhost -n proxy --sidecar proxy"),
		core.Entry("unmap-route", "APP DOMAIN [-n HOST]", "Unmap a route from an app", core.NeedsSpace, unmapRoute,
			"my-app apps.localhost -n blue"),
	)
}
