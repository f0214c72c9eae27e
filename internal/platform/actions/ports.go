package actions

import (
	"fmt"
	"math/rand/v2"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// reservePort returns an error if a TCP route cannot have its port. A route without
// a port gets a random one. The transaction of two routes that race for a port
// runs again for one of them.
func (p *Platform) reservePort(tx platform.Tx, r *platform.Route, d *platform.Domain) error {
	if d.RouterGroup != p.TCP.GUID {
		return fault.New(fault.Unprocessable,
			"The router group of the domain '%s' does not exist on this server: TCP routes are disabled. An administrator can "+
				"enable them with --tcp-ports.", d.Name)
	}
	random := r.Port == 0 && r.Host == "" && r.Path == ""
	if random {
		port, err := p.randomPort(tx)
		if err != nil {
			return err
		}
		r.Port = port
	}
	if err := platform.CheckRoute(r, d); err != nil {
		return err
	}
	if !p.TCP.Ports.Contains(r.Port) {
		return unavailable(r.Port, "the ports of the router group "+p.TCP.Name+" are "+p.TCP.Ports.String())
	}
	taken, _, err := tx.Routes().List(platform.Where("port", r.Port))
	switch {
	case err != nil:
		return err
	case len(taken) > 0 && taken[0].DomainGUID == d.GUID:
		return fault.New(fault.Unprocessable, "%s", routeTaken(r, d))
	case len(taken) > 0:
		return unavailable(r.Port, "a route of another domain of its router group has it")
	}
	if !random && p.PortFree != nil {
		if err := p.PortFree(r.Port); err != nil {
			return fault.Wrap(err, fault.Unprocessable, "%s",
				portUnavailable(r.Port, "another program on the server's machine uses it"))
		}
	}
	return nil
}

// portUnavailable begins with Cloud Foundry's words.
func portUnavailable(port int, why string) string {
	return fmt.Sprintf("Port '%d' is not available. Try a different port or use a different domain. The reason: %s.", port,
		why)
}

func unavailable(port int, why string) error {
	return fault.New(fault.Unprocessable, "%s", portUnavailable(port, why))
}

// randomPort returns a random port that no route and no other program has.
func (p *Platform) randomPort(tx platform.Tx) (int, error) {
	routes, _, err := tx.Routes().
		List(platform.Query{Where: []platform.Cond{{Field: "port", Op: platform.OpGreater, Values: []any{0}}}})
	if err != nil {
		return 0, err
	}
	taken := map[int]bool{}
	for _, r := range routes {
		taken[r.Port] = true
	}
	n := p.TCP.Ports.Count()
	start := rand.IntN(n) //nolint:gosec // not a secret
	for i := range n {
		port := p.TCP.Ports.At((start + i) % n)
		if !taken[port] && (p.PortFree == nil || p.PortFree(port) == nil) {
			return port, nil
		}
	}
	return 0, fault.New(fault.Unprocessable,
		"There are no more ports available for router group: %s. Please contact your administrator for more information.",
		p.TCP.Name)
}

// ImagePorts returns the ports of routes without one, for those of the destinations' apps
// that are container images, by the guid of the app.
func ImagePorts(tx platform.Tx, destinations []*platform.Destination) (map[string]int, error) {
	var guids []string
	for _, d := range destinations {
		if d.Port == 0 {
			guids = append(guids, d.AppGUID)
		}
	}
	if len(guids) == 0 {
		return nil, nil
	}
	apps, _, err := tx.Apps().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids),
		platform.In("lifecycle_type", platform.LifecycleDocker)}})
	if err != nil {
		return nil, err
	}
	ports := map[string]int{}
	for _, app := range apps {
		d, err := tx.Droplets().Get(app.DropletGUID)
		if fault.Is(err, fault.NotFound) {
			continue // not staged yet
		}
		if err != nil {
			return nil, err
		}
		ports[app.GUID] = d.Container.Port()
	}
	return ports, nil
}
