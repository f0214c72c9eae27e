package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

var growthSection = Section{
	Name:  "growth",
	About: "how the time of what users wait for grows with the number of apps, each with a route",
	Run:   measureGrowth,
}

// growthGoal is the maximum exponent of the growth. From 10 to 10,000 apps the logarithm grows fourfold, as a power
// of the number of apps with the exponent 0.2 does.
const growthGoal = 0.2

// growthStep is something a user waits for. It is repeated and its median counts.
type growthStep struct {
	name    string
	repeat  int
	run     func(ctx context.Context, i int) (time.Duration, error)
	medians []float64 // one for each size
}

func measureGrowth(ctx context.Context, r *Report) (err error) {
	sizes := []int{10, 100, 1000, 10000}
	if r.Short {
		sizes = []int{10, 50, 250}
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	g := &growth{Platform: p, program: program}
	defer func() { err = errors.Join(err, p.Remove(ctx, g.app)) }()
	if err := g.setUp(ctx); err != nil {
		return err
	}
	steps := g.steps()
	if r.Short {
		for _, s := range steps {
			s.repeat = min(s.repeat, 3)
		}
	}
	have := 1 // the app of the set-up
	for _, n := range sizes {
		if err := g.fillTo(ctx, have, n); err != nil {
			return err
		}
		have = n
		for _, s := range steps {
			if err := s.measure(ctx); err != nil {
				return fmt.Errorf("%s with %d apps: %w", s.name, n, err)
			}
		}
	}
	for _, s := range steps {
		var at []string
		for i, n := range sizes {
			at = append(at, fmt.Sprintf("%s ms with %d", number(s.medians[i]), n))
		}
		r.Add(Figure{Name: s.name + ", exponent", Value: exponent(sizes, s.medians), Unit: "", Goal: Below(growthGoal),
			Detail: strings.Join(at, ", ")})
	}
	r.Note("medians, and the exponent of the power of the number of apps that fits them best: 0 is the same time with "+
		"any number of apps, 1 a time that doubles when the apps do. O(log n) is about %s over these sizes.",
		number(growthGoal))
	return nil
}

// growth is a server with one running app, and more and more that are stopped.
type growth struct {
	*Platform
	program string
	app     *App   // runs
	route   string // its route's guid
	user    string // who gets the messages
	sender  string // a token that may send them
	pushed  int
}

func (g *growth) setUp(ctx context.Context) error {
	bits, err := newUpload(g.program, "growth")
	if err != nil {
		return err
	}
	if g.app, err = g.Push(ctx, "growing", bits); err != nil {
		return err
	}
	if g.route, err = g.addRoute(ctx, g.app, "changing"); err != nil {
		return err
	}
	var users struct{ Resources []struct{ ID string } }
	err = g.Do(ctx, http.MethodGet, "/Users?filter="+url.QueryEscape(`userName eq "admin"`), nil, &users)
	if err == nil && len(users.Resources) != 1 {
		err = fmt.Errorf("%d users admin", len(users.Resources))
	}
	if err != nil {
		return err
	}
	g.user = users.Resources[0].ID
	m := &mailing{Server: g.Server}
	if err := m.register(ctx); err != nil {
		return err
	}
	g.sender = m.tokens[0]
	return nil
}

// fillTo creates apps until there are n, the one that runs among them.
func (g *growth) fillTo(ctx context.Context, have, n int) error {
	var all struct {
		Pagination struct {
			Total int `json:"total_results"`
		}
	}
	if err := g.Do(ctx, http.MethodGet, "/v3/apps?per_page=1", nil, &all); err != nil {
		return err
	}
	if all.Pagination.Total != have {
		return fmt.Errorf("%d apps; there should be %d", all.Pagination.Total, have)
	}
	return g.fill(ctx, have, n, "default-route: true")
}

func (g *growth) steps() []*growthStep {
	return []*growthStep{
		{name: "push", repeat: 5, run: g.push},
		{name: "start", repeat: 5, run: g.start},
		{name: "list of 10 apps", repeat: 50, run: g.get("/v3/apps?per_page=10&order_by=name")},
		{name: "app by name", repeat: 50, run: g.get("/v3/apps?names=growing&space_guids=" + g.space)},
		{name: "route change", repeat: 15, run: g.change},
		{name: "send", repeat: 50, run: g.send},
		{name: "log read", repeat: 50, run: g.get("/api/v1/read/" + g.app.GUID + "?envelope_types=LOG&limit=100")},
	}
}

func (s *growthStep) measure(ctx context.Context) error {
	var took []time.Duration
	for i := range s.repeat + 1 {
		d, err := s.run(ctx, i)
		if err != nil {
			return err
		}
		if i > 0 { // the first one is a warm-up
			took = append(took, d)
		}
	}
	slices.Sort(took)
	s.medians = append(s.medians, millis(percentile(took, 0.5)))
	return nil
}

// push pushes an app and deletes it; only the push is timed.
func (g *growth) push(ctx context.Context, _ int) (took time.Duration, err error) {
	g.pushed++
	bits, err := newUpload(g.program, fmt.Sprintf("growth %d", g.pushed))
	if err != nil {
		return 0, err
	}
	app, err := g.Push(ctx, fmt.Sprintf("pushed-%d", g.pushed), bits)
	if app != nil && app.GUID != "" {
		defer func() { err = errors.Join(err, g.remove(ctx, app.GUID)) }()
	}
	if err != nil {
		return 0, err
	}
	return app.Times.total, nil
}

// start restarts the app, and times it until the new instance runs.
func (g *growth) start(ctx context.Context, _ int) (time.Duration, error) {
	if err := g.Do(ctx, http.MethodPost, "/v3/apps/"+g.app.GUID+"/actions/stop", nil, nil); err != nil {
		return 0, err
	}
	if err := g.awaitNone(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := g.Do(ctx, http.MethodPost, "/v3/apps/"+g.app.GUID+"/actions/start", nil, nil); err != nil {
		return 0, err
	}
	if err := g.awaitRunning(ctx, g.app); err != nil {
		return 0, err
	}
	return time.Since(began), g.awaitAnswer(ctx, g.app, "")
}

func (g *growth) get(path string) func(context.Context, int) (time.Duration, error) {
	return func(ctx context.Context, _ int) (time.Duration, error) {
		began := time.Now()
		err := g.Do(ctx, http.MethodGet, path, nil, nil)
		return time.Since(began), err
	}
}

// change unmaps a route and maps it again; it times the second until the router uses it.
func (g *growth) change(ctx context.Context, _ int) (time.Duration, error) {
	path := "/v3/routes/" + g.route + "/destinations"
	var found struct{ Destinations []struct{ GUID string } }
	if err := g.Do(ctx, http.MethodGet, path, nil, &found); err != nil {
		return 0, err
	}
	if len(found.Destinations) != 1 {
		return 0, fmt.Errorf("%d destinations of the route", len(found.Destinations))
	}
	if err := g.Do(ctx, http.MethodDelete, path+"/"+found.Destinations[0].GUID, nil, nil); err != nil {
		return 0, err
	}
	to := map[string]any{"destinations": []any{map[string]any{"app": map[string]string{"guid": g.app.GUID}}}}
	began := time.Now()
	if err := g.Do(ctx, http.MethodPost, path, to, nil); err != nil {
		return 0, err
	}
	_, domain, _ := strings.Cut(g.app.Host, ".")
	err := g.awaitAnswer(ctx, &App{GUID: g.app.GUID, Host: "changing." + domain}, "")
	return time.Since(began), err
}

func (g *growth) send(ctx context.Context, i int) (time.Duration, error) {
	m := &mailing{Server: g.Server}
	began := time.Now()
	_, err := m.notify(ctx, http.MethodPost, "/users/"+g.user, g.sender,
		fmt.Sprintf(`{"kind_id":"news","subject":"Number %d","text":"News"}`, i))
	return time.Since(began), err
}

// exponent returns the slope of the straight line that fits the logarithms of the values best.
func exponent(sizes []int, values []float64) float64 {
	n := float64(len(sizes))
	var sx, sy, sxx, sxy float64
	for i, size := range sizes {
		x, y := math.Log(float64(size)), math.Log(values[i])
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
