package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/term"
)

// marshal returns indented JSON without HTML escapes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

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

type appList struct {
	Apps []appRow `json:"apps"`
}

func (l *appList) show(p *term.Printer) {
	if len(l.Apps) == 0 {
		p.Println("No apps found.")
		return
	}
	t := term.Table{Heading: []string{"name", "requested state", "processes", "routes"}}
	for _, a := range l.Apps {
		var processes []string
		for _, c := range a.Processes {
			processes = append(processes, fmt.Sprintf("%s:%d/%d", c.Type, c.Running, c.Instances))
		}
		t.Rows = append(t.Rows, []term.Cell{
			{Text: a.Name, Paint: p.Bold}, {Text: a.State, Paint: p.State},
			{Text: strings.Join(processes, ", ")}, {Text: strings.Join(a.URLs, ", ")},
		})
	}
	p.Println("")
	p.Table(t)
}

type appsCommand struct{}

func (c *appsCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Getting apps")
	apps, err := client.List[client.App](ctx, s.api, "/v3/apps", s.in("order_by", "name", "per_page", "5000"))
	if err != nil {
		return nil, err
	}
	list := &appList{Apps: []appRow{}}
	if len(apps) == 0 {
		return list, nil
	}
	routes, err := client.List[client.Route](ctx, s.api, "/v3/routes", s.in("per_page", "5000"))
	if err != nil {
		return nil, err
	}
	counts, err := s.counts(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range apps {
		row := appRow{a.Name, a.GUID, strings.ToLower(a.State), counts[a.GUID], []string{}, []string{}}
		for _, r := range routes {
			if slices.ContainsFunc(r.Destinations, func(d client.Destination) bool { return d.App.GUID == a.GUID }) {
				row.Routes, row.URLs = append(row.Routes, r.URL), append(row.URLs, s.address(r))
			}
		}
		list.Apps = append(list.Apps, row)
	}
	return list, nil
}

// counts returns the processes of every app in the space. Older platforms omit
// the instances from the list; the stats of each process are requested then.
func (s *session) counts(ctx context.Context) (map[string][]processCount, error) {
	q := s.in("per_page", "5000")
	embedded := true
	q.Set("embed", "process_instances")
	processes, err := client.List[client.Process](ctx, s.api, "/v3/processes", q)
	if status := client.Status(err); status == 400 || status == 422 {
		q.Del("embed")
		embedded = false
		processes, err = client.List[client.Process](ctx, s.api, "/v3/processes", q)
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
		} else if stats, err := s.stats(ctx, pr.GUID); err == nil {
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

func running(stats []client.Stat) int {
	n := 0
	for _, st := range stats {
		if st.State == "RUNNING" {
			n++
		}
	}
	return n
}

func (s *session) stats(ctx context.Context, process string) ([]client.Stat, error) {
	return client.List[client.Stat](ctx, s.api, "/v3/processes/"+process+"/stats", nil)
}

type createAppCommand struct {
	Type string `long:"app-type" choice:"buildpack" choice:"docker" description:"App type" default:"buildpack"` //nolint:staticcheck // go-flags wants one tag a choice
	Args struct {
		App string `positional-arg-name:"APP" required:"yes"`
	} `positional-args:"yes"`
}

func (c *createAppCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Creating app %s", c.Args.App)
	body := map[string]any{"name": c.Args.App, "relationships": map[string]any{"space": client.Relate(s.cfg.Space.GUID)}}
	if c.Type == "docker" {
		body["lifecycle"] = map[string]any{"type": "docker", "data": map[string]any{}}
	}
	var app client.App
	_, err := s.api.Post(ctx, "/v3/apps", body, &app)
	if client.Says(err, "already exists") {
		s.say("App %s already exists.", c.Args.App)
		s.ok()
		return &made{"app", c.Args.App, "", true}, nil
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	return &made{"app", app.Name, app.GUID, false}, nil
}

type renameCommand struct {
	Args struct {
		App  string `positional-arg-name:"APP" required:"yes"`
		Name string `positional-arg-name:"NEW_NAME" required:"yes"`
	} `positional-args:"yes"`
}

func (c *renameCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Renaming app %s to %s", c.Args.App, c.Args.Name)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if _, err := s.api.Patch(ctx, "/v3/apps/"+app.GUID, map[string]any{"name": c.Args.Name}, nil); err != nil {
		return nil, err
	}
	s.ok()
	return &made{"app", c.Args.Name, app.GUID, true}, nil
}

type deleteCommand struct {
	Force  bool `short:"f" description:"Do not ask for confirmation"`
	Routes bool `short:"r" description:"Also delete the app's routes"`
	Args   struct {
		App string `positional-arg-name:"APP" required:"yes"`
	} `positional-args:"yes"`
}

// removed is the result of a deletion.
type removed struct {
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Gone   bool     `json:"deleted"`
	Routes []string `json:"routes,omitempty"`
}

func (r *removed) show(*term.Printer) {}

func (c *deleteCommand) run(ctx context.Context, s *session) (result, error) {
	if !c.Force {
		if err := s.confirm(ctx, fmt.Sprintf("Really delete the app %s", c.Args.App)); err != nil {
			return nil, err
		}
	}
	s.doing("Deleting app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if isNotFound(err) {
		s.say("App %s does not exist.", c.Args.App)
		s.ok()
		return &removed{Kind: "app", Name: c.Args.App}, nil
	}
	if err != nil {
		return nil, err
	}
	var routes []client.Route
	if c.Routes {
		if routes, err = client.List[client.Route](ctx, s.api, "/v3/apps/"+app.GUID+"/routes", url.Values{}); err != nil {
			return nil, err
		}
		for _, r := range routes {
			if slices.ContainsFunc(r.Destinations, func(d client.Destination) bool { return d.App.GUID != app.GUID }) {
				return nil, &problem{
					What: "Nothing was deleted.", Why: "the route " + r.URL + " is also mapped to another app",
					Try: fmt.Sprintf("'%s delete %s -f' without -r, or unmap the route first", s.w.Program, c.Args.App),
				}
			}
		}
	}
	if err := s.api.Delete(ctx, "/v3/apps/"+app.GUID); err != nil {
		return nil, err
	}
	out := &removed{Kind: "app", Name: app.Name, Gone: true}
	for _, r := range routes {
		if err := s.api.Delete(ctx, "/v3/routes/"+r.GUID); err != nil && client.Status(err) != 404 {
			return nil, err
		}
		out.Routes = append(out.Routes, r.URL)
	}
	s.ok()
	return out, nil
}
