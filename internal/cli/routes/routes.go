package routes

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

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

type routeList struct {
	Routes []routeRow `json:"routes"`

	bare bool // show cf's columns, without URLs
}

func (l *routeList) Show(p *term.Printer) {
	if len(l.Routes) == 0 {
		p.Println("No routes found.")
		return
	}
	t := term.Table{Heading: []string{"url", "host", "domain", "port", "path", "protocol", "apps"}}
	for _, r := range l.Routes {
		port := ""
		if r.Port > 0 {
			port = strconv.Itoa(r.Port)
		}
		t.Rows = append(t.Rows, term.Cells(r.Address, r.Host, r.Domain, port, r.Path, r.Protocol, strings.Join(r.Apps, ", ")))
	}
	if l.bare {
		t.Heading = t.Heading[1:]
		for i := range t.Rows {
			t.Rows[i] = t.Rows[i][1:]
		}
	}
	p.Println("")
	p.Table(t)
}

func listRoutes(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Getting routes")
	var routes []client.Route
	var apps []client.App
	var domains []client.Thing
	err := core.Concurrently(
		func() (err error) {
			routes, err = client.List[client.Route](ctx, s.API, "/v3/routes", s.InSpace("per_page", "5000"))
			return err
		},
		func() (err error) {
			apps, err = client.List[client.App](ctx, s.API, "/v3/apps", s.InSpace("per_page", "5000"))
			return err
		},
		func() (err error) {
			domains, err = client.List[client.Thing](ctx, s.API, "/v3/domains", nil)
			return err
		})
	if err != nil {
		return nil, err
	}
	appNames, domainNames := map[string]string{}, map[string]string{}
	for _, a := range apps {
		appNames[a.GUID] = a.Name
	}
	for _, d := range domains {
		domainNames[d.GUID] = d.Name
	}
	list := &routeList{Routes: []routeRow{}, bare: s.Env.Program == "cf"}
	for _, r := range routes {
		row := routeRow{r.GUID, r.URL, s.Address(r), r.Host, domainNames[r.Relationships.Domain.GUID()], r.Port, r.Path,
			r.Protocol, []string{}}
		for _, d := range r.Destinations {
			name := cmp.Or(appNames[d.App.GUID], d.App.GUID)
			if d.Port != 0 && d.Port != 8080 {
				name += ":" + strconv.Itoa(d.Port)
			}
			if d.App.Sidecar != nil && !list.bare {
				name += " (" + d.App.Sidecar.Name + ")"
			}
			row.Apps = append(row.Apps, name)
		}
		list.Routes = append(list.Routes, row)
	}
	return list, nil
}

// RouteFlags identify a route of a domain.
type RouteFlags struct {
	Host string `short:"n" long:"hostname" value-name:"HOST" description:"Host name"`
	Path string `long:"path" value-name:"PATH" description:"Path, such as /api"`
	Port int    `long:"port" value-name:"PORT" description:"Port, for TCP domains"`
}

func (f RouteFlags) query(domain string) url.Values {
	q := url.Values{"domain_guids": {domain}, "hosts": {f.Host}, "paths": {f.path()}}
	if f.Port > 0 {
		q.Set("ports", strconv.Itoa(f.Port))
	}
	return q
}

func (f RouteFlags) path() string {
	if f.Path != "" && !strings.HasPrefix(f.Path, "/") {
		return "/" + f.Path
	}
	return f.Path
}

// find returns the route, or nil if it does not exist.
func (f RouteFlags) find(ctx context.Context, s *core.Session, domain string) (*client.Route, error) {
	found, err := client.List[client.Route](ctx, s.API, "/v3/routes", f.query(domain))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (f RouteFlags) create(ctx context.Context, s *core.Session, domain string) (*client.Route, error) {
	body := map[string]any{"relationships": map[string]any{"space": client.Relate(s.Config.Space.GUID),
		"domain": client.Relate(domain)}}
	if f.Host != "" {
		body["host"] = f.Host
	}
	if f.Path != "" {
		body["path"] = f.path()
	}
	if f.Port > 0 {
		body["port"] = f.Port
	}
	var route client.Route
	_, err := s.API.Post(ctx, "/v3/routes", body, &route)
	return &route, err
}

type mapRouteFlags struct {
	RouteFlags
	AppPort  int    `long:"app-port" value-name:"PORT" description:"Port of the app that receives the requests, such as a sidecar's"`
	Sidecar  string `long:"sidecar" value-name:"NAME" description:"Sidecar that receives the requests, on the first port it declares"`
	Protocol string `long:"app-protocol" value-name:"http1|http2" description:"Protocol the app speaks"`
	Process  string `long:"process" value-name:"TYPE" description:"Process type that receives the requests (default: web)"`
	Args     struct {
		App    string `positional-arg-name:"APP" required:"yes"`
		Domain string `positional-arg-name:"DOMAIN" required:"yes"`
	} `positional-args:"yes"`
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

func mapRoute(ctx context.Context, s *core.Session, _ core.Words, f *mapRouteFlags) (core.Result, error) {
	domain, err := s.Domain(ctx, f.Args.Domain)
	if err != nil {
		return nil, err
	}
	app, err := s.App(ctx, f.Args.App)
	if err != nil {
		return nil, err
	}
	route, err := f.find(ctx, s, domain.GUID)
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
	if f.AppPort > 0 {
		to["port"] = f.AppPort
	}
	if f.Protocol != "" {
		to["protocol"] = f.Protocol
	}
	var all struct {
		Destinations []client.Destination `json:"destinations"`
	}
	if _, err := s.API.Post(ctx, "/v3/routes/"+route.GUID+"/destinations", map[string]any{"destinations": []any{to}},
		&all); err != nil {
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

type unmapRouteFlags struct {
	RouteFlags
	Args struct {
		App    string `positional-arg-name:"APP" required:"yes"`
		Domain string `positional-arg-name:"DOMAIN" required:"yes"`
	} `positional-args:"yes"`
}

func unmapRoute(ctx context.Context, s *core.Session, _ core.Words, f *unmapRouteFlags) (core.Result, error) {
	domain, err := s.Domain(ctx, f.Args.Domain)
	if err != nil {
		return nil, err
	}
	app, err := s.App(ctx, f.Args.App)
	if err != nil {
		return nil, err
	}
	route, err := f.find(ctx, s, domain.GUID)
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
