package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

var rotationSection = Section{
	Name: "rotation",
	About: "new credentials of a database for apps that query it all the time, from the request to the end of the old " +
		"credentials",
	Run: measureRotation,
}

func measureRotation(ctx context.Context, r *Report) (err error) {
	count, rounds := 10, 3
	if r.Short {
		count, rounds = 3, 1
	}
	program := filepath.Join(r.Scratch, "database-app")
	if err := goBuild(ctx, filepath.Join(moduleDir(), "..", "samples"), "-s -w", program, "./database-app"); err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	bits, err := newUpload(program, "rotation")
	if err != nil {
		return err
	}
	var apps []*App
	defer func() { err = errors.Join(err, p.removeAll(ctx, apps)) }()
	for i := range count {
		app, err := p.Push(ctx, fmt.Sprintf("rotation-%d", i), bits)
		if app != nil {
			apps = append(apps, app)
		}
		if err != nil {
			return err
		}
	}
	instance, err := p.bindDatabase(ctx, apps)
	if err != nil {
		return err
	}
	load := p.query(ctx, apps)
	var times []time.Duration
	for range rounds {
		took, err := p.rotate(ctx, instance)
		if err != nil {
			load.stop()
			return err
		}
		times = append(times, took)
	}
	load.stop()
	median, worst := medianAndWorst(times)
	r.Add(Figure{Name: "failed queries", Value: float64(load.failed.Load()), Unit: "",
		Beside: &Beside{"queries", float64(load.asked.Load())}, Goal: Below(1)})
	r.Add(Figure{Name: fmt.Sprintf("all credentials of %d apps, until the old ones are revoked, median", count),
		Value: median, Unit: "ms", Detail: "worst " + number(worst) + " ms"})
	r.Add(Figure{Name: "for each app", Value: median / float64(count), Unit: "ms"})
	p.noteEngine(r)
	r.Note("%d rotations one after another of a PostgreSQL instance that %d apps are bound to, with a grace period of "+
		"0. Every app is asked for rows of its database all the time, one query after another; it is restarted with a "+
		"rolling deployment. %s", rounds, count, load.first())
	return nil
}

// bindDatabase creates a PostgreSQL service instance, binds the apps to it and restarts them.
func (p *Platform) bindDatabase(ctx context.Context, apps []*App) (string, error) {
	var plans, instances struct{ Resources []struct{ GUID string } }
	if err := p.Do(ctx, http.MethodGet, "/v3/service_plans?service_offering_names=postgres&names=large", nil,
		&plans); err != nil {
		return "", err
	}
	if len(plans.Resources) != 1 {
		return "", errors.New("the marketplace has no postgres: install PostgreSQL")
	}
	relations := relationship("space", p.space)
	relations["service_plan"] = relationship("x", plans.Resources[0].GUID)["x"]
	if err := p.job(ctx, http.MethodPost, "/v3/service_instances", map[string]any{"type": "managed", "name": "rotation",
		"relationships": relations}); err != nil {
		return "", err
	}
	if err := p.Do(ctx, http.MethodGet, "/v3/service_instances?names=rotation", nil, &instances); err != nil {
		return "", err
	}
	if len(instances.Resources) != 1 {
		return "", errors.New("the service instance was not created")
	}
	instance := instances.Resources[0].GUID
	for i, app := range apps {
		relations := relationship("app", app.GUID)
		relations["service_instance"] = relationship("x", instance)["x"]
		if err := p.job(ctx, http.MethodPost, "/v3/service_credential_bindings",
			map[string]any{"type": "app", "relationships": relations}); err != nil {
			return "", err
		}
		if err := p.Do(ctx, http.MethodPost, "/v3/apps/"+app.GUID+"/actions/restart", nil, nil); err != nil {
			return "", err
		}
		if err := p.awaitRunning(ctx, app); err != nil {
			return "", err
		}
		path := "/users"
		if i == 0 {
			path = "/migrate"
		}
		var refused error
		err := pollFor(ctx, 2*time.Minute, 10*pollEvery, "the database of the app", func() (bool, error) {
			refused = p.asks(ctx, app, path)
			return refused == nil, nil
		})
		if err != nil {
			return "", errors.Join(err, refused)
		}
	}
	return instance, nil
}

// job sends a request and waits for its job.
func (p *Platform) job(ctx context.Context, method, path string, body any) error {
	header, err := p.send(ctx, method, path, "application/json", body, nil)
	if err != nil {
		return err
	}
	return p.await(ctx, header)
}

// asks sends a request to an app, whose answer must be 200.
func (p *Platform) asks(ctx context.Context, app *App, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.API+path, nil)
	if err != nil {
		return err
	}
	req.Host = app.Host
	resp, err := setUp.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", app.Host+path, resp.StatusCode, body)
	}
	return err
}

// queries sends requests to apps until it is stopped.
type queries struct {
	asked, failed atomic.Int64
	failure       atomic.Pointer[error]
	stop          func()
}

// first describes the first failure.
func (q *queries) first() string {
	if err := q.failure.Load(); err != nil {
		return "The first failure: " + (*err).Error()
	}
	return ""
}

// query asks every app for rows of its database, one query after another.
func (p *Platform) query(ctx context.Context, apps []*App) *queries {
	q := &queries{}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, app := range apps {
		all.Go(func() {
			for ctx.Err() == nil {
				err := p.asks(ctx, app, "/users")
				if ctx.Err() != nil {
					return
				}
				q.asked.Add(1)
				if err != nil {
					q.failed.Add(1)
					q.failure.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	q.stop = func() { cancel(); all.Wait() }
	return q
}

// rotate rotates all credentials of a service instance, and returns how long it took until the
// old ones were revoked.
func (p *Platform) rotate(ctx context.Context, instance string) (time.Duration, error) {
	at := "/v3/ingot/service_instances/" + instance
	began := time.Now()
	if err := p.job(ctx, http.MethodPost, at+"/rotate", map[string]any{"grace_seconds": 0}); err != nil {
		return 0, err
	}
	err := pollFor(ctx, 5*time.Minute, 50*time.Millisecond, "the end of the old credentials", func() (bool, error) {
		var left struct {
			Pagination struct {
				Total int `json:"total_results"`
			}
		}
		err := p.Do(ctx, http.MethodGet, at+"/rotations?per_page=1&states=creating,applying,grace", nil, &left)
		return left.Pagination.Total == 0, err
	})
	return time.Since(began), err
}
