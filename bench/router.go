package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"
)

var routerSection = Section{
	Name: "router",
	About: "requests to an app through the router, compared with the app directly, a stock httputil.ReverseProxy, nginx " +
		"and haproxy",
	Run: measureRouter,
}

// The goals of the router.
const (
	stockGoal  = 1.5 // share of the stock proxy's rate
	proxyGoal  = 1   // share of the rate of nginx, and of haproxy
	routesGoal = 0.9 // share of the rate with few routes
	changeGoal = 100 // ms until a change of a route takes effect

	fewRoutes   = 10
	manyRoutes  = 100000
	routesTried = 1000 // how many of them get requests

	routeChanges = 20
)

func measureRouter(ctx context.Context, r *Report) (err error) {
	// Many short rounds rather than few long ones: on a busy machine each
	// contender needs a quiet moment.
	rounds, d, many := 6, 2*time.Second, manyRoutes
	if r.Short {
		rounds, d, many = 1, time.Second, manyRoutes/100
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	bits, err := newUpload(program, "router")
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	p.Memory = "512M" // each proxy keeps a thousand connections to it
	app, err := p.Push(ctx, "router", bits)
	defer func() { err = errors.Join(err, p.Remove(ctx, app)) }()
	if err != nil {
		return err
	}
	if err := p.measureRouteChanges(ctx, r, app); err != nil {
		return err
	}
	direct, err := p.address(ctx, app)
	if err != nil {
		return err
	}
	peers, err := r.startPeers(ctx, direct, app.Host)
	defer func() {
		for _, peer := range peers {
			err = errors.Join(err, peer.stop())
		}
	}()
	if err != nil {
		return err
	}
	all := append([]*peer{
		{name: "ingot", addr: p.API, pid: p.PID},
		{name: nameApp, addr: direct},
	}, peers...)
	for _, connections := range []int{64, 1000} {
		if err := compare(ctx, r, rounds, d, connections, app.Host, all); err != nil {
			return err
		}
	}
	p.noteEngine(r)
	r.Note("the best of %d rounds of %s each; the rounds of all take turns. All have the same %d processors, which the "+
		"app and the load generator share. nginx has a worker and haproxy a thread for each processor. Ours keeps a line "+
		"of every request in the app's log, nginx writes its access log to a file; the others write none.", rounds, d,
		runtime.NumCPU())
	if r.ProfileDir != "" {
		err := r.hotSpots(ctx, p.Server, "router", int(d.Seconds()), func() error {
			_, err := Load{Addr: p.API, Requests: [][]byte{get(app.Host, "/")}, Connections: 64, Duration: d}.Run(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return r.compareRoutes(ctx, rounds, d, bits, many)
}

// compare measures all peers and reports the first in comparison with the others.
func compare(ctx context.Context, r *Report, rounds int, d time.Duration, connections int, host string,
	all []*peer) error {
	var contenders []Contender
	for _, one := range all {
		load := Load{Addr: one.addr, Requests: [][]byte{get(host, "/")}, Connections: connections, Duration: d, PID: one.pid}
		contenders = append(contenders, func(ctx context.Context) (Result, error) {
			got, err := load.Run(ctx)
			if err != nil {
				err = fmt.Errorf("%s, %d connections: %w", one.name, connections, err)
			}
			return got, err
		})
	}
	best, err := bestOf(ctx, rounds, contenders...)
	if err != nil {
		return err
	}
	with := fmt.Sprintf(", %d connections", connections)
	ours := best[0]
	for i, one := range all[1:] {
		goal := Goal{}
		switch one.name {
		case nameStock:
			goal = ShareOf(stockGoal)
		case nameNginx, nameHAProxy:
			goal = ShareOf(proxyGoal)
		}
		r.Add(besides("router"+with, ours, one.name, best[i+1], goal))
	}
	p99 := func(i int) float64 { return millis(percentile(best[i].Latencies, 0.99)) }
	for i, one := range all[1:] {
		f := Figure{Name: "router, p99" + with, Value: p99(0), Unit: "ms", Beside: &Beside{one.name, p99(i + 1)}}
		if one.name != nameApp {
			f.Goal = Below(p99(i+1) * 1.0001)
		}
		r.Add(f)
	}
	for i, one := range all[1:] {
		r.Add(rateFigure(one.name+with, best[i+1], nil, Goal{}))
	}
	return nil
}

// compareRoutes compares a server with few routes with one with many.
func (r *Report) compareRoutes(ctx context.Context, rounds int, d time.Duration, bits *upload, many int) (err error) {
	few, err := r.serverWithRoutes(ctx, bits, fewRoutes)
	defer func() { err = errors.Join(err, few.stop(ctx)) }()
	if err != nil {
		return err
	}
	lots, err := r.serverWithRoutes(ctx, bits, many)
	defer func() { err = errors.Join(err, lots.stop(ctx)) }()
	if err != nil {
		return err
	}
	rounds, d = 3*rounds, d/2
	few.load.Duration, lots.load.Duration = d, d
	best, err := bestOf(ctx, rounds, few.load.Run, lots.load.Run)
	if err != nil {
		return err
	}
	r.Add(rateFigure(fmt.Sprintf("router with %d routes, 64 connections", many), best[1],
		&Beside{fmt.Sprintf("with %d routes", fewRoutes), best[0].PerSecond}, ShareOf(routesGoal)))
	r.Add(Figure{
		Name: fmt.Sprintf("router with %d routes, its processor time", many), Value: micros(best[1].Server),
		Unit:   "us a request",
		Beside: &Beside{fmt.Sprintf("with %d routes", fewRoutes), micros(best[0].Server)},
	})
	r.Note("%d of the routes are asked for in turn. The %d rounds of %s of both servers take turns.",
		min(many, routesTried), rounds, d)
	for i, s := range []*routedServer{few, lots} {
		appear, vanish, err := s.changes(ctx, routeChanges)
		if err != nil {
			return err
		}
		n := []int{fewRoutes, many}[i]
		for j, times := range [][]time.Duration{appear, vanish} {
			what := []string{"added", "removed"}[j]
			median, worst := medianAndWorst(times)
			r.Add(Figure{
				Name: fmt.Sprintf("a route %s among %d", what, n), Value: median, Unit: "ms", Goal: Below(changeGoal),
				Detail: fmt.Sprintf("median of %d, worst %s ms", routeChanges, number(worst)),
			})
		}
	}
	r.Note("a route is added or removed: from the answer of the API until the router does so.")
	return nil
}

// address returns the address of an app's first instance, without the router.
func (p *Platform) address(ctx context.Context, app *App) (string, error) {
	var stats struct {
		Resources []struct {
			Host  string
			Ports []struct{ External, Internal int } `json:"instance_ports"`
			IP    string                             `json:"instance_internal_ip"`
		}
	}
	if err := p.Do(ctx, http.MethodGet, "/v3/apps/"+app.GUID+"/processes/web/stats", nil, &stats); err != nil {
		return "", err
	}
	var tried []string
	for _, one := range stats.Resources {
		for _, port := range one.Ports {
			tried = append(tried, net.JoinHostPort(one.Host, strconv.Itoa(port.External)),
				net.JoinHostPort(one.IP, strconv.Itoa(port.Internal)))
		}
	}
	for _, addr := range slices.Compact(tried) {
		w, err := dial(ctx, addr)
		if err != nil {
			continue
		}
		status, err := w.do(get(app.Host, "/"))
		_ = w.conn.Close()
		if err == nil && status == http.StatusOK {
			return addr, nil
		}
	}
	return "", fmt.Errorf("the app does not answer at any of %v", tried)
}
