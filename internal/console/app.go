package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/crashlines"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

type appData struct {
	App         app
	Space, Org  string
	SpaceGUID   string
	Routes      []route
	Processes   []processCard
	Crash       *crashCard
	Deployments []deployment
	MayWrite    bool
	MayShell    bool
	MayReadLogs bool
	Tabs        []tab
	Restart     string
	Stop        string
	Start       string
	Changed     time.Time // of the environment, after the last start
}

type processCard struct {
	process
	Cards    []instanceCard
	Sidecars []sidecar
	Running  int
	Scale    string
	Sum      int64 // memory of all instances, in MB
}

type instanceCard struct {
	instance
	RestartCommand string
}

// crashCard says why an instance crashed, and what to try.
type crashCard struct {
	Index   int
	Sidecar string // if only this one crashed
	Reason  string
	At      time.Time
	Cause   string // the line that names the error, if it is recognised
	Lines   []line
	Try     string
	Command string
	Now     bool // an instance is crashed at this moment
}

const (
	// crashShown is how long after a crash its card is shown.
	crashShown = time.Hour
	// crashTogether is the time between the crash of a sidecar and that of its instance.
	crashTogether = 15 * time.Second
)

// appRoutes adds the pages of apps.
func (c *Console) appRoutes(g, streams area) {
	g.pages(c, map[string]handler{
		"/apps":                       c.apps,
		"/apps/{guid}":                c.app,
		"/apps/{guid}/logs":           c.logs,
		"/apps/{guid}/log-lines":      c.logLines,
		"/apps/{guid}/environment":    c.environment,
		"/apps/{guid}/shell":          c.shell,
		"/apps/{guid}/builds/{build}": c.build,
	})
	for name := range liveTabs {
		g.pages(c, map[string]handler{"/apps/{guid}/" + name: c.liveTab(name)})
	}
	streams.pages(c, map[string]handler{"/apps/{guid}/logs/stream": c.logStream, "/apps/{guid}/shell/socket": c.shellSocket})
	g.changes(c, map[string]handler{
		"/apps/{guid}/{action}":                          c.actOnApp,
		"/apps/{guid}/environment/set":                   c.setEnvironment,
		"/apps/{guid}/routes/map":                        c.mapRoute,
		"/apps/{guid}/routes/{route}/unmap":              c.unmapRoute,
		"/apps/{guid}/tasks/run":                         c.runTask,
		"/apps/{guid}/tasks/{task}/cancel":               c.cancelTask,
		"/apps/{guid}/deployments/{deployment}/{action}": c.actOnDeployment,
		"/apps/{guid}/revisions/{revision}/deploy":       c.rollBack,
		"/apps/{guid}/droplets/{droplet}/deploy":         c.deployDroplet,
		"/apps/{guid}/processes/{type}/scale":            c.scale,
		"/apps/{guid}/processes/{type}/{index}/restart":  c.restartInstance,
	})
}

func gone(err error) bool { return fault.Is(err, fault.NotFound) }

// app is GET /console/apps/GUID.
func (c *Console) app(w http.ResponseWriter, r *http.Request, s *Session) error {
	guid := web.Param(r, "guid")
	data, err := c.loadApp(r, s, guid)
	if err != nil {
		return err
	}
	return c.show(w, r, s, http.StatusOK, "app.html", page{
		Title: data.App.Name, Section: "apps", Live: "apps/" + url.PathEscape(guid), Data: data, Crumbs: data.crumbs(),
	})
}

type tab struct {
	Name, Link string
	Current    bool
}

// tabs returns the pages of the app that the user may open.
func (d *appData) tabs(current string) []tab {
	at := Path + "/apps/" + url.PathEscape(d.App.GUID)
	all := []tab{{Name: "Overview", Link: at}}
	for _, one := range []struct {
		name, path string
		shown      bool
	}{
		{"Logs", "logs", d.MayReadLogs}, {"Deployments", "deployments", true}, {"Environment", "environment", d.MayWrite}, {"Shell", "shell", d.MayShell},
		{"Routes", "routes", true}, {"Services", "services", true}, {"Tasks", "tasks", true}, {"Events", "events", true},
	} {
		if one.shown {
			all = append(all, tab{Name: one.name, Link: at + "/" + one.path})
		}
	}
	for i := range all {
		all[i].Current = strings.EqualFold(all[i].Name, current) || current == "build" && all[i].Name == "Deployments"
	}
	return all
}

// tabLoader loads what a page of an app shows beside the app itself.
type tabLoader func(r *http.Request, call *caller, d *appData) (any, error)

// liveTabs are the pages of an app that are rendered again while they are visible, by their
// name.
var liveTabs = map[string]tabLoader{
	"deployments": loadDeployments, "routes": loadRoutes, "tasks": loadTasks, "events": loadEvents,
}

// tabData is the data of a page of an app.
type tabData struct {
	*appData
	More any
}

// loadTab loads a page of an app.
func (c *Console) loadTab(r *http.Request, s *Session, guid, name string, load tabLoader) (*tabData, error) {
	call := c.platform(r, s)
	app, err := c.loadName(call, guid)
	if err != nil {
		return nil, err
	}
	more, err := load(r, call, app)
	if err != nil {
		return nil, err
	}
	app.Tabs = app.tabs(name)
	return &tabData{app, more}, nil
}

// liveTab returns the handler of a page of an app that is live.
func (c *Console) liveTab(name string) handler {
	return func(w http.ResponseWriter, r *http.Request, s *Session) error {
		return c.appTab(w, r, s, name, liveTabs[name])
	}
}

// appTab shows a page of an app.
func (c *Console) appTab(w http.ResponseWriter, r *http.Request, s *Session, name string, load tabLoader) error {
	data, err := c.loadTab(r, s, web.Param(r, "guid"), name, load)
	if err != nil {
		return err
	}
	at := "apps/" + url.PathEscape(data.App.GUID)
	p := page{
		Title: strings.ToUpper(name[:1]) + name[1:] + " of " + data.App.Name, Section: "apps", Data: data,
		Crumbs: append(data.crumbs(), crumb{data.App.Name, Path + "/" + at}),
	}
	if liveTabs[name] != nil {
		p.Live = at + "/" + name
	}
	return c.show(w, r, s, http.StatusOK, name+".html", p)
}

func (d *appData) crumbs() []crumb {
	return []crumb{{"Apps", Path + "/apps"}, {d.Org + " / " + d.Space, Path + "/apps?space=" + url.QueryEscape(d.SpaceGUID)}}
}

// loadName loads what all pages of an app need.
func (c *Console) loadName(call *caller, guid string) (*appData, error) {
	var answer struct {
		app
		Included struct {
			Spaces        []space        `json:"spaces"`
			Organizations []organization `json:"organizations"`
		} `json:"included"`
	}
	if err := call.get(&answer, "/v3/apps/"+url.PathEscape(guid), url.Values{"include": {"space.organization"}}); err != nil {
		if gone(err) {
			return nil, fault.New(fault.NotFound, "This app does not exist, or you have no role in its space.")
		}
		return nil, err
	}
	d := &appData{App: answer.app, SpaceGUID: answer.Relationships.Space.Data.GUID}
	for _, in := range answer.Included.Spaces {
		d.Space = in.Name
	}
	for _, in := range answer.Included.Organizations {
		d.Org = in.Name
	}
	name := d.App.Name
	d.Restart, d.Stop, d.Start = command("cf", "restart", name), command("cf", "stop", name), command("cf", "start", name)
	err := together(
		func() (err error) { d.MayWrite, d.MayShell, err = call.mayChange(d.SpaceGUID); return err },
		func() error {
			_, err := call.lines(d.App.GUID, url.Values{"limit": {"1"}})
			d.MayReadLogs = err == nil
			if gone(err) {
				return nil
			}
			return err
		},
	)
	return d, err
}

// mayChange reports whether the user may change apps of a space, and open shells. The API and
// the ssh gateway decide; this only says what to show.
func (c *caller) mayChange(space string) (write, shell bool, err error) {
	if c.session.admin() {
		return true, true, nil
	}
	roles, err := all[role](c, "/v3/roles", url.Values{
		"user_guids": {c.session.UserID}, "space_guids": {space}, "types": {"space_developer,space_supporter"},
	})
	return len(roles) > 0, slices.ContainsFunc(roles, func(r role) bool { return r.Type == "space_developer" }), err
}

func (c *Console) loadApp(r *http.Request, s *Session, guid string) (*appData, error) {
	call := c.platform(r, s)
	d, err := c.loadName(call, guid)
	if err != nil {
		return nil, err
	}
	d.Tabs = d.tabs("overview")
	path := "/v3/apps/" + d.App.GUID
	var processes []process
	var crashes []auditEvent
	err = together(
		func() (err error) { d.Routes, err = all[route](call, path+"/routes", nil); return err },
		func() (err error) { processes, err = all[process](call, path+"/processes", nil); return err },
		func() (err error) { d.Changed, err = call.environmentChanged(d); return err },
		func() (err error) {
			d.Deployments, err = all[deployment](call, "/v3/deployments", url.Values{"app_guids": {d.App.GUID}, "order_by": {"-created_at"}, "per_page": {"3"}})
			return err
		},
		func() (err error) {
			crashes, err = all[auditEvent](call, "/v3/audit_events", url.Values{
				"target_guids": {d.App.GUID}, "types": {eventCrash + "," + eventSidecarCrash}, "order_by": {"-created_at"}, "per_page": {"5"},
			})
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	for i := range d.Routes {
		d.Routes[i].Link = d.Routes[i].link(r)
	}
	slices.SortFunc(processes, func(a, b process) int { // web first
		return cmp.Or(strings.Compare(strconv.FormatBool(b.Type == "web"), strconv.FormatBool(a.Type == "web")), strings.Compare(a.Type, b.Type))
	})
	d.Processes = make([]processCard, len(processes))
	calls := make([]func() error, len(processes))
	for i, p := range processes {
		calls[i] = func() (err error) { d.Processes[i], err = call.card(d, p); return err }
	}
	if err := together(calls...); err != nil {
		return nil, err
	}
	if len(crashes) > 0 && d.App.started() {
		d.Crash = c.crash(call, d, newestCrash(crashes))
	}
	return d, nil
}

func (c *caller) card(d *appData, p process) (processCard, error) {
	card := processCard{process: p, Sum: p.MemoryMB * int64(p.Instances)}
	card.Scale = command("cf", "scale", d.App.Name, "--process", p.Type, "-i", strconv.Itoa(p.Instances))
	if p.Type == "web" {
		card.Scale = command("cf", "scale", d.App.Name, "-i", strconv.Itoa(p.Instances))
	}
	var stats struct{ Resources []instance }
	err := together(
		func() error { return c.get(&stats, "/v3/processes/"+p.GUID+"/stats", nil) },
		func() (err error) {
			card.Sidecars, err = all[sidecar](c, "/v3/processes/"+p.GUID+"/sidecars", nil)
			return err
		},
	)
	if gone(err) {
		err = nil // the process of a deployment that has just ended
	}
	for _, in := range stats.Resources {
		if in.State == stateRunning {
			card.Running++
		}
		one := instanceCard{instance: in, RestartCommand: command("cf", "restart-app-instance", d.App.Name, strconv.Itoa(in.Index), "--process", p.Type)}
		card.Cards = append(card.Cards, one)
	}
	return card, err
}

// crash returns the card of a crash, or nil if it was long ago.
func (c *Console) crash(call *caller, d *appData, e auditEvent) *crashCard {
	card := &crashCard{Index: e.Data.Index, Sidecar: e.Data.Sidecar, Reason: e.Data.Description, At: e.CreatedAt}
	if card.Sidecar != "" {
		card.Reason = crashSentence(e.Type, e.Data)
	}
	if e.Data.Timestamp > 0 {
		card.At = time.Unix(0, e.Data.Timestamp).UTC()
	}
	for _, p := range d.Processes {
		for _, in := range p.Cards {
			card.Now = card.Now || in.State == stateCrashed
		}
	}
	if !card.Now && c.now().Sub(card.At) > crashShown {
		return nil
	}
	card.Try, card.Command = advice(d.App.Name, e.Data.Description)
	if card.Sidecar != "" {
		card.Try = "These are the last lines that the sidecar wrote. The cause is usually in these lines."
	}
	if d.MayReadLogs {
		// Without them the card is still worth showing.
		card.Lines, _ = call.lines(d.App.GUID, url.Values{
			"end_time": {strconv.FormatInt(card.At.Add(time.Minute).UnixNano(), 10)}, "limit": {"1000"}, "descending": {"true"},
		})
		card.Lines = slices.DeleteFunc(card.Lines, func(l line) bool {
			return l.GUID != e.Data.Instance || !strings.HasPrefix(l.Source, "APP") || card.Sidecar != "" && l.Sidecar() != card.Sidecar
		})
		texts := make([]string, len(card.Lines))
		for i, l := range card.Lines {
			texts[i] = l.Text
		}
		var begin, end int
		begin, end, card.Cause = crashlines.Explain(texts)
		card.Lines = card.Lines[begin:end]
	}
	return card
}

// advice says what to try after a crash.
func advice(name, reason string) (try, line string) {
	lower := strings.ToLower(reason)
	switch {
	case strings.Contains(lower, "memory"):
		return "The instance used more memory than its limit. Give it more, or find out what needs so much.", command("cf", "scale", name, "-m", "512M")
	case strings.Contains(lower, "health") || strings.Contains(lower, "timed out") || strings.Contains(lower, "listen") || strings.Contains(lower, "port"):
		return "The health check failed. The app must listen on the port in the environment variable PORT, on all addresses, in time.", command("cf", "app", name)
	case strings.Contains(lower, "status 127") || strings.Contains(lower, "not found"):
		return "The start command does not exist in the droplet. Check it.", command("cf", "push", name, "-c", "COMMAND")
	case strings.Contains(lower, "disk") || strings.Contains(lower, "space"):
		return "The instance used more disk than its limit.", command("cf", "scale", name, "-k", "2G")
	}
	return "These are the last lines that the instance wrote. The cause is usually in these lines.", command("cf", "logs", name, "--recent")
}
