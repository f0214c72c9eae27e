package routes

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

// Existing finds the route that the flags name.
func (f RouteFlags) Existing(ctx context.Context, s *core.Session, domain string) (*cfapi.Route, cfapi.Thing, error) {
	d, err := s.Domain(ctx, domain)
	if err != nil {
		return nil, d, err
	}
	route, err := f.find(ctx, s, d.GUID)
	if err == nil && route == nil {
		err = &core.Problem{What: fmt.Sprintf("Route %s not found.", f.Address(domain)),
			Try: fmt.Sprintf("'%s routes' lists them", s.Env.Program), Err: core.ErrNotFound}
	}
	return route, d, err
}

type destinationRow struct {
	App      string `json:"app"`
	Process  string `json:"process"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
}

type optionedRoute struct {
	cfapi.Route
	Options map[string]any `json:"options"`
}

func showRoute(ctx context.Context, s *core.Session, w core.Words, f *RouteFlags) (core.Result, error) {
	s.Doing("Showing route %s", f.Address(w["DOMAIN"]))
	found, domain, err := f.Existing(ctx, s, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	var route optionedRoute
	if err := s.API.Get(ctx, "/v3/routes/"+found.GUID, nil, &route); err != nil {
		return nil, err
	}
	apps, err := client.List[cfapi.App](ctx, s.API, "/v3/apps", s.InSpace("per_page", "5000"))
	if err != nil {
		return nil, err
	}
	names := cfapi.Names(apps)
	rows := []destinationRow{}
	for _, d := range route.Destinations {
		rows = append(rows, destinationRow{cmp.Or(names[d.App.GUID], d.App.GUID), d.App.Process.Type, d.Port, d.Protocol})
	}
	var options []string
	for _, name := range core.SortedKeys(route.Options) {
		options = append(options, fmt.Sprintf("%s=%v", name, route.Options[name]))
	}
	return &core.Sheet{
		Pairs: [][2]string{{"domain", domain.Name}, {"host", route.Host}, {"port", shownPort(route.Port)},
			{"path", route.Path},
			{"protocol", route.Protocol}, {"options", strings.Join(options, ", ")}},
		More: &core.Listing[destinationRow]{Key: "destinations", Rows: rows, Heading: []string{"app", "process", "port",
			"app-protocol"}, Cells: func(d destinationRow) []string {
			return []string{d.App, d.Process, strconv.Itoa(d.Port), d.Protocol}
		}},
		JSON: map[string]any{
			"guid": route.GUID, "url": route.URL, "domain": domain.Name, "host": route.Host, "port": route.Port,
			"path": route.Path, "protocol": route.Protocol,
			"options": route.Options, "destinations": rows,
		},
	}, nil
}

func checkRoute(ctx context.Context, s *core.Session, w core.Words, f *RouteFlags) (core.Result, error) {
	address := f.Address(w["DOMAIN"])
	s.Say("Checking for route...")
	domain, err := s.Domain(ctx, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	cfapi.Filter(q, "host", f.Host, "path", f.path(), "port", shownPort(f.Port))
	var match struct {
		Exists bool `json:"matching_route"`
	}
	if err := s.API.Get(ctx, "/v3/domains/"+domain.GUID+"/route_reservations", q, &match); err != nil {
		return nil, err
	}
	verb := map[bool]string{true: "does exist", false: "does not exist"}[match.Exists]
	return &core.JSONAs{Result: &core.Text{Key: "", Value: "Route '" + address + "' " + verb + "."},
		JSON: map[string]any{"route": address, "exists": match.Exists}}, nil
}

type updateRouteFlags struct {
	RouteFlags
	Options []string `short:"o" long:"option" value-name:"NAME=VALUE" description:"Set an option of the route, such as loadbalancing=least-connection"`
	Remove  []string `short:"r" long:"remove-option" value-name:"NAME" description:"Remove an option of the route"`
}

func updateRoute(ctx context.Context, s *core.Session, w core.Words, f *updateRouteFlags) (core.Result, error) {
	options := map[string]any{}
	for _, o := range f.Options {
		name, value, ok := strings.Cut(o, "=")
		if !ok || name == "" {
			return nil, core.UsageError(fmt.Sprintf("-o %s is not NAME=VALUE", o))
		}
		options[name] = value
	}
	for _, name := range f.Remove {
		options[name] = nil
	}
	if len(options) == 0 {
		return nil, core.UsageError("nothing to change: give -o or -r")
	}
	s.Doing("Updating route %s", f.Address(w["DOMAIN"]))
	route, _, err := f.Existing(ctx, s, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	return s.Change(ctx, http.MethodPatch, "/v3/routes/"+route.GUID, map[string]any{"options": options}, "route",
		route.URL, "options", options)
}

func deleteOrphanedRoutes(ctx context.Context, s *core.Session, _ core.Words, f *core.ForceFlag) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "Really delete all routes of the space that are not mapped to an app"); err != nil {
		return nil, err
	}
	s.Doing("Deleting routes that are not mapped")
	if err := s.API.Delete(ctx, "/v3/spaces/"+s.Config.Space.GUID+"/routes?unmapped=true"); err != nil {
		return nil, err
	}
	return s.Done("space", s.Config.Space.Name)
}

type destinationFlags struct {
	RouteFlags
	Protocol string `long:"app-protocol" value-name:"http1|http2" default:"http1" description:"Protocol the app speaks"`
}

func updateDestination(ctx context.Context, s *core.Session, w core.Words, f *destinationFlags) (core.Result, error) {
	s.Doing("Updating destination protocol of route %s to "+f.Protocol, f.Address(w["DOMAIN"]))
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	route, _, err := f.Existing(ctx, s, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	changed := 0
	for _, d := range route.Destinations {
		if d.App.GUID != app.GUID {
			continue
		}
		if err := s.Send(ctx, http.MethodPatch, "/v3/routes/"+route.GUID+"/destinations/"+d.GUID,
			map[string]string{"protocol": f.Protocol}); err != nil {
			return nil, err
		}
		changed++
	}
	if changed == 0 {
		return nil, &core.Problem{What: fmt.Sprintf("Route %s is not mapped to app %s.", route.URL, app.Name),
			Try: fmt.Sprintf("'%s map-route %s %s'", s.Env.Program, app.Name, w["DOMAIN"])}
	}
	return s.Done("route", route.URL, "app", app.Name, "protocol", f.Protocol)
}

type otherSpaceFlags struct {
	RouteFlags
	Space string `short:"s" value-name:"SPACE" description:"Space to share with or move to (default: the targeted space)"`
	Org   string `short:"o" value-name:"ORG" description:"Org of that space (default: the targeted org)"`
}

// routeToSpace shares a route with a space, unshares it, or moves it there.
func routeToSpace(verb, method, relation string, body func(guid string) any) func(context.Context, *core.Session,
	core.Words, *otherSpaceFlags) (core.Result, error) {
	return func(ctx context.Context, s *core.Session, w core.Words, f *otherSpaceFlags) (core.Result, error) {
		org, space, err := s.TargetSpace(ctx, f.Org, f.Space)
		if err != nil {
			return nil, err
		}
		s.Acting(verb+" org %s / space %s", f.Address(w["DOMAIN"]), org.Name, space.Name)
		route, _, err := f.Existing(ctx, s, w["DOMAIN"])
		if err != nil {
			return nil, err
		}
		path := "/v3/routes/" + route.GUID + "/relationships/" + relation
		if method == http.MethodDelete {
			path += "/" + space.GUID
		}
		return s.Change(ctx, method, path, body(space.GUID), "route", route.URL, "org", org.Name, "space", space.Name)
	}
}

func routeCommands() []*core.Command {
	const route, other = "DOMAIN [-n HOST] [--path PATH]", "DOMAIN [-n HOST] [--path PATH] [-s SPACE] [-o ORG]"
	toAll := func(guid string) any { return cfapi.RelateAll(guid) }
	return core.InGroup(core.GroupRoutes,
		core.Entry("route", route+" [--port PORT]", "Show a route and its destinations", core.NeedsSpace, showRoute,
			"apps.localhost -n blue").Alias("ro"),
		core.Entry("check-route", route+" [--port PORT]", "Show whether a route exists", core.NeedsSpace, checkRoute,
			"apps.localhost -n blue"),
		core.Entry("update-route", route+" [-o NAME=VALUE] [-r NAME]", "Change the options of a route", core.NeedsSpace,
			updateRoute, "apps.localhost -n blue -o loadbalancing=least-connection"),
		core.Entry("update-destination", "APP "+route+" [--app-protocol http1|http2]", "Change the protocol of a destination",
			core.NeedsSpace, updateDestination, "my-app apps.localhost -n blue --app-protocol http2"),
		core.Entry("delete-orphaned-routes", "[-f]", "Delete all routes that are not mapped to an app", core.NeedsSpace,
			deleteOrphanedRoutes, "-f").Slow(),
		core.Entry("share-route", other, "Share a route with another space", core.NeedsSpace,
			routeToSpace("Sharing route %s with", http.MethodPost, "shared_spaces", toAll), "apps.localhost -n blue -s other"),
		core.Entry("unshare-route", other, "Unshare a route from a space", core.NeedsSpace,
			routeToSpace("Unsharing route %s from", http.MethodDelete, "shared_spaces", func(string) any { return nil }),
			"apps.localhost -n blue -s other"),
		core.Entry("move-route", other, "Move a route to another space", core.NeedsSpace, routeToSpace("Moving route %s to",
			http.MethodPatch, "space", func(guid string) any { return cfapi.Relate(guid) }), "apps.localhost -n blue -s other"),
	)
}
