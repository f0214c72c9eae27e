package routes

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

type destinationBody struct {
	GUID     string         `json:"guid"`
	App      destinationApp `json:"app"`
	Weight   *int           `json:"weight"`
	Port     int            `json:"port"`
	Protocol string         `json:"protocol"`
	Created  string         `json:"created_at"`
	Updated  string         `json:"updated_at"`
	Links    rest.Links     `json:"links,omitempty"`
}

type destinationApp struct {
	GUID    string             `json:"guid"`
	Process destinationProcess `json:"process"`
	// Sidecar exists only if one declares the port.
	Sidecar *destinationSidecar `json:"sidecar,omitempty"`
}

type destinationProcess struct {
	Type string `json:"type"`
}

// present presents a destination.
func (p destinationPresenter) present(d *platform.Destination) destinationBody {
	b := destinationBody{
		GUID: d.GUID, App: destinationApp{GUID: d.AppGUID, Process: destinationProcess{d.ProcessType}}, Port: d.Port,
		Protocol: d.Protocol,
		Created:  rest.Timestamp(d.Created), Updated: rest.Timestamp(d.Updated),
	}
	if d.Port == 0 {
		b.Port = platform.DefaultPort
		if port := p.images[d.AppGUID]; port != 0 {
			b.Port = port
		}
	} else if owner := platform.PortOwner(p.sidecars[d.AppGUID], d.ProcessType, d.Port); owner != nil {
		b.App.Sidecar = &destinationSidecar{owner.Name}
	}
	if d.Weight != 0 {
		b.Weight = &d.Weight
	}
	return b
}

type destinationsRequest struct {
	Destinations []destinationRequest `json:"destinations"`
}

type destinationRequest struct {
	App *rest.Loose[struct {
		GUID    string                           `json:"guid"`
		Process *rest.Strict[destinationProcess] `json:"process"`
		Sidecar *rest.Strict[destinationSidecar] `json:"sidecar"`
	}] `json:"app"`
	Port     *int    `json:"port"`
	Weight   *int    `json:"weight"`
	Protocol *string `json:"protocol"`
}

// destination validates an entry of a request and sets defaults.
func (b *destinationRequest) destination(i int) (*platform.Destination, error) {
	bad := func(problem string) error { return fault.Invalid(fmt.Sprintf("Destinations[%d]: %s", i, problem)) }
	if b.App == nil || b.App.Value.GUID == "" {
		return nil, bad("must have the structure \"destinations: [{\"app\": {\"guid\": \"app_guid\"}}]\"")
	}
	d := &platform.Destination{AppGUID: b.App.Value.GUID, ProcessType: platform.WebProcess}
	if process := b.App.Value.Process; process != nil {
		if process.Value.Type == "" {
			return nil, bad("process must have the structure {\"type\": \"process_type\"}")
		}
		d.ProcessType = process.Value.Type
	}
	if b.Port != nil {
		if *b.Port < 1024 || *b.Port > 65535 {
			return nil, bad("port must be an integer between 1024 and 65535")
		}
		d.Port = *b.Port
	}
	if b.Protocol != nil {
		switch *b.Protocol {
		case "http1", "http2", platform.ProtocolTCP:
			d.Protocol = *b.Protocol
		default:
			return nil, bad("protocol must be 'http1', 'http2' or 'tcp'")
		}
	}
	if b.Weight != nil {
		if *b.Weight < 1 || *b.Weight > 100 {
			return nil, bad("weight must be a positive integer between 1 and 100")
		}
		d.Weight = *b.Weight
	}
	return d, nil
}

// destinations validates a request.
func (b *destinationsRequest) destinations(replace bool) ([]*platform.Destination, error) {
	if b.Destinations == nil || !replace && len(b.Destinations) == 0 || len(b.Destinations) > 100 {
		return nil, fault.Invalid("Destinations must be an array containing between 1 and 100 destination objects.")
	}
	var out []*platform.Destination
	weighted, sum := 0, 0
	perApp := map[string]int{}
	for i := range b.Destinations {
		d, err := b.Destinations[i].destination(i)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o *platform.Destination) bool {
			return o.AppGUID == d.AppGUID && o.ProcessType == d.ProcessType &&
				cmp.Or(o.Port, platform.DefaultPort) == cmp.Or(d.Port, platform.DefaultPort)
		}) {
			return nil, fault.Invalid("Destinations cannot contain duplicates")
		}
		if d.Weight != 0 {
			weighted++
			sum += d.Weight
		}
		if perApp[d.AppGUID]++; perApp[d.AppGUID] > 10 {
			return nil, fault.Invalid("Destinations: at most 10 ports of one app can be mapped")
		}
		out = append(out, d)
	}
	switch {
	case weighted > 0 && !replace:
		return nil, fault.Invalid("Destinations weighted destinations can only be used when replacing all destinations")
	case weighted > 0 && weighted != len(out):
		return nil, fault.Invalid("Destinations cannot contain both weighted and unweighted destinations")
	case weighted > 0 && sum != 100:
		return nil, fault.Invalid("Destinations must have weights that add up to 100")
	}
	return out, nil
}

func (a *API) destinationsBody(req *rest.Request, route *platform.Route,
	only func(*platform.Destination) bool) (any, error) {
	all, _, err := req.Tx.Destinations().List(platform.Where("route_guid", route.GUID))
	if err != nil {
		return nil, err
	}
	shown, err := presenterOf(req.Tx, all)
	bodies := []destinationBody{}
	for _, d := range all {
		if only == nil || only(d) {
			bodies = append(bodies, shown.present(d))
		}
	}
	return map[string]any{"destinations": bodies, "links": rest.Links{
		"self":  req.Link("/routes/", rest.Escape(route.GUID), "/destinations"),
		"route": req.Link("/routes/", rest.Escape(route.GUID)),
	}}, err
}

func (a *API) listDestinations(w http.ResponseWriter, r *http.Request) error {
	if _, err := (listing.Params{Extra: []string{"app_guids"}, NoLabels: true}).Parse(r, rest.BaseURL(r)); err != nil {
		return err
	}
	q := r.URL.Query()
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		route, err := Routes.Find(req)
		if err != nil {
			return nil, err
		}
		return a.destinationsBody(req, route, func(d *platform.Destination) bool {
			return (!q.Has("guids") || slices.Contains(listing.SplitValues(q.Get("guids")), d.GUID)) &&
				(!q.Has("app_guids") || slices.Contains(listing.SplitValues(q.Get("app_guids")), d.AppGUID))
		})
	})
}

// setDestinations replaces the destinations of a route, or adds some.
func (a *API) setDestinations(replace bool) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := rest.Body[destinationsRequest](r)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(body.Destinations, func(d destinationRequest) bool {
			return d.App != nil &&
				d.App.Value.Sidecar != nil
		}) {
			if _, err := body.destinations(replace); err != nil {
				return err
			}
		}
		var warning string
		return a.Perform(rest.Warned(w, &warning), r, http.StatusOK, func(req *rest.Request) (any, error) {
			route, err := routeFor(req)
			if err != nil {
				return nil, err
			}
			known, err := a.withSidecarPorts(req, *body)
			if err != nil {
				return nil, err
			}
			wanted, err := known.destinations(replace)
			if err != nil {
				return nil, err
			}
			if err := a.checkDestinationApps(req, route, wanted); err != nil {
				return nil, err
			}
			if replace {
				err = a.Platform.ReplaceDestinations(req.Tx, req.Caller.Actor(), route, wanted)
			} else {
				err = a.Platform.AddDestinations(req.Tx, req.Caller.Actor(), route, wanted)
			}
			if err != nil {
				return nil, err
			}
			shown, err := presenterOf(req.Tx, wanted)
			if err != nil {
				return nil, err
			}
			warning = shown.portWarning(wanted)
			return a.destinationsBody(req, route, nil)
		})
	}
}

// checkDestinationApps returns an error if an app does not exist or is in another
// space. Ports that are the default are removed.
func (a *API) checkDestinationApps(req *rest.Request, route *platform.Route, wanted []*platform.Destination) error {
	for _, d := range wanted {
		app, err := rest.Find(req.Caller, req.Tx.Apps(), d.AppGUID, "App")
		if fault.Is(err, fault.NotFound) {
			return noSuchApp(d)
		}
		if err != nil {
			return err
		}
		if app.SpaceGUID != route.SpaceGUID && !slices.Contains(route.SharedSpaces, app.SpaceGUID) {
			return fault.Invalid("Routes destinations must be in either the route's space or the route's shared spaces")
		}
		if d.Port == platform.DefaultPort && app.Lifecycle.Type != platform.LifecycleDocker {
			d.Port = 0 // an image has its own default
		}
		if app.SpaceGUID == route.SpaceGUID {
			continue // whose routes the caller may change
		}
		if _, err := req.Caller.MayInSpace(req.Tx, app.SpaceGUID, platform.Operate); fault.Is(err, fault.Forbidden) {
			return fault.Invalid("App(s) with guid(s) \"" + d.AppGUID +
				"\" cannot be mapped. You don't have write permission for the space of the app.")
		} else if err != nil {
			return err
		}
	}
	return nil
}

var errNoDestination = errors.New("no such destination")

// destinationFor returns the destination of the path.
func (a *API) destinationFor(req *rest.Request) (*platform.Route, *platform.Destination, error) {
	route, err := routeFor(req)
	if err != nil {
		return nil, nil, err
	}
	d, err := req.Tx.Destinations().First(platform.Where("guid", web.Param(req.HTTP, "destination")).
		And(platform.In("route_guid", route.GUID)))
	if fault.Is(err, fault.NotFound) {
		err = errNoDestination
	}
	return route, d, err
}

func (a *API) updateDestination(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Protocol *string `json:"protocol"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		route, d, err := a.destinationFor(req)
		if errors.Is(err, errNoDestination) {
			return nil, fault.New(fault.NotFound, "Destination not found")
		}
		if err != nil {
			return nil, err
		}
		var protocol string
		if body.Protocol != nil {
			protocol = *body.Protocol
		} else if protocol, err = platform.DestinationProtocol(route, ""); err != nil {
			return nil, err
		}
		if err := a.Platform.UpdateDestination(req.Tx, route, d, protocol); err != nil {
			return nil, err
		}
		shown, err := presenterOf(req.Tx, []*platform.Destination{d})
		if err != nil {
			return nil, err
		}
		b := shown.present(d)
		b.Links = rest.Links{"destinations": req.Link("/routes/", rest.Escape(route.GUID), "/destinations"),
			"route": req.Link("/routes/", rest.Escape(route.GUID))}
		return b, nil
	})
}

func (a *API) removeDestination(w http.ResponseWriter, r *http.Request) error {
	return a.Perform(w, r, http.StatusNoContent, func(req *rest.Request) (any, error) {
		route, d, err := a.destinationFor(req)
		switch {
		case errors.Is(err, errNoDestination):
			return nil,
				fault.Invalid("Unable to unmap route from destination. Ensure the route has a destination with this guid.")
		case err != nil:
			return nil, err
		case d.Weight != 0:
			return nil, fault.Invalid("Weighted destinations cannot be deleted individually.")
		}
		return nil, a.Platform.RemoveDestination(req.Tx, req.Caller.Actor(), route, d)
	})
}
