package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var consoleSection = Section{
	Name:  "console",
	About: "the web console: its first page with 1,000 apps, open log pages, and in a browser a busy live log and a crash",
	Run:   measureConsole,
}

const (
	consoleApps    = 1000
	homeGoal       = 50  // ms for the first page, p99
	firstViewGoal  = 100 // kB, compressed, with everything the first page loads
	logPages       = 200
	logPageGoal    = 1    // MB of server memory for each open log page
	logPageRate    = 5000 // lines a second in a tab
	heapGrowthGoal = 2    // JS heap at the end, as a multiple of that after 10 s
	framesGoal     = 1    // frames drawn in the worst second
	freezeGoal     = 0.5  // s between two frames, at most
	behindGoal     = 1    // s from a line to the screen, while there are always more
	crashGoal      = 1    // s from a crash to its reason on the screen
	streamsOfOne   = 20   // streams that a user may have open
	consoleDevPass = "password-of-a-developer"
	consolePath    = "/console"
)

func measureConsole(ctx context.Context, r *Report) (err error) {
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := measureHome(ctx, r, p); err != nil {
		return err
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	bits, err := newUpload(program, "console")
	if err != nil {
		return err
	}
	app, err := p.Push(ctx, "shop", bits)
	defer func() { err = errors.Join(err, p.removeAll(ctx, []*App{app})) }()
	if err != nil {
		return err
	}
	p.noteEngine(r)
	if err := measureLogPages(ctx, r, p, app); err != nil {
		return err
	}
	return measureTab(ctx, r, p, app)
}

// visitor is a user of the console without a browser.
type visitor struct {
	*http.Client
	base string
}

// visit logs a user in.
func (p *Platform) visit(ctx context.Context, user, password string) (*visitor, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	v := &visitor{&http.Client{Jar: jar, Transport: &http.Transport{MaxConnsPerHost: 2 * streamsOfOne}}, "http://" + p.API}
	page, _, err := v.get(ctx, consolePath, "")
	if err != nil {
		return nil, err
	}
	form := url.Values{"username": {user}, "password": {password}, "return_to": {page.Query().Get("return_to")}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.base+"/login.do", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := v.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK || res.Request.URL.Path != consolePath {
		return nil, fmt.Errorf("the login of %s ends at %s with %s", user, res.Request.URL, res.Status)
	}
	return v, nil
}

// get requests a page, and returns where it was found and its body as it was sent.
func (v *visitor) get(ctx context.Context, path, encoding string) (*url.URL, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+path, nil)
	if err != nil {
		return nil, nil, err
	}
	if encoding != "" {
		req.Header.Set("Accept-Encoding", encoding)
	}
	res, err := v.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("GET %s: %s", path, res.Status)
	}
	body, err := io.ReadAll(res.Body)
	return res.Request.URL, body, err
}

// stream opens a stream and reads it until it is closed.
func (v *visitor) stream(ctx context.Context, path string) (io.Closer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := v.Do(req) //nolint:bodyclose // the caller closes it
	if err != nil {
		return nil, err
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK ||
		!strings.HasPrefix(kind, "text/event-stream") {
		res.Body.Close()
		return nil, fmt.Errorf("GET %s: %s, %s", path, res.Status, kind)
	}
	go func() { _, _ = io.Copy(io.Discard, res.Body) }() // ends when it is closed
	return res.Body, nil
}

var assetLink = regexp.MustCompile(`(?:src|href)="(` + consolePath + `/assets/[^"]+)"`)

// measureHome measures the first page with many apps.
func measureHome(ctx context.Context, r *Report, p *Platform) error {
	rounds := 200
	if r.Short {
		rounds = 20
	}
	if err := p.fill(ctx, 0, consoleApps, "no-route: true"); err != nil {
		return err
	}
	v, err := p.visit(ctx, "admin", adminPassword)
	if err != nil {
		return err
	}
	_, page, err := v.get(ctx, consolePath, "")
	if err != nil {
		return err
	}
	if !strings.Contains(string(page), strconv.Itoa(consoleApps)+" apps") {
		return fmt.Errorf("the first page does not show %d apps", consoleApps)
	}
	seen := map[string]int{}
	for _, match := range assetLink.FindAllSubmatch(page, -1) {
		_, body, err := v.get(ctx, string(match[1]), "gzip")
		if err != nil {
			return err
		}
		seen[string(match[1])] = len(body)
	}
	var took []time.Duration
	sent := 0
	before := processorTime(p.PID)
	for range rounds {
		began := time.Now()
		_, body, err := v.get(ctx, consolePath, "gzip")
		if err != nil {
			return err
		}
		took = append(took, time.Since(began))
		sent = len(body)
	}
	cpu := processorTime(p.PID) - before
	slices.Sort(took)
	health := &question{request: get(p.API, "/healthz")}
	if err := p.ask(ctx, []*question{health}, 2); err != nil {
		return err
	}
	home := Figure{
		Name: "first page with 1,000 apps, p99", Value: millis(percentile(took, 0.99)), Unit: "ms", Goal: Below(homeGoal),
		Beside: &Beside{"GET /healthz, p99", millis(percentile(health.latencies, 0.99))},
		Detail: fmt.Sprintf("p50 %s ms; CPU: %s ms", number(millis(percentile(took, 0.5))),
			number(millis(cpu/time.Duration(rounds)))),
	}
	r.Add(home)
	total := sent
	var parts []string
	for path, n := range seen {
		total += n
		parts = append(parts, fmt.Sprintf("%s %s kB", path[strings.LastIndex(path, "/")+1:], number(float64(n)/1000)))
	}
	slices.Sort(parts)
	r.Add(Figure{
		Name: "first view, compressed", Value: float64(total) / 1000, Unit: "kB", Goal: Below(firstViewGoal),
		Detail: fmt.Sprintf("page %s kB, %s", number(float64(sent)/1000), strings.Join(parts, ", ")),
	})
	if home.judge() != resultFail && r.ProfileDir == "" {
		return nil
	}
	return r.hotSpots(ctx, p.Server, "console-home", 3, func() error {
		for began := time.Now(); time.Since(began) < 3*time.Second; {
			if _, _, err := v.get(ctx, consolePath, "gzip"); err != nil {
				return err
			}
		}
		return nil
	})
}

// measureLogPages opens many log pages at once, of as many users as that takes.
func measureLogPages(ctx context.Context, r *Report, p *Platform, app *App) error {
	pages := logPages
	if r.Short {
		pages = 2 * streamsOfOne
	}
	var ends []func()
	defer func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}()
	var users []*visitor
	for n := range pages / streamsOfOne {
		name := "developer-" + strconv.Itoa(n)
		if err := p.newDeveloper(ctx, name, consoleDevPass); err != nil {
			return err
		}
		v, err := p.visit(ctx, name, consoleDevPass)
		if err != nil {
			return err
		}
		ends = append(ends, v.CloseIdleConnections)
		if _, _, err := v.get(ctx, consolePath+"/apps/"+app.GUID+"/logs", "gzip"); err != nil {
			return err
		}
		users = append(users, v)
	}
	idle := 5 * time.Second
	before, err := p.settled(ctx, idle)
	if err != nil {
		return err
	}
	for _, v := range users {
		for range streamsOfOne {
			s, err := v.stream(ctx, consolePath+"/apps/"+app.GUID+"/logs/stream")
			if err != nil {
				return err
			}
			ends = append(ends, func() { _ = s.Close() }) // a stream that is not needed any more
		}
	}
	// Lines pass all of them, as a log that is worth watching has them.
	const rate, seconds = 100, 5
	if err := p.print(ctx, app, rate, rate*seconds); err != nil {
		return err
	}
	after, err := p.settled(ctx, seconds*time.Second+idle)
	if err != nil {
		return err
	}
	r.Add(Figure{
		Name: "memory of an open log page", Value: max(0, after.total-before.total) / float64(pages), Unit: "MB",
		Goal:   Below(logPageGoal),
		Detail: fmt.Sprintf("%d pages: from %s MB to %s MB", pages, number(before.total), number(after.total)),
	})
	return nil
}

// settled returns the resident memory of the server after a while.
func (p *Platform) settled(ctx context.Context, after time.Duration) (memory, error) {
	if err := pause(ctx, after); err != nil {
		return memory{}, err
	}
	return residentMemory(p.PID)
}
