package apps

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// job is a job of the API.
type job struct {
	GUID      string    `json:"guid"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	State     string    `json:"state"`
	Errors    []detail  `json:"errors"`
	Warnings  []detail  `json:"warnings"`
	Links     struct {
		App   link `json:"app"`
		Build link `json:"build"` // missing until it begins
		Space link `json:"space"`
	} `json:"links"`
}

type link struct {
	Href string `json:"href"`
}

// Done and Failed report whether a job has ended, and how.
func (j *job) Done() bool   { return j.State == "COMPLETE" || j.Failed() }
func (j *job) Failed() bool { return j.State == "FAILED" }

type detail struct {
	Detail string `json:"detail"`
}

// deployingData is a deployment that the server does: the build, the start and their lines.
type deployingData struct {
	job
	Step  string // building, starting, running or failed
	Build *cfapi.Build
	Lines []line
	// Routes are shown when the app runs.
	Routes  []route
	Command string
}

// deployingLines is how many of the newest lines the page shows.
const deployingLines = "300"

// deployingTab begins the name of the page of a deployment; the guid of its job follows.
const deployingTab = "deploying/"

// deploying is GET /console/apps/GUID/deploying/JOB.
func (c *pages) deploying(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid, of := web.Param(r, "guid"), web.Param(r, "job")
	data, err := loadTab(c.Console, r, s, guid, "deployments", loadDeploying(of))
	if err != nil {
		return err
	}
	at := "apps/" + url.PathEscape(guid)
	p := page.Page{Title: "Deployment of " + data.App.Name, Section: "apps", Data: data,
		Crumbs: append(data.crumbs(), page.Crumb{Name: data.App.Name, Link: page.Path + "/" + at})}
	if more, ok := data.More.(*deployingData); ok && !more.Done() {
		p.Live = at + "/" + deployingTab + url.PathEscape(of)
	}
	return c.Show(w, r, s, http.StatusOK, "deploying.html", p)
}

// loadDeploying returns the loader of the page of a job.
func loadDeploying(of string) tabLoader {
	return func(r *http.Request, call *page.Caller, d *Data) (any, error) {
		data := &deployingData{Command: page.Command("cf", "logs", d.App.Name, "--recent")}
		if err := call.Get(&data.job, "/v3/jobs/"+url.PathEscape(of), nil); err != nil && !page.Gone(err) {
			return nil, err
		}
		if !strings.HasSuffix(data.Links.App.Href, "/v3/apps/"+d.App.GUID) {
			return nil, fault.New(fault.NotFound, "The app has no such deployment.")
		}
		err := page.Together(
			func() error { return data.loadBuild(call) },
			func() error { return data.loadLines(call, d) },
			func() (err error) {
				data.Routes, err = page.All[route](call, "/v3/apps/"+d.App.GUID+"/routes", url.Values{"per_page": {"10"}})
				for i := range data.Routes {
					data.Routes[i].Link = data.Routes[i].link(r)
				}
				return err
			},
		)
		data.Step = data.step()
		return data, err
	}
}

// loadBuild loads the build of the deployment: the app may have newer ones.
func (d *deployingData) loadBuild(call *page.Caller) error {
	guid := path.Base(d.Links.Build.Href)
	if d.Links.Build.Href == "" {
		return nil
	}
	var build cfapi.Build
	err := call.Get(&build, "/v3/builds/"+url.PathEscape(guid), nil)
	if page.Gone(err) {
		return nil
	}
	d.Build = &build
	return err
}

// loadLines loads what the build and the app wrote since the job began, and shortly after it ended.
func (d *deployingData) loadLines(call *page.Caller, of *Data) (err error) {
	if !of.MayReadLogs {
		return nil
	}
	// Times of the API are whole seconds.
	q := url.Values{"start_time": {strconv.FormatInt(d.CreatedAt.UnixNano(), 10)}, "limit": {deployingLines},
		"descending": {"true"}}
	if d.Done() {
		q.Set("end_time", strconv.FormatInt(d.UpdatedAt.Add(2*time.Second).UnixNano(), 10))
	}
	d.Lines, err = readLines(call, of.App.GUID, q)
	d.Lines = slices.DeleteFunc(d.Lines, func(l line) bool {
		return !strings.HasPrefix(l.Source, stagingSource) && !strings.HasPrefix(l.Source, "APP")
	})
	return err
}

// step returns what the deployment does at the moment, in one word.
func (d *deployingData) step() string {
	switch {
	case d.State == "COMPLETE":
		return "running"
	case d.State == "FAILED":
		return "failed"
	case d.Build != nil && d.Build.State == "STAGING":
		return "building"
	}
	return "starting"
}

// restage builds the newest package of an app again, and deploys it.
func (c *pages) restage(w http.ResponseWriter, r *http.Request, s *page.Session, guid string) error {
	var out begun
	err := c.Platform(r, s).Do(http.MethodPost, "/v3/ingot/apps/"+url.PathEscape(guid)+"/deploy",
		map[string]bool{"restage": true}, &out)
	if err != nil {
		return err
	}
	return out.follow(w, r)
}
