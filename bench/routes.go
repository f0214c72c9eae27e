package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
)

// routesBatch is the number of routes stored in one transaction.
const routesBatch = 5000

// manyRestartGoal is the maximum time until /readyz responds after a restart with many routes or apps, in milliseconds.
const manyRestartGoal = 1000

// routedServer is a server with an app that has many routes.
type routedServer struct {
	*Platform // nil if it is not running
	app       *App
	load      Load // requests to the routes
}

// stop deletes the app and stops the server.
func (s *routedServer) stop(ctx context.Context) error {
	if s.Platform == nil {
		return nil
	}
	return errors.Join(s.Remove(ctx, s.app), s.Stop())
}

// serverWithRoutes starts a server with an app that has n routes. The caller must
// stop it, also after an error.
func (r *Report) serverWithRoutes(ctx context.Context, bits *upload, n int) (s *routedServer, err error) {
	s = &routedServer{}
	if s.Platform, err = r.StartPlatform(ctx); err != nil {
		return s, err
	}
	s.Memory = "512M"
	if s.app, err = s.Push(ctx, "routes", bits); err != nil {
		return s, err
	}
	route, err := s.addRoute(ctx, s.app, "route")
	if err != nil {
		return s, err
	}
	dir := s.Dir
	err = s.Stop()
	s.Platform = nil
	if err != nil {
		return s, err
	}
	began := time.Now()
	hosts, err := copyRoute(ctx, filepath.Join(dir, "ingot.db"), route, s.app, n)
	stored := time.Since(began)
	// Start it also after a failure, because the app must be deleted.
	var failed error
	s.Platform, failed = r.startPlatformIn(context.WithoutCancel(ctx), dir)
	if err := errors.Join(err, failed); err != nil {
		return s, err
	}
	started := time.Since(s.Launched)
	r.Add(Figure{Name: fmt.Sprintf("restart with %d routes, /readyz", n), Value: millis(started), Unit: "ms",
		Goal: Below(manyRestartGoal)})
	began = time.Now()
	if err := s.answerAll(ctx, hosts); err != nil {
		return s, err
	}
	r.Note("%d routes were stored beside the stopped server in %s s; it was ready %s s after it was started again; all "+
		"of them were asked for once within %s s.",
		n, number(stored.Seconds()), number(started.Seconds()), number(time.Since(began).Seconds()))
	s.load = Load{Addr: s.API, Connections: 64, PID: s.PID}
	asked := min(n, routesTried)
	for i := range asked {
		s.load.Requests = append(s.load.Requests, get(hosts[i*n/asked], "/"))
	}
	return s, nil
}

// changes adds and removes routes, one after another, and returns how long after
// the API's response each took effect.
func (s *routedServer) changes(ctx context.Context, n int) (appear, vanish []time.Duration, err error) {
	w, err := dial(ctx, s.API)
	if err != nil {
		return nil, nil, err
	}
	defer w.conn.Close()
	_, domain, _ := strings.Cut(s.app.Host, ".")
	until := func(host string, want int) (time.Duration, error) {
		began := time.Now()
		err := poll(ctx, time.Millisecond, "the change of a route", func() (bool, error) {
			status, err := w.do(get(host, "/"))
			return status == want, err
		})
		return time.Since(began), err
	}
	for i := range n {
		name := fmt.Sprintf("change-%d", i)
		guid, err := s.addRoute(ctx, s.app, name)
		if err != nil {
			return nil, nil, err
		}
		d, err := until(name+"."+domain, http.StatusOK)
		if err != nil {
			return nil, nil, err
		}
		appear = append(appear, d)
		if err := s.Do(ctx, http.MethodDelete, "/v3/routes/"+guid, nil, nil); err != nil {
			return nil, nil, err
		}
		if d, err = until(name+"."+domain, http.StatusNotFound); err != nil {
			return nil, nil, err
		}
		vanish = append(vanish, d)
	}
	return appear, vanish, nil
}

// addRoute adds a route to an app through the API, and returns its guid.
func (p *Platform) addRoute(ctx context.Context, app *App, host string) (string, error) {
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
	if err := p.Do(ctx, http.MethodPost, "/v3/routes", map[string]any{"host": host, "relationships": relationships},
		&route); err != nil {
		return "", err
	}
	to := map[string]any{"destinations": []any{map[string]any{"app": map[string]string{"guid": app.GUID}}}}
	return route.GUID, p.Do(ctx, http.MethodPost, "/v3/routes/"+route.GUID+"/destinations", to, nil)
}

// copyRoute stores n copies of a route with its destinations, with other guids
// and hosts, in the database of a stopped server. It returns their hosts.
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
		err := store.Update(ctx, func(tx platform.Tx) error {
			batch = nil // the transaction may be retried
			route, err := tx.Routes().Get(guid)
			if err != nil {
				return err
			}
			destinations, _, err := tx.Destinations().List(platform.Where("route_guid", guid))
			if err != nil {
				return err
			}
			for i := len(hosts); i < min(n, len(hosts)+routesBatch); i++ {
				route.Resource, route.Host = platform.Resource{}, fmt.Sprintf("route-%06d", i)
				if err := tx.Routes().Insert(route); err != nil {
					return err
				}
				for _, one := range destinations {
					one.Resource, one.RouteGUID = platform.Resource{}, route.GUID
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

// answerAll sends a request to every host, after the first one responds: the
// restarted server must find the instance first.
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
