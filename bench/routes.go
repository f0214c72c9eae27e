package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/cf"
	"ingot/internal/db"
	"ingot/internal/db/platformdb"
)

// routesBatch is how many routes are stored in one transaction.
const routesBatch = 5000

// serverWithRoutes starts a server with an app that has so many routes, and
// returns what asks for them. What it has started has to be stopped in any case.
func (r *Report) serverWithRoutes(ctx context.Context, bits *upload, n int) (load Load, stop func() error, err error) {
	s, err := r.StartPlatform(ctx)
	if err != nil {
		return Load{}, func() error { return nil }, err
	}
	s.Memory = "512M"
	app, err := s.Push(ctx, "routes", bits)
	// s is another server after a restart; of none, nothing can be removed.
	stop = func() error {
		if s == nil {
			return nil
		}
		return errors.Join(s.Remove(ctx, app), s.Stop())
	}
	if err != nil {
		return Load{}, stop, err
	}
	route, err := s.addRoute(ctx, app)
	if err != nil {
		return Load{}, stop, err
	}
	dir := s.Dir
	if err := s.Stop(); err != nil {
		s = nil
		return Load{}, stop, err
	}
	began := time.Now()
	hosts, err := copyRoute(ctx, filepath.Join(dir, "ingot.db"), route, app, n)
	stored := time.Since(began)
	// Also after a failure: the app has to be removed.
	again, failed := r.startPlatformIn(context.WithoutCancel(ctx), dir)
	s = again
	if err := errors.Join(err, failed); err != nil {
		return Load{}, stop, err
	}
	started := time.Since(s.Launched)
	began = time.Now()
	load = Load{Addr: s.API, Connections: 64, PID: s.PID}
	if err := s.answerAll(ctx, hosts); err != nil {
		return Load{}, stop, err
	}
	r.Note("%d routes were stored beside the stopped server in %s s; it was ready %s s after it was started again; all of them were asked for once within %s s.",
		n, number(stored.Seconds()), number(started.Seconds()), number(time.Since(began).Seconds()))
	asked := min(n, routesTried)
	for i := range asked {
		load.Requests = append(load.Requests, get(hosts[i*n/asked], "/"))
	}
	return load, stop, nil
}

// addRoute gives an app another route through the API, and returns its guid.
func (p *Platform) addRoute(ctx context.Context, app *App) (string, error) {
	_, domain, _ := strings.Cut(app.Host, ".")
	var domains struct{ Resources []struct{ GUID string } }
	if err := p.Do(ctx, http.MethodGet, "/v3/domains?names="+domain, nil, &domains); err != nil {
		return "", err
	}
	if len(domains.Resources) != 1 {
		return "", fmt.Errorf("there are %d domains %s", len(domains.Resources), domain)
	}
	relationships := relationship("domain", domains.Resources[0].GUID)
	relationships["space"] = relationship("space", p.space)["space"]
	var route struct{ GUID string }
	if err := p.Do(ctx, http.MethodPost, "/v3/routes", map[string]any{"host": "route", "relationships": relationships}, &route); err != nil {
		return "", err
	}
	to := map[string]any{"destinations": []any{map[string]any{"app": map[string]string{"guid": app.GUID}}}}
	return route.GUID, p.Do(ctx, http.MethodPost, "/v3/routes/"+route.GUID+"/destinations", to, nil)
}

// copyRoute stores n copies of a route with its destinations, which differ from
// it in guid and host only, in the database of a server that does not run. It
// returns their hosts.
func copyRoute(ctx context.Context, file, guid string, app *App, n int) (hosts []string, err error) {
	d, err := db.Open(ctx, db.Options{URL: "sqlite:" + file})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	_, domain, _ := strings.Cut(app.Host, ".")
	store := platformdb.New(d)
	for len(hosts) < n {
		var batch []string
		err := store.Update(ctx, func(tx cf.Tx) error {
			batch = nil // it may run again
			route, err := tx.Routes().Get(guid)
			if err != nil {
				return err
			}
			destinations, _, err := tx.Destinations().List(cf.Where("route_guid", guid))
			if err != nil {
				return err
			}
			for i := len(hosts); i < min(n, len(hosts)+routesBatch); i++ {
				route.Resource, route.Host = cf.Resource{}, fmt.Sprintf("route-%06d", i)
				if err := tx.Routes().Insert(route); err != nil {
					return err
				}
				for _, one := range destinations {
					one.Resource, one.RouteGUID = cf.Resource{}, route.GUID
					if err := tx.Destinations().Insert(one); err != nil {
						return err
					}
				}
				batch = append(batch, route.Host+"."+domain)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, batch...)
	}
	return hosts, nil
}

// answerAll asks for every host once, after the first one answers: its instance
// has to be taken over by the server.
func (p *Platform) answerAll(ctx context.Context, hosts []string) error {
	if err := p.awaitAnswer(ctx, &App{Host: hosts[0]}, ""); err != nil {
		return err
	}
	all := Load{Addr: p.API, Connections: 64}
	for _, host := range hosts {
		all.Requests = append(all.Requests, get(host, "/"))
	}
	return all.Exactly(ctx)
}
