package apps

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

// appRow is a row of the command apps.
type appRow struct {
	Name      string         `json:"name"`
	GUID      string         `json:"guid"`
	State     string         `json:"requested_state"`
	Processes []processCount `json:"processes"`
	Routes    []string       `json:"routes"`
	URLs      []string       `json:"urls"`
}

type processCount struct {
	Type      string `json:"type"`
	Running   int    `json:"running"`
	Instances int    `json:"instances"`
}

// text returns the process with how many of its instances run.
func (c processCount) text() string { return fmt.Sprintf("%s:%d/%d", c.Type, c.Running, c.Instances) }

func listApps(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Getting apps")
	apps, err := client.List[cfapi.App](ctx, s.API, "/v3/apps", s.InSpace("order_by", "name", "per_page", "5000"))
	if err != nil {
		return nil, err
	}
	list := &core.Listing[appRow]{
		Key: "apps", Heading: []string{"name", "requested state", "processes", "routes"},
		Paint: []core.Paint{core.Bold, core.State},
		Cells: func(a appRow) []string {
			var processes []string
			for _, c := range a.Processes {
				processes = append(processes, c.text())
			}
			return []string{a.Name, a.State, strings.Join(processes, ", "), strings.Join(a.URLs, ", ")}
		},
	}
	if len(apps) == 0 {
		return list, nil
	}
	routes, err := client.List[cfapi.Route](ctx, s.API, "/v3/routes", s.InSpace("per_page", "5000"))
	if err != nil {
		return nil, err
	}
	counts, err := counts(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, a := range apps {
		row := appRow{a.Name, a.GUID, strings.ToLower(a.State), counts[a.GUID], []string{}, []string{}}
		for _, r := range routes {
			if slices.ContainsFunc(r.Destinations, func(d cfapi.Destination) bool { return d.App.GUID == a.GUID }) {
				row.Routes, row.URLs = append(row.Routes, r.URL), append(row.URLs, s.Address(r))
			}
		}
		list.Rows = append(list.Rows, row)
	}
	return list, nil
}

// counts returns the processes of every app in the space. Older platforms omit
// the instances from the list; the stats of each process are requested then.
func counts(ctx context.Context, s *core.Session) (map[string][]processCount, error) {
	q := s.InSpace("per_page", "5000")
	embedded := true
	q.Set("embed", "process_instances")
	processes, err := client.List[cfapi.Process](ctx, s.API, "/v3/processes", q)
	if status := client.Status(err); status == 400 || status == 422 {
		q.Del("embed")
		embedded = false
		processes, err = client.List[cfapi.Process](ctx, s.API, "/v3/processes", q)
	}
	if err != nil {
		return nil, err
	}
	counts := map[string][]processCount{}
	for _, pr := range processes {
		count := processCount{Type: pr.Type, Instances: pr.Instances}
		if embedded {
			for _, i := range pr.Embedded {
				if i.State == "RUNNING" {
					count.Running++
				}
			}
		} else if stats, err := InstanceStats(ctx, s, pr.GUID); err == nil {
			count.Running = running(stats)
		}
		app := pr.Relationships.App.GUID()
		counts[app] = append(counts[app], count)
	}
	for _, c := range counts {
		sortProcesses(c, func(p processCount) string { return p.Type })
	}
	return counts, nil
}

// sortProcesses moves the web process to the front.
func sortProcesses[T any](all []T, kind func(T) string) {
	slices.SortStableFunc(all, func(a, b T) int {
		x, y := kind(a), kind(b)
		switch {
		case x == y:
			return 0
		case x == "web":
			return -1
		case y == "web":
			return 1
		}
		return strings.Compare(x, y)
	})
}

func running(stats []cfapi.Stat) int {
	n := 0
	for _, st := range stats {
		if st.State == "RUNNING" {
			n++
		}
	}
	return n
}

// InstanceStats returns the state and usage of the instances of a process.
func InstanceStats(ctx context.Context, s *core.Session, process string) ([]cfapi.Stat, error) {
	return client.List[cfapi.Stat](ctx, s.API, "/v3/processes/"+process+"/stats", nil)
}

func appsCommands() []*core.Command {
	return core.InGroup(core.GroupInspect,
		core.Entry("apps", "", "List the apps in the target space", core.NeedsSpace, listApps, "", "--json").Alias("a"),
	)
}
