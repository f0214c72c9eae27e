package apps

import (
	"cmp"
	"embed"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/crashlines"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// Data is what the page of an app shows.
type Data struct {
	App         cfapi.App
	Space, Org  string
	SpaceGUID   string
	Routes      []route
	Processes   []processCard
	Health      string
	Crash       *crashCard
	FailedBuild *cfapi.Build // the last build, if it failed
	Deployments []cfapi.Deployment
	MayWrite    bool
	MayShell    bool
	MayReadLogs bool
	Tabs        []page.Tab
	Restart     string
	Restage     string
	Stop        string
	Start       string
	Changed     time.Time // of the environment, after the last start
}

type processCard struct {
	cfapi.Process
	Cards    []instanceCard
	Sidecars []sidecar
	Running  int
	Scale    string
	Sum      int64 // memory of all instances, in MB
}

type instanceCard struct {
	cfapi.Stat
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
}

const (
	// healthyFor is how long instances have to run before the card of a crash is not shown any more.
	healthyFor = 2 * time.Minute
	// crashTogether is the time between the crash of a sidecar and that of its instance.
	crashTogether = 15 * time.Second
)

//go:embed pages/*.html assets/*
var files embed.FS

// Files are the templates of apps, and the terminal of shells.
var Files = page.Files{FS: files, Functions: template.FuncMap{"chunks": chunks, "facts": sidecar.facts,
	"manifestAfter": func(csrf, app, after, restart, restage string) manifestAfter {
		return manifestAfter{csrf, app, after, restart, restage}
	},
	"firstApp": func(csrf, push, space string, may bool) firstApp { return firstApp{csrf, push, space, may} }}}

// pages serves the pages of apps.
type pages struct {
	*page.Console
	sparks sparks
}

// New returns the pages of apps.
func New(core *page.Console) page.Part { return (&pages{Console: core}).part() }

func (c *pages) part() page.Part {
	p := page.Part{
		Pages: map[string]page.Handler{
			"/apps/{guid}":                      c.app,
			"/apps/{guid}/logs":                 c.logs,
			"/apps/{guid}/history":              c.history,
			"/apps/{guid}/log-lines":            c.logLines,
			"/apps/{guid}/environment":          c.environment,
			"/apps/{guid}/settings":             c.settings,
			"/apps/{guid}/manifest":             c.manifest,
			"/apps/{guid}/sidecars":             c.sidecars,
			"/apps/{guid}/revisions/{revision}": c.revision,
			"/apps/{guid}/tasks/{task}":         c.task,
			"/domains":                          c.domains,
			"/apps/{guid}/shell":                c.shell,
			"/apps/{guid}/builds/{build}":       c.build,
			"/apps/{guid}/deploy":               c.deployPage,
			"/apps/{guid}/deploying/{job}":      c.deploying,
			"/apps/{guid}/applying/{job}":       c.applying,
		},
		Screens: map[string]page.Screen{
			"/apps": {
				Title: "Apps", Section: "apps", Template: "apps.html", Live: "apps", LiveAt: page.SameQuery, Load: c.loadApps,
			},
			"/apps/new": {
				Title: "Create app", Section: "apps", Template: "newapp.html", Load: c.loadNew,
				Crumbs: []page.Crumb{{Name: "Apps", Link: page.Path + "/apps"}},
			},
		},
		Large: map[string]page.Handler{
			"/apps/{guid}/manifest/review": c.reviewManifest, "/apps/{guid}/manifest/apply": c.applyManifest,
		},
		Uploads: map[string]page.UploadHandler{"/apps/new": c.deployFiles, "/apps/{guid}/deploy": c.deployFiles},
		Streams: map[string]page.Handler{
			"/apps/{guid}/logs/stream": c.logStream, "/apps/{guid}/shell/socket": c.shellSocket,
		},
		Changes: c.changes(), Said: said,
		Live: c.view,
	}
	maps.Copy(p.Changes, c.gitChanges())
	for name := range liveTabs {
		p.Pages["/apps/{guid}/"+name] = c.liveTab(name)
	}
	return p
}

// view returns the live part of a page of apps.
func (c *pages) view(r *http.Request, s *page.Session, name string) *page.View {
	rest, isApp := strings.CutPrefix(name, "apps/")
	guid, tab, _ := strings.Cut(rest, "/")
	switch {
	case !isApp || guid == "":
	case tab == "":
		return &page.View{Fragment: "app-live", Load: func() (any, error) { return c.loadApp(r, s, guid) }, App: guid}
	case strings.HasPrefix(tab, taskTab):
		load := loadTask(strings.TrimPrefix(tab, taskTab))
		return &page.View{Fragment: "task-live", App: guid,
			Load: func() (any, error) { return loadTab(c.Console, r, s, guid, "task", load) }}
	case strings.HasPrefix(tab, deployingTab):
		load := loadDeploying(strings.TrimPrefix(tab, deployingTab))
		return &page.View{Fragment: "deploying-live", App: guid,
			Load: func() (any, error) { return loadTab(c.Console, r, s, guid, "deployments", load) }}
	case strings.HasPrefix(tab, applyingTab):
		load := loadApplying(strings.TrimPrefix(tab, applyingTab))
		return &page.View{Fragment: "applying-live",
			Load: func() (any, error) { return loadTab(c.Console, r, s, guid, "manifest", load) }}
	case liveTabs[tab] != nil:
		load := func() (any, error) { return loadTab(c.Console, r, s, guid, tab, liveTabs[tab]) }
		return &page.View{Fragment: tab + "-live", Load: load, App: guid}
	}
	return nil
}

// app is GET /console/apps/GUID.
func (c *pages) app(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	data, err := c.loadApp(r, s, guid)
	if err != nil {
		return err
	}
	return c.Show(w, r, s, http.StatusOK, "app.html", page.Page{
		Title: data.App.Name, Section: "apps", Live: "apps/" + url.PathEscape(guid), Data: data, Crumbs: data.crumbs(),
	})
}

// partOf has the tabs that pages without their own belong to.
var partOf = map[string]string{"build": "deployments", "revision": "deployments", "task": "tasks"}

// tabs returns the pages of the app that the user may open.
func (d *Data) tabs(current string) []page.Tab {
	at := page.Path + "/apps/" + url.PathEscape(d.App.GUID)
	all := []page.Tab{{Name: "Overview", Link: at}}
	for _, one := range []struct {
		name, path string
		shown      bool
	}{
		{"Logs", "logs", d.MayReadLogs}, {"History", "history", true}, {"Deployments", "deployments", true},
		{"Environment", "environment", d.MayWrite},
		{"Shell", "shell", d.MayShell},
		{"Routes", "routes", true}, {"Services", "services", true}, {"Sidecars", "sidecars", d.MayShell},
		{"Tasks", "tasks", true}, {"Events", "events", true}, {"Manifest", "manifest", d.MayShell},
		{"Settings", "settings", d.MayShell},
	} {
		if one.shown {
			all = append(all, page.Tab{Name: one.name, Link: at + "/" + one.path})
		}
	}
	for i := range all {
		all[i].Current = strings.EqualFold(all[i].Name, cmp.Or(partOf[current], current))
	}
	return all
}

// tabLoader loads what a page of an app shows beside the app itself.
type tabLoader func(r *http.Request, call *page.Caller, d *Data) (any, error)

// liveTabs are the pages of an app that are rendered again while they are visible, by their
// name.
var liveTabs = map[string]tabLoader{
	"deployments": loadDeployments, "routes": loadRoutes, "tasks": loadTasks, "events": loadEvents,
}

// tabData is the data of a page of an app.
type tabData struct {
	*Data
	More any
}

// loadTab loads a page of an app.
func loadTab(c *page.Console, r *http.Request, s *page.Session, guid, name string, load tabLoader) (*tabData, error) {
	call := c.Platform(r, s)
	app, err := loadName(call, guid)
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
func (c *pages) liveTab(name string) page.Handler {
	return func(w http.ResponseWriter, r *http.Request, s *page.Session) error {
		return ShowTab(c.Console, w, r, s, name, liveTabs[name])
	}
}

// ShowTab shows a page of an app.
func ShowTab(c *page.Console, w http.ResponseWriter, r *http.Request, s *page.Session, name string,
	load tabLoader) error {
	return showTab(c, w, r, s, name, load, http.StatusOK, "")
}

// showTab is ShowTab with the status of a problem, and its text.
func showTab(c *page.Console, w http.ResponseWriter, r *http.Request, s *page.Session, name string,
	load tabLoader, status int, problem string) error {
	data, err := loadTab(c, r, s, web.Param(r, "guid"), name, load)
	if err != nil {
		return err
	}
	at := "apps/" + url.PathEscape(data.App.GUID)
	p := page.Page{
		Title: strings.ToUpper(name[:1]) + name[1:] + " of " + data.App.Name, Section: "apps", Data: data, Problem: problem,
		Crumbs: append(data.crumbs(), page.Crumb{Name: data.App.Name, Link: page.Path + "/" + at}),
	}
	if liveTabs[name] != nil {
		p.Live = at + "/" + name
	}
	return c.Show(w, r, s, status, name+".html", p)
}

func (d *Data) crumbs() []page.Crumb {
	return []page.Crumb{{Name: "Apps", Link: page.Path + "/apps"}, {Name: d.Org + " / " + d.Space, Link: page.Path +
		"/apps?space=" + url.QueryEscape(d.SpaceGUID)}}
}

// loadName loads what all pages of an app need.
func loadName(call *page.Caller, guid string) (*Data, error) {
	var answer struct {
		cfapi.App
		Included struct {
			Spaces        []cfapi.Space `json:"spaces"`
			Organizations []cfapi.Thing `json:"organizations"`
		} `json:"included"`
	}
	if err := call.Get(&answer, "/v3/apps/"+url.PathEscape(guid),
		url.Values{"include": {"space.organization"}}); err != nil {
		if page.Gone(err) {
			return nil, fault.New(fault.NotFound, "This app does not exist, or you have no role in its space.")
		}
		return nil, err
	}
	d := &Data{App: answer.App, SpaceGUID: answer.Relationships.Space.GUID()}
	for _, in := range answer.Included.Spaces {
		d.Space = in.Name
	}
	for _, in := range answer.Included.Organizations {
		d.Org = in.Name
	}
	name := d.App.Name
	d.Restart, d.Stop, d.Start = page.Command("cf", "restart", name), page.Command("cf", "stop", name),
		page.Command("cf", "start", name)
	d.Restage = page.Command("cf", "restage", name)
	err := page.Together(
		func() (err error) { d.MayWrite, d.MayShell, err = mayChange(call, d.SpaceGUID); return err },
		func() error {
			_, err := readLines(call, d.App.GUID, url.Values{"limit": {"1"}})
			d.MayReadLogs = err == nil
			if page.Gone(err) {
				return nil
			}
			return err
		},
	)
	return d, err
}

// mayChange reports whether the user may change apps of a space, and open shells. The API and
// the ssh gateway decide; this only says what to show.
func mayChange(c *page.Caller, space string) (write, shell bool, err error) {
	if c.Session.Admin() {
		return true, true, nil
	}
	roles, err := page.All[cfapi.Role](c, "/v3/roles", url.Values{
		"user_guids": {c.Session.UserID}, "space_guids": {space}, "types": {"space_developer,space_supporter"},
	})
	return len(roles) > 0, slices.ContainsFunc(roles, func(r cfapi.Role) bool { return r.Type == "space_developer" }), err
}

func (c *pages) loadApp(r *http.Request, s *page.Session, guid string) (*Data, error) {
	call := c.Platform(r, s)
	d, err := loadName(call, guid)
	if err != nil {
		return nil, err
	}
	d.Tabs = d.tabs("overview")
	path := "/v3/apps/" + d.App.GUID
	var processes []cfapi.Process
	var crashes []cfapi.Event
	var builds struct{ Resources []cfapi.Build }
	err = page.Together(
		page.List(call, &d.Routes, path+"/routes", nil),
		page.List(call, &processes, path+"/processes", nil),
		func() error { return d.LoadChanged(call) },
		page.List(call, &d.Deployments, "/v3/deployments", url.Values{"app_guids": {d.App.GUID}, "order_by": {"-created_at"},
			"per_page": {"3"}}),
		func() error {
			return call.Get(&builds, path+"/builds", url.Values{"order_by": {"-created_at"}, "per_page": {"1"}})
		},
		page.List(call, &crashes, "/v3/audit_events", url.Values{
			"target_guids": {d.App.GUID}, "types": {page.EventCrash + "," + page.EventSidecarCrash}, "order_by": {"-created_at"},
			"per_page": {"5"},
		}),
	)
	if err != nil {
		return nil, err
	}
	if len(builds.Resources) > 0 && builds.Resources[0].Failed() {
		d.FailedBuild = &builds.Resources[0]
	}
	for i := range d.Routes {
		d.Routes[i].Link = d.Routes[i].link(r)
	}
	slices.SortFunc(processes, func(a, b cfapi.Process) int { // web first
		return cmp.Or(strings.Compare(strconv.FormatBool(b.Type == "web"), strconv.FormatBool(a.Type == "web")),
			strings.Compare(a.Type, b.Type))
	})
	d.Processes = make([]processCard, len(processes))
	calls := make([]func() error, len(processes))
	for i, p := range processes {
		calls[i] = func() (err error) { d.Processes[i], err = loadCard(call, d, p); return err }
	}
	if err := page.Together(calls...); err != nil {
		return nil, err
	}
	d.Health = d.health()
	if len(crashes) > 0 && d.App.Started() {
		d.Crash = c.crash(call, d, newestCrash(crashes))
	}
	return d, nil
}

func loadCard(c *page.Caller, d *Data, p cfapi.Process) (processCard, error) {
	card := processCard{Process: p, Sum: p.MemoryMB * int64(p.Instances)}
	card.Scale = page.Command("cf", "scale", d.App.Name, "--process", p.Type, "-i", strconv.Itoa(p.Instances), "-m",
		strconv.FormatInt(p.MemoryMB, 10)+"M", "-k", strconv.FormatInt(p.DiskMB, 10)+"M")
	if p.Type == "web" {
		card.Scale = page.Command("cf", "scale", d.App.Name, "-i", strconv.Itoa(p.Instances), "-m",
			strconv.FormatInt(p.MemoryMB, 10)+"M", "-k", strconv.FormatInt(p.DiskMB, 10)+"M")
	}
	var stats struct{ Resources []cfapi.Stat }
	err := page.Together(
		func() error { return c.Get(&stats, "/v3/processes/"+p.GUID+"/stats", nil) },
		page.List(c, &card.Sidecars, "/v3/processes/"+p.GUID+"/sidecars", nil),
	)
	if page.Gone(err) {
		err = nil // the process of a deployment that has just ended
	}
	for _, in := range stats.Resources {
		if in.State == cfapi.Running {
			card.Running++
		}
		one := instanceCard{Stat: in, RestartCommand: page.Command("cf", "restart-app-instance", d.App.Name,
			strconv.Itoa(in.Index), "--process", p.Type)}
		card.Cards = append(card.Cards, one)
	}
	return card, err
}

// health is the state of the app in one word, as in the list of apps.
func (d *Data) health() string {
	var wanted, running, crashed int
	for _, p := range d.Processes {
		wanted += p.Instances
		running += p.Running
		for _, in := range p.Cards {
			if in.State == cfapi.Crashed {
				crashed++
			}
		}
	}
	return health(&d.App, wanted, running, crashed)
}

// healthySince reports whether all instances have been running for a while since a crash.
func (d *Data) healthySince(crash time.Time) bool {
	for _, p := range d.Processes {
		for _, in := range p.Cards {
			if in.State != cfapi.Running || time.Duration(in.Uptime)*time.Second < healthyFor {
				return false
			}
		}
	}
	return time.Since(crash) >= healthyFor
}

// crash returns the card of a crash, or nil if all instances have been running for a while since. It
// stays in the list of events.
func (c *pages) crash(call *page.Caller, d *Data, e cfapi.Event) *crashCard {
	of := page.CrashOf(e.Data)
	card := &crashCard{Index: of.Index, Sidecar: of.Sidecar, Reason: of.Description, At: e.CreatedAt}
	if card.Sidecar != "" {
		card.Reason = page.CrashSentence(e.Type, of)
	}
	if of.Timestamp > 0 {
		card.At = time.Unix(0, of.Timestamp).UTC()
	}
	if d.healthySince(card.At) {
		return nil
	}
	card.Try, card.Command = advice(d.App.Name, of.Description)
	if card.Sidecar != "" {
		card.Try = "These are the last lines that the sidecar wrote. The cause is usually in these lines."
	}
	if d.MayReadLogs {
		// Without them the card is still worth showing.
		card.Lines, _ = readLines(call, d.App.GUID, url.Values{
			"end_time": {strconv.FormatInt(card.At.Add(time.Minute).UnixNano(), 10)}, "limit": {"1000"}, "descending": {"true"},
		})
		card.Lines = slices.DeleteFunc(card.Lines, func(l line) bool {
			return l.GUID != of.Instance || !strings.HasPrefix(l.Source, "APP") || card.Sidecar != "" &&
				l.Sidecar() != card.Sidecar
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
		return "The instance used more memory than its limit. Give it more, or find out what needs so much.",
			page.Command("cf", "scale", name, "-m", "512M")
	case strings.Contains(lower, "health") || strings.Contains(lower, "timed out") || strings.Contains(lower, "listen") ||
		strings.Contains(lower, "port"):
		return "The health check failed. The app must listen on the port in the environment variable PORT, on all " +
			"addresses, in time.", page.Command("cf", "app", name)
	case strings.Contains(lower, "status 127") || strings.Contains(lower, "not found"):
		return "The start command does not exist in the droplet. Check it.", page.Command("cf", "push", name, "-c", "COMMAND")
	case strings.Contains(lower, "disk") || strings.Contains(lower, "space"):
		return "The instance used more disk than its limit.", page.Command("cf", "scale", name, "-k", "2G")
	}
	return "These are the last lines that the instance wrote. The cause is usually in these lines.",
		page.Command("cf", "logs", name, "--recent")
}
