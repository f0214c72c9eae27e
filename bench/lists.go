package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

var listsSection = Section{
	Name: "lists",
	About: "GET /v3/apps?per_page=50 with 10,000 apps, one request after another over a persistent connection; then " +
		"every list of the API at the sizes of Cloud Foundry's performance tests",
	Run: measureLists,
}

// listsGoal is the maximum 99th percentile of the response time, in milliseconds.
const listsGoal = 4

const (
	listsApps    = 10000
	appsPerPage  = 50
	listsWorkers = 4
	// listsBlock is the number of requests of a kind before the next kind.
	listsBlock = 50
)

// question is a request that is repeated.
type question struct {
	name    string
	request []byte
	goal    Goal
	// The measured latencies, and the processor time of the server for all of
	// them.
	latencies []time.Duration
	server    time.Duration
}

func measureLists(ctx context.Context, r *Report) (err error) {
	apps, blocks := listsApps, 10
	if r.Short {
		apps, blocks = listsApps/10, 2
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	began := time.Now()
	if err := p.fill(ctx, 0, apps, "default-route: true"); err != nil {
		return err
	}
	took := time.Since(began)
	developer, err := p.developer(ctx)
	if err != nil {
		return err
	}
	ask := func(path, token string) []byte { return get(p.API, path, "Authorization: bearer "+token) }
	health := &question{name: "GET /healthz", request: get(p.API, "/healthz")}
	admin := &question{name: "admin", request: ask("/v3/apps?per_page=50", p.token), goal: Below(listsGoal)}
	questions := []*question{
		health, admin,
		{name: "space developer", request: ask("/v3/apps?per_page=50", developer), goal: Below(listsGoal)},
		{name: "admin, last page", request: ask(fmt.Sprintf("/v3/apps?per_page=50&page=%d", apps/appsPerPage), p.token)},
		{name: "admin, by name", request: ask("/v3/apps?per_page=50&order_by=name", p.token)},
	}
	if err := p.ask(ctx, questions, blocks); err != nil {
		return err
	}
	slowest := listFigures(r, questions)
	r.Note("%d requests of each kind, %d of one before those of the next, and those of /healthz among them: what that "+
		"takes is the machine, not the list. CPU is the server's for a request.", blocks*listsBlock, listsBlock)
	// What belongs to lists of other things comes after: the figures above are those of apps alone, as before.
	if err := p.fillAll(ctx, listsApps/apps); err != nil {
		return err
	}
	if err := p.measureEveryList(ctx, r, developer, max(1, blocks/5)); err != nil {
		return err
	}
	r.Note("then all lists, with %d organizations, %d spaces, %d service instances, %d domains, %d security groups and "+
		"%d users with roles more.", manyOrgs*apps/listsApps, manySpaces*apps/listsApps, manyServices*apps/listsApps,
		manyDomains*apps/listsApps, manyGroups*apps/listsApps, manyUsers*apps/listsApps)
	r.Note("%d apps were made through the API (apply_manifest, %d connections) in %s s; the space developer sees all of "+
		"them through his role.", apps, listsWorkers, number(took.Seconds()))
	if slowest == nil {
		if r.ProfileDir == "" {
			return nil
		}
		slowest = admin
	}
	r.Note("profiled: %s", slowest.name)
	return r.hotSpots(ctx, p.Server, "lists", 3, func() error {
		for began := time.Now(); time.Since(began) < 3*time.Second; {
			if err := p.ask(ctx, []*question{{request: slowest.request}}, 1); err != nil {
				return err
			}
		}
		return nil
	})
}

// listFigures adds the figures, and returns the question that missed its goal by
// most, or nil.
func listFigures(r *Report, questions []*question) (slowest *question) {
	var most float64
	floor := questions[0]
	beside := func(percent float64) *Beside {
		return &Beside{floor.name + fmt.Sprintf(", p%.0f", 100*percent), millis(percentile(floor.latencies, percent))}
	}
	for _, q := range questions[1:] {
		mean := q.server / time.Duration(len(q.latencies))
		p99 := Figure{
			Name: q.name + ", p99", Value: millis(percentile(q.latencies, 0.99)), Unit: "ms", Beside: beside(0.99), Goal: q.goal,
			Detail: fmt.Sprintf("worst %s ms; CPU: %s ms", number(millis(percentile(q.latencies, 1))), number(millis(mean))),
		}
		r.Add(Figure{Name: q.name + ", p50", Value: millis(percentile(q.latencies, 0.5)), Unit: "ms", Beside: beside(0.5)})
		r.Add(p99)
		if p99.judge() == resultFail && p99.Value > most {
			slowest, most = q, p99.Value
		}
	}
	return slowest
}

// ask sends the requests in turn and sorts their latencies.
func (p *Platform) ask(ctx context.Context, questions []*question, blocks int) error {
	w, err := dial(ctx, p.API)
	if err != nil {
		return err
	}
	defer w.conn.Close()
	for range blocks {
		for _, q := range questions {
			before := processorTime(p.PID)
			for range listsBlock {
				began := time.Now()
				status, err := w.do(q.request)
				q.latencies = append(q.latencies, time.Since(began))
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("answer %d to %q", status, firstLine(q.request))
				}
				if err := errors.Join(err, ctx.Err()); err != nil {
					return err
				}
			}
			q.server += processorTime(p.PID) - before
		}
	}
	for _, q := range questions {
		slices.Sort(q.latencies)
	}
	return nil
}

// fill creates apps until there are so many, beginning with the number after the given one, and checks that a list
// shows them. The key is another line of each app's manifest.
func (p *Platform) fill(ctx context.Context, from, apps int, key string) error {
	const most = 50 // apps per manifest
	numbers := make(chan int, (apps-from)/most+1)
	for i := from; i < apps; i += most {
		numbers <- i
	}
	close(numbers)
	errs := make([]error, listsWorkers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for n := range numbers {
				var yaml strings.Builder
				yaml.WriteString("applications:\n")
				for k := n; k < min(n+most, apps); k++ {
					fmt.Fprintf(&yaml, "- name: app-%05d\n  memory: 64M\n  %s\n  env: {NUMBER: '%d'}\n", k, key, k)
				}
				if errs[i] = p.applyManifest(ctx, yaml.String()); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var page struct {
		Pagination struct {
			Total int `json:"total_results"`
		}
		Resources []struct{ GUID string }
	}
	if err := p.Do(ctx, http.MethodGet, fmt.Sprintf("/v3/apps?per_page=%d", appsPerPage), nil, &page); err != nil {
		return err
	}
	if page.Pagination.Total != apps || len(page.Resources) != min(apps, appsPerPage) {
		return fmt.Errorf("a page of %d of %d apps; there should be %d of %d", len(page.Resources), page.Pagination.Total,
			min(apps, appsPerPage), apps)
	}
	return nil
}

// developer creates a user with access to the space, and returns a token.
func (p *Platform) developer(ctx context.Context) (string, error) {
	const name, password = "bench-developer", "password-of-the-developer"
	if err := p.newDeveloper(ctx, name, password); err != nil {
		return "", err
	}
	return p.login(ctx, name, password)
}

// newDeveloper creates a user with access to the space.
func (p *Platform) newDeveloper(ctx context.Context, name, password string) error {
	err := p.Do(ctx, http.MethodPost, "/Users", map[string]any{
		"userName": name, "password": password, "emails": []map[string]any{{"value": name + "@example.org", "primary": true}},
	}, nil)
	if err != nil {
		return err
	}
	for _, role := range []struct{ kind, place, guid string }{{"organization_user", "organization", p.org},
		{"space_developer", "space", p.space}} {
		relationships := relationship(role.place, role.guid)
		relationships["user"] = map[string]any{"data": map[string]string{"username": name, "origin": "uaa"}}
		if err := p.Do(ctx, http.MethodPost, "/v3/roles", map[string]any{"type": role.kind, "relationships": relationships},
			nil); err != nil {
			return err
		}
	}
	return nil
}
