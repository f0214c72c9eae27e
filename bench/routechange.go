package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// changePatience is how long a change of a route may take to have an effect.
const changePatience = 30 * time.Second

// measureRouteChanges maps and unmaps the route of an app, and measures the time
// from the API's response to the first correct response of the router.
func (p *Platform) measureRouteChanges(ctx context.Context, r *Report, app *App) error {
	changes := 200
	if r.Short {
		changes = 20
	}
	var routes struct{ Resources []struct{ GUID string } }
	if err := p.Do(ctx, http.MethodGet, "/v3/apps/"+app.GUID+"/routes", nil, &routes); err != nil {
		return err
	}
	if len(routes.Resources) != 1 {
		return fmt.Errorf("the app has %d routes", len(routes.Resources))
	}
	path := "/v3/routes/" + routes.Resources[0].GUID + "/destinations"
	var found struct{ Destinations []struct{ GUID string } }
	if err := p.Do(ctx, http.MethodGet, path, nil, &found); err != nil {
		return err
	}
	w, err := dial(ctx, p.API)
	if err != nil {
		return err
	}
	defer w.conn.Close()
	to := map[string]any{"destinations": []any{map[string]any{"app": map[string]string{"guid": app.GUID}}}}
	var took []time.Duration
	late := 0 // changes that the first request after the response did not see
	for range changes / 2 {
		for _, mapped := range []bool{false, true} {
			want := http.StatusNotFound
			if mapped {
				want = http.StatusOK
				err = p.Do(ctx, http.MethodPost, path, to, &found)
			} else {
				err = p.Do(ctx, http.MethodDelete, path+"/"+found.Destinations[0].GUID, nil, nil)
			}
			if err != nil {
				return err
			}
			began, tries := time.Now(), 0
			for status := 0; status != want; tries++ {
				if status, err = w.do(get(app.Host, "/")); err != nil {
					return err
				}
				if time.Since(began) > changePatience {
					return errors.New("a change of a route does not take effect")
				}
			}
			took = append(took, time.Since(began))
			if tries > 1 {
				late++
			}
		}
	}
	slices.Sort(took)
	for _, share := range []float64{0.5, 0.99} {
		f := Figure{Name: fmt.Sprintf("route change, p%.0f", 100*share), Value: millis(percentile(took, share)), Unit: "ms"}
		if share > 0.9 {
			f.Goal = Below(changeGoal)
		}
		r.Add(f)
	}
	r.Note("%d times a route was mapped or unmapped: from the API's answer to the first answer of the router that is "+
		"right. %d times the first request after the API's answer was not.", len(took), late)
	return nil
}
