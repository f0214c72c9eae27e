package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/cli/client"
)

// existing finds the route that the flags name.
func (f routeFlags) existing(ctx context.Context, s *session, domain string) (*client.Route, client.Thing, error) {
	d, err := s.domain(ctx, domain)
	if err != nil {
		return nil, d, err
	}
	route, err := f.find(ctx, s, d.GUID)
	if err == nil && route == nil {
		err = &problem{What: fmt.Sprintf("Route %s not found.", f.address(domain)), Try: fmt.Sprintf("'%s routes' lists them", s.w.Program), cause: errNotFound}
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
	client.Route
	Options map[string]any `json:"options"`
}

func showRoute(ctx context.Context, s *session, w words, f *routeFlags) (result, error) {
	s.doing("Showing route %s", f.address(w["DOMAIN"]))
	found, domain, err := f.existing(ctx, s, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	var route optionedRoute
	if err := s.api.Get(ctx, "/v3/routes/"+found.GUID, nil, &route); err != nil {
		return nil, err
	}
	apps, err := client.List[client.App](ctx, s.api, "/v3/apps", s.in("per_page", "5000"))
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, a := range apps {
		names[a.GUID] = a.Name
	}
	rows := []destinationRow{}
	for _, d := range route.Destinations {
		rows = append(rows, destinationRow{cmp.Or(names[d.App.GUID], d.App.GUID), d.App.Process.Type, d.Port, d.Protocol})
	}
	var options []string
	for _, name := range sortedKeys(route.Options) {
		options = append(options, fmt.Sprintf("%s=%v", name, route.Options[name]))
	}
	port := ""
	if route.Port > 0 {
		port = strconv.Itoa(route.Port)
	}
	return &sheet{
		pairs: [][2]string{{"domain", domain.Name}, {"host", route.Host}, {"port", port}, {"path", route.Path}, {"protocol", route.Protocol}, {"options", strings.Join(options, ", ")}},
		more: &listing[destinationRow]{key: "destinations", rows: rows, heading: []string{"app", "process", "port", "app-protocol"}, cells: func(d destinationRow) []string {
			return []string{d.App, d.Process, strconv.Itoa(d.Port), d.Protocol}
		}},
		json: map[string]any{
			"guid": route.GUID, "url": route.URL, "domain": domain.Name, "host": route.Host, "port": route.Port, "path": route.Path, "protocol": route.Protocol,
			"options": route.Options, "destinations": rows,
		},
	}, nil
}

func checkRoute(ctx context.Context, s *session, w words, f *routeFlags) (result, error) {
	address := f.address(w["DOMAIN"])
	s.say("Checking for route...")
	domain, err := s.domain(ctx, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	if f.Host != "" {
		q.Set("host", f.Host)
	}
	if f.Path != "" {
		q.Set("path", f.path())
	}
	if f.Port > 0 {
		q.Set("port", strconv.Itoa(f.Port))
	}
	var match struct {
		Exists bool `json:"matching_route"`
	}
	if err := s.api.Get(ctx, "/v3/domains/"+domain.GUID+"/route_reservations", q, &match); err != nil {
		return nil, err
	}
	verb := map[bool]string{true: "does exist", false: "does not exist"}[match.Exists]
	return &jsonAs{&text{"", "Route '" + address + "' " + verb + "."}, map[string]any{"route": address, "exists": match.Exists}}, nil
}

type updateRouteFlags struct {
	routeFlags
	Options []string `short:"o" long:"option" value-name:"NAME=VALUE" description:"Set an option of the route, such as loadbalancing=least-connection"`
	Remove  []string `short:"r" long:"remove-option" value-name:"NAME" description:"Remove an option of the route"`
}

func updateRoute(ctx context.Context, s *session, w words, f *updateRouteFlags) (result, error) {
	options := map[string]any{}
	for _, o := range f.Options {
		name, value, ok := strings.Cut(o, "=")
		if !ok || name == "" {
			return nil, &usage{fmt.Sprintf("-o %s is not NAME=VALUE", o), "update-route"}
		}
		options[name] = value
	}
	for _, name := range f.Remove {
		options[name] = nil
	}
	if len(options) == 0 {
		return nil, &usage{"nothing to change: give -o or -r", "update-route"}
	}
	s.doing("Updating route %s", f.address(w["DOMAIN"]))
	route, _, err := f.existing(ctx, s, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, http.MethodPatch, "/v3/routes/"+route.GUID, map[string]any{"options": options}); err != nil {
		return nil, err
	}
	return s.done("route", route.URL, "options", options)
}

func deleteOrphanedRoutes(ctx context.Context, s *session, _ words, f *forceFlag) (result, error) {
	if !f.Force {
		if err := s.confirm(ctx, "Really delete all routes of the space that are not mapped to an app"); err != nil {
			return nil, err
		}
	}
	s.doing("Deleting routes that are not mapped")
	if err := s.api.Delete(ctx, "/v3/spaces/"+s.cfg.Space.GUID+"/routes?unmapped=true"); err != nil {
		return nil, err
	}
	return s.done("space", s.cfg.Space.Name)
}

type destinationFlags struct {
	routeFlags
	Protocol string `long:"app-protocol" value-name:"http1|http2" default:"http1" description:"Protocol the app speaks"`
}

func updateDestination(ctx context.Context, s *session, w words, f *destinationFlags) (result, error) {
	s.doing("Updating destination protocol of route %s to "+f.Protocol, f.address(w["DOMAIN"]))
	app, err := s.app(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	route, _, err := f.existing(ctx, s, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	changed := 0
	for _, d := range route.Destinations {
		if d.App.GUID != app.GUID {
			continue
		}
		if err := s.send(ctx, http.MethodPatch, "/v3/routes/"+route.GUID+"/destinations/"+d.GUID, map[string]string{"protocol": f.Protocol}); err != nil {
			return nil, err
		}
		changed++
	}
	if changed == 0 {
		return nil, &problem{What: fmt.Sprintf("Route %s is not mapped to app %s.", route.URL, app.Name), Try: fmt.Sprintf("'%s map-route %s %s'", s.w.Program, app.Name, w["DOMAIN"])}
	}
	return s.done("route", route.URL, "app", app.Name, "protocol", f.Protocol)
}

type otherSpaceFlags struct {
	routeFlags
	Space string `short:"s" value-name:"SPACE" description:"Space to share with or move to (default: the targeted space)"`
	Org   string `short:"o" value-name:"ORG" description:"Org of that space (default: the targeted org)"`
}

// routeToSpace shares a route with a space, unshares it, or moves it there.
func routeToSpace(verb, method, relation string, body func(guid string) any) func(context.Context, *session, words, *otherSpaceFlags) (result, error) {
	return func(ctx context.Context, s *session, w words, f *otherSpaceFlags) (result, error) {
		org, space, err := s.targetSpace(ctx, f.Org, f.Space)
		if err != nil {
			return nil, err
		}
		s.acting(verb+" org %s / space %s", f.address(w["DOMAIN"]), org.Name, space.Name)
		route, _, err := f.existing(ctx, s, w["DOMAIN"])
		if err != nil {
			return nil, err
		}
		path := "/v3/routes/" + route.GUID + "/relationships/" + relation
		if method == http.MethodDelete {
			path += "/" + space.GUID
		}
		if err := s.send(ctx, method, path, body(space.GUID)); err != nil {
			return nil, err
		}
		return s.done("route", route.URL, "org", org.Name, "space", space.Name)
	}
}

func routeCommands() []*command {
	const route, other = "DOMAIN [-n HOST] [--path PATH]", "DOMAIN [-n HOST] [--path PATH] [-s SPACE] [-o ORG]"
	toAll := func(guid string) any { return relateAll(guid) }
	return inGroup(groupRoutes,
		entry("route", route+" [--port PORT]", "Show a route and its destinations", aSpace, showRoute, "apps.localhost -n blue").alias("ro"),
		entry("check-route", route+" [--port PORT]", "Show whether a route exists", aSpace, checkRoute, "apps.localhost -n blue"),
		entry("update-route", route+" [-o NAME=VALUE] [-r NAME]", "Change the options of a route", aSpace, updateRoute, "apps.localhost -n blue -o loadbalancing=least-connection"),
		entry("update-destination", "APP "+route+" [--app-protocol http1|http2]", "Change the protocol of a destination", aSpace, updateDestination, "my-app apps.localhost -n blue --app-protocol http2"),
		entry("delete-orphaned-routes", "[-f]", "Delete all routes that are not mapped to an app", aSpace, deleteOrphanedRoutes, "-f").slow(),
		entry("share-route", other, "Share a route with another space", aSpace, routeToSpace("Sharing route %s with", http.MethodPost, "shared_spaces", toAll), "apps.localhost -n blue -s other"),
		entry("unshare-route", other, "Unshare a route from a space", aSpace, routeToSpace("Unsharing route %s from", http.MethodDelete, "shared_spaces", func(string) any { return nil }), "apps.localhost -n blue -s other"),
		entry("move-route", other, "Move a route to another space", aSpace, routeToSpace("Moving route %s to", http.MethodPatch, "space", func(guid string) any { return client.Relate(guid) }), "apps.localhost -n blue -s other"),
	)
}
