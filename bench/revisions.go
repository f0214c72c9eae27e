package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

var revisionsSection = Section{
	Name:  "revisions",
	About: "the restart of an app, with and without a new revision",
	Run:   measureRevisions,
}

// revisionGoal is how many milliseconds more a restart may take with a new revision.
const revisionGoal = 5

// measureRevisions restarts an app without instances, so that only the API works.
func measureRevisions(ctx context.Context, r *Report) (err error) {
	rounds := 200
	if r.Short {
		rounds = 20
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
	bits, err := newUpload(program, "revisions")
	if err != nil {
		return err
	}
	app, err := p.Push(ctx, "revisions", bits)
	if err != nil {
		return err
	}
	at := "/v3/apps/" + app.GUID
	if err := p.Do(ctx, http.MethodPost, at+"/processes/web/actions/scale", map[string]int{"instances": 0},
		nil); err != nil {
		return err
	}
	// The rounds alternate, so that both see the same machine.
	var with, without []time.Duration
	for i := range 2 * rounds {
		times := &without
		if i%2 == 0 {
			times = &with
			change := map[string]any{"var": map[string]string{"ROUND": fmt.Sprint(i), "SECRET": fmt.Sprintf("%01000d", i)}}
			if err := p.Do(ctx, http.MethodPatch, at+"/environment_variables", change, nil); err != nil {
				return err
			}
		}
		began := time.Now()
		if err := p.Do(ctx, http.MethodPost, at+"/actions/restart", nil, nil); err != nil {
			return err
		}
		*times = append(*times, time.Since(began))
	}
	var found struct {
		Pagination struct {
			Total int `json:"total_results"`
		}
	}
	if err := p.Do(ctx, http.MethodGet, at+"/revisions", nil, &found); err != nil {
		return err
	}
	if want := min(rounds+1, 100); found.Pagination.Total != want {
		return fmt.Errorf("the app has %d revisions, want %d", found.Pagination.Total, want)
	}
	plain, worst := medianAndWorst(without)
	r.Add(Figure{Name: "restart without a new revision, median", Value: plain, Unit: "ms", Detail: "worst " +
		number(worst) + " ms"})
	more, worst := medianAndWorst(with)
	r.Add(Figure{Name: "restart with a new revision, median", Value: more, Unit: "ms", Beside: &Beside{"without", plain},
		Detail: "worst " + number(worst) + " ms"})
	r.Add(Figure{Name: "cost of a revision", Value: max(0, more-plain), Unit: "ms", Beside: &Beside{"limit", revisionGoal},
		Goal: Below(revisionGoal)})
	r.Note("%d restarts each, one after another, of an app without instances. Before those with a new revision an "+
		"environment variable of 1,000 characters changes, which is not counted. From the 101st on, each also removes the "+
		"oldest.", rounds)
	return p.Remove(ctx, app)
}
