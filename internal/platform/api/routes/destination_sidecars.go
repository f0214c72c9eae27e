package routes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
)

// destinationSidecar is the sidecar whose port a destination has. Cloud Foundry does not have
// it.
type destinationSidecar struct {
	Name string `json:"name"`
}

// destinationPresenter has what is needed to present destinations.
type destinationPresenter struct {
	images   map[string]int                 // ports of apps that are container images
	sidecars map[string][]*platform.Sidecar // by app
}

func presenterOf(tx platform.Tx, destinations []*platform.Destination) (destinationPresenter, error) {
	p := destinationPresenter{sidecars: map[string][]*platform.Sidecar{}}
	var err error
	if p.images, err = actions.ImagePorts(tx, destinations); err != nil {
		return p, err
	}
	var guids []string
	for _, d := range destinations {
		if d.Port != 0 { // sidecars are not read for the others, which are nearly all
			guids = append(guids, d.AppGUID)
		}
	}
	if len(guids) == 0 {
		return p, nil
	}
	slices.Sort(guids)
	all, _, err := tx.Sidecars().
		List(platform.Query{Where: []platform.Cond{platform.InStrings("app_guid", slices.Compact(guids))}})
	for _, s := range all {
		p.sidecars[s.AppGUID] = append(p.sidecars[s.AppGUID], s)
	}
	return p, err
}

// withSidecarPorts returns the request with the ports of the sidecars that it names: the
// first that a sidecar declares, if the request has none.
func (a *API) withSidecarPorts(req *rest.Request, body destinationsRequest) (destinationsRequest, error) {
	body.Destinations = slices.Clone(body.Destinations)
	for i := range body.Destinations {
		b := &body.Destinations[i]
		if b.App == nil || b.App.Value.Sidecar == nil {
			continue
		}
		d := &platform.Destination{AppGUID: b.App.Value.GUID, ProcessType: platform.WebProcess}
		if b.App.Value.Process != nil {
			d.ProcessType = b.App.Value.Process.Value.Type
		}
		if _, err := rest.Find(req.Caller, req.Tx.Apps(), d.AppGUID, "App"); fault.Is(err, fault.NotFound) {
			return body, noSuchApp(d)
		} else if err != nil {
			return body, err
		}
		port, problem, err := sidecarPort(req.Tx, d, b.App.Value.Sidecar.Value.Name, b.Port)
		if err != nil {
			return body, err
		}
		if problem != "" {
			return body, fault.Invalid(fmt.Sprintf("Destinations[%d]: %s", i, problem))
		}
		b.Port = &port
	}
	return body, nil
}

func noSuchApp(d *platform.Destination) error {
	return fault.Invalid("App(s) with guid(s) \"" + d.AppGUID + "\" do not exist or you do not have access.")
}

// sidecarPort returns the port of a sidecar for a destination, or what is wrong.
func sidecarPort(tx platform.Tx, d *platform.Destination, name string, asked *int) (port int, problem string,
	err error) {
	all, _, err := tx.Sidecars().List(platform.Where("app_guid", d.AppGUID))
	if err != nil {
		return 0, "", err
	}
	all = slices.DeleteFunc(all, func(s *platform.Sidecar) bool { return !slices.Contains(s.ProcessTypes, d.ProcessType) })
	i := slices.IndexFunc(all, func(s *platform.Sidecar) bool { return s.Name == name })
	if i < 0 {
		problem := fmt.Sprintf("the process %s of the app has no sidecar %q", d.ProcessType, name)
		if declared := platform.DeclaredPorts(all, d.ProcessType); declared != "" {
			problem += "; " + declared
		}
		return 0, problem, nil
	}
	ports := all[i].Options.Ports
	switch {
	case len(ports) == 0:
		return 0, fmt.Sprintf("the sidecar %q declares no port: set `ports` of the sidecar (options.ports in the API)", name),
			nil
	case asked == nil:
		return ports[0], "", nil
	case !slices.Contains(ports, *asked):
		return 0, fmt.Sprintf("the sidecar %q does not declare port %d, but %s", name, *asked, joinPorts(ports)), nil
	}
	return *asked, "", nil
}

func joinPorts(ports []int) string {
	words := make([]string, 0, len(ports))
	for _, n := range ports {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ", ")
}

// portWarning returns a warning about destinations with a port that no sidecar declares,
// although sidecars of the process declare some.
func (p destinationPresenter) portWarning(wanted []*platform.Destination) string {
	for _, d := range wanted {
		declared := platform.DeclaredPorts(p.sidecars[d.AppGUID], d.ProcessType)
		if d.Port != 0 && declared != "" && platform.PortOwner(p.sidecars[d.AppGUID], d.ProcessType, d.Port) == nil {
			return fmt.Sprintf(
				"No sidecar of the process %s declares port %d, so that its main process has to listen there; %s.", d.ProcessType,
				d.Port, declared)
		}
	}
	return ""
}
