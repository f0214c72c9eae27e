package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// The sizes are those of Cloud Foundry's performance tests, of which each fills a foundation with what its list shows.
const (
	manyOrgs     = 500
	manySpaces   = 2000
	manyUsers    = 1000
	manyServices = 2000
	manyDomains  = 300
	manyGroups   = 500
)

// everyList are the lists of the API.
var everyList = []string{
	"/v3/apps?per_page=50", "/v3/processes?per_page=50", "/v3/routes?per_page=50", "/v3/domains?per_page=50",
	"/v3/organizations?per_page=50", "/v3/spaces?per_page=50", "/v3/roles?per_page=50", "/v3/users?per_page=50",
	"/v3/service_instances?per_page=50", "/v3/service_credential_bindings?per_page=50",
	"/v3/service_offerings?per_page=50", "/v3/service_plans?per_page=50", "/v3/service_brokers?per_page=50",
	"/v3/security_groups?per_page=50", "/v3/audit_events?per_page=50", "/v3/packages?per_page=50",
	"/v3/droplets?per_page=50", "/v3/builds?per_page=50", "/v3/deployments?per_page=50", "/v3/tasks?per_page=50",
	"/v3/buildpacks?per_page=50", "/v3/stacks?per_page=50", "/v3/isolation_segments?per_page=50",
	"/v3/organization_quotas?per_page=50", "/v3/space_quotas?per_page=50",
	"/v3/apps?per_page=50&include=space.organization", "/v3/routes?per_page=50&include=domain",
	"/v3/apps?per_page=50&order_by=-updated_at", "/v3/apps?per_page=50&label_selector=tier%3Dgold",
}

// fillAll creates what lists other than that of apps show.
func (p *Platform) fillAll(ctx context.Context, part int) error {
	for _, kind := range []struct {
		n    int
		path string
		body func(i int) map[string]any
	}{
		{manyOrgs, "/v3/organizations", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprintf("org-%05d", i)}
		}},
		{manySpaces, "/v3/spaces", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprintf("space-%05d", i), "relationships": relationship("organization", p.org)}
		}},
		{manyServices, "/v3/service_instances", func(i int) map[string]any {
			return map[string]any{"type": "user-provided", "name": fmt.Sprintf("service-%05d", i),
				"credentials": map[string]string{"number": fmt.Sprint(i)}, "relationships": relationship("space", p.space)}
		}},
		{manyDomains, "/v3/domains", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprintf("domain-%05d.example.org", i)}
		}},
		{manyGroups, "/v3/security_groups", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprintf("group-%05d", i)}
		}},
		{manyUsers, "/v3/users", func(i int) map[string]any { return map[string]any{"guid": fmt.Sprintf("user-%05d", i)} }},
		{manyUsers, "/v3/roles", func(i int) map[string]any {
			relationships := relationship("organization", p.org)
			relationships["user"] = relationship("user", fmt.Sprintf("user-%05d", i))["user"]
			return map[string]any{"type": "organization_user", "relationships": relationships}
		}},
	} {
		if err := p.createAll(ctx, kind.path, max(1, kind.n/part), kind.body); err != nil {
			return err
		}
	}
	return nil
}

// createAll posts n bodies, some at a time.
func (p *Platform) createAll(ctx context.Context, path string, n int, body func(i int) map[string]any) error {
	numbers := make(chan int, n)
	for i := range n {
		numbers <- i
	}
	close(numbers)
	errs := make(chan error, listsWorkers)
	var all sync.WaitGroup
	for range listsWorkers {
		all.Go(func() {
			for i := range numbers {
				if err := p.Do(ctx, http.MethodPost, path, body(i), nil); err != nil {
					errs <- fmt.Errorf("%s %d: %w", path, i, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// measureEveryList adds a figure for each list, as an administrator and as a developer of one space.
func (p *Platform) measureEveryList(ctx context.Context, r *Report, developer string, blocks int) error {
	for _, who := range []struct{ name, token string }{{"admin", p.token}, {"space developer", developer}} {
		questions := []*question{{name: "GET /healthz", request: get(p.API, "/healthz")}}
		for _, path := range everyList {
			questions = append(questions, &question{name: who.name + ", " + path, goal: Below(listsGoal),
				request: get(p.API, path, "Authorization: bearer "+who.token)})
		}
		if err := p.ask(ctx, questions, blocks); err != nil {
			return err
		}
		floor := questions[0]
		for _, q := range questions[1:] {
			r.Add(Figure{
				Name: q.name + ", p99", Value: millis(percentile(q.latencies, 0.99)), Unit: "ms", Goal: q.goal,
				Beside: &Beside{"p99 of /healthz", millis(percentile(floor.latencies, 0.99))},
				Detail: "p50 " + number(millis(percentile(q.latencies, 0.5))) + " ms",
			})
		}
	}
	return nil
}
