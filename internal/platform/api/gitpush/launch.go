package gitpush

import (
	"context"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
)

// undoTime is how long returning to the version before may take.
const undoTime = 20 * time.Second

// launch replaces the running version by a droplet and waits until it runs. Otherwise the version
// before keeps running.
func (p *push) launch(w *watch, droplet string) error {
	p.terminal.say("Starting %s...", p.name)
	v, err := rest.Update(p.Server, p.r, func(req *rest.Request) (*actions.Launch, error) {
		app, err := req.AppNamed(p.app.GUID, platform.Develop)
		if err != nil {
			return nil, err
		}
		return p.Platform.Launch(req.Tx, req.Caller.Actor(), app, droplet)
	})
	if err != nil {
		return err
	}
	deadline := p.Platform.Now().Add(actions.LaunchTime)
	err = w.until(p.r.Context(), func() (running bool, err error) {
		var instances []*platform.Instance
		err = p.Store.View(p.r.Context(), func(tx platform.Tx) (err error) {
			running, instances, err = p.Platform.Launched(tx, v)
			return err
		})
		for _, i := range instances {
			w.know(i.GUID)
		}
		if err == nil && !running && p.Platform.Now().After(deadline) {
			err = fault.New(fault.Unprocessable, "the app did not start within %v", actions.LaunchTime)
		}
		return running, err
	})
	if err == nil {
		return p.showAddresses()
	}
	if p.r.Context().Err() != nil {
		return err // the deployment continues after the restart of the server
	}
	if undo := p.undo(v); undo != nil {
		p.Log.WarnContext(p.r.Context(), "a failed git push could not be undone", "app", p.app.GUID, "error", undo)
	}
	return err
}

// undo returns to the version before, or stops an app that was stopped.
func (p *push) undo(v *actions.Launch) error {
	ctx, cancel := context.WithTimeout(p.r.Context(), undoTime)
	defer cancel()
	return p.Store.Update(ctx, func(tx platform.Tx) error {
		app, err := tx.Apps().Get(p.app.GUID)
		if err != nil {
			return err
		}
		return p.Platform.UndoLaunch(tx, rest.CallerOf(p.r).Actor(), app, v)
	})
}

// showAddresses shows where the app can be reached, at the address that the client uses.
func (p *push) showAddresses() error {
	base, err := url.Parse(rest.BaseURL(p.r))
	if err != nil {
		return err
	}
	return p.Store.View(p.r.Context(), func(tx platform.Tx) error {
		routes, _, err := tx.Routes().List(platform.Where("app_guid", p.app.GUID))
		if err != nil {
			return err
		}
		p.terminal.say("%s is running.", p.name)
		for _, route := range routes {
			domain, err := tx.Domains().Get(route.DomainGUID)
			if err != nil {
				return err
			}
			p.terminal.say("%s", address(base, route, domain))
		}
		return nil
	})
}

// address returns the URL of a route, with the scheme and port of the API.
func address(base *url.URL, route *platform.Route, domain *platform.Domain) string {
	text := platform.RouteURL(route, domain)
	if domain.Internal || route.Protocol == platform.ProtocolTCP || base.Port() == "" {
		if domain.Internal || route.Protocol == platform.ProtocolTCP {
			return text
		}
		return base.Scheme + "://" + text
	}
	host, below, nested := strings.Cut(text, "/")
	if nested {
		below = "/" + below
	}
	return base.Scheme + "://" + host + ":" + base.Port() + below
}
