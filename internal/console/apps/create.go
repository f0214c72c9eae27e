package apps

import (
	"archive/zip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/background"
	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// newData is what the page to create an app shows, and the page to deploy a new version of one.
type newData struct {
	Spaces []Developed
	Space  string // the chosen one
	// App is the one to deploy; nil for a new one. Its page has its name and its tabs.
	App  *cfapi.App
	Tabs []page.Tab
	// Files and Image are the forms, with what was typed.
	Files, Image, Git deployForm
	// Stored is the git repository that the app is deployed from, or nil.
	Stored *gitSource
	Action string // the target of the forms
	// Place is set while there is no space, for users who may create one.
	Place *page.Place
}

// deployForm is a form to deploy an app, with what was typed.
type deployForm struct {
	Name, Memory, Instances string
	Random                  bool
	Image, Username         string
	Command                 string
	URL, Branch, Folder     string
}

// typed returns what was typed into a form.
func typed(f url.Values) deployForm {
	return deployForm{Name: strings.TrimSpace(f.Get("name")), Memory: strings.TrimSpace(f.Get("memory")),
		Instances: strings.TrimSpace(f.Get("instances")), Random: f.Get("route") == "random",
		Image: strings.TrimSpace(f.Get("image")), Username: strings.TrimSpace(f.Get("username")),
		URL: strings.TrimSpace(f.Get("url")), Branch: strings.TrimSpace(f.Get("branch")),
		Folder: strings.TrimSpace(f.Get("folder"))}
}

// sizes checks the numbers of a form, and returns them by their names in the API.
func (f deployForm) sizes() (map[string]int, error) {
	out := map[string]int{}
	for _, one := range []struct{ name, label, text string }{
		{"memory_in_mb", "Memory", f.Memory}, {"instances", "Instances", f.Instances},
	} {
		if one.text == "" {
			continue
		}
		n, err := strconv.Atoi(one.text)
		if err != nil || n < 0 {
			return nil, fault.New(fault.Unprocessable, "%s must be a number, not %.50q.", one.label, one.text)
		}
		out[one.name] = n
	}
	return out, nil
}

// query returns the form as the query of an upload.
func (f deployForm) query(sizes map[string]int) string {
	q := url.Values{"name": {f.Name}}
	for name, n := range sizes {
		q.Set(name, strconv.Itoa(n))
	}
	if f.Random {
		q.Set("random_route", "true")
	}
	return "?" + q.Encode()
}

// loadNew is GET /console/apps/new: ?space= guid.
func (c *pages) loadNew(r *http.Request, s *page.Session) (any, error) {
	return newApp(c.Platform(r, s), r.URL.Query().Get("space"))
}

func newApp(call *page.Caller, space string) (*newData, error) {
	spaces, err := DevelopedSpaces(call)
	data := &newData{Spaces: spaces, Space: space, Action: page.Path + "/apps/new"}
	if len(spaces) == 0 {
		data.Place = call.Session.NewPlace()
	}
	data.commands("NAME")
	return data, err
}

// commands sets the commands of the client that do the same.
func (d *newData) commands(name string) {
	d.Files.Command = page.Command("ingot", "push", name, "-p", "FOLDER")
	d.Git.Command = page.Command("ingot", "deploy-git", name, "URL")
	d.Image.Command = page.Command("ingot", "push", name, "--docker-image", "IMAGE")
}

// loadDeploy loads the page to deploy a new version of an app.
func loadDeploy(call *page.Caller, d *Data) (*newData, error) {
	if !d.MayShell { // a space developer, as for this
		return nil, fault.New(fault.Forbidden, "Only space developers may deploy apps.")
	}
	data := &newData{App: &d.App, Space: d.SpaceGUID, Tabs: d.tabs("deployments"),
		Action: page.Path + "/apps/" + url.PathEscape(d.App.GUID) + "/deploy"}
	data.commands(d.App.Name)
	var err error
	if data.Stored, err = loadGitSource(call, d.App.GUID); data.Stored != nil {
		data.Git = data.Stored.form(data.Git.Command)
	}
	return data, err
}

// deployPage is GET /console/apps/GUID/deploy.
func (c *pages) deployPage(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.showDeploy(w, r, s, nil, http.StatusOK, "")
}

// showDeploy shows the page to create an app, or to deploy a new version of the app of the path.
func (c *pages) showDeploy(w http.ResponseWriter, r *http.Request, s *page.Session, change func(*newData), status int,
	problem string) error {
	call, guid := c.Platform(r, s), web.Param(r, "guid")
	p := page.Page{Title: "Create app", Section: "apps", Problem: problem,
		Crumbs: []page.Crumb{{Name: "Apps", Link: page.Path + "/apps"}}}
	var data *newData
	var err error
	if guid == "" {
		data, err = newApp(call, r.PostForm.Get("space"))
	} else {
		var app *Data
		if app, err = loadName(call, guid); err == nil {
			data, err = loadDeploy(call, app)
			p.Title = "Deploy " + app.App.Name
			p.Crumbs = append(app.crumbs(), page.Crumb{Name: app.App.Name, Link: page.Path + "/apps/" + url.PathEscape(guid)})
		}
	}
	if err != nil {
		return err
	}
	if change != nil {
		change(data)
	}
	p.Data = data
	return c.Show(w, r, s, status, "newapp.html", p)
}

// failedDeploy shows a form again, with a problem and what was typed.
func (c *pages) failedDeploy(w http.ResponseWriter, r *http.Request, s *page.Session, err error,
	form func(*newData) *deployForm) error {
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	return c.showDeploy(w, r, s, func(d *newData) {
		to := form(d)
		command := to.Command
		*to = typed(r.PostForm)
		to.Command = command
	}, status, text)
}

// deployPath returns where the API deploys: the app of the path, or a new one in the space of the form.
func deployPath(r *http.Request) (string, error) {
	if guid := web.Param(r, "guid"); guid != "" {
		return "/v3/ingot/apps/" + url.PathEscape(guid) + "/deploy", nil
	}
	space := r.PostForm.Get("space")
	if space == "" {
		return "", fault.New(fault.Unprocessable, "Choose a space.")
	}
	if strings.TrimSpace(r.PostForm.Get("name")) == "" {
		return "", fault.New(fault.Unprocessable, "Type a name for the app.")
	}
	return "/v3/ingot/spaces/" + url.PathEscape(space) + "/deploy", nil
}

// begun is the answer of the API when a deployment has begun.
type begun struct {
	App, Job cfapi.GUID
}

// follow sends the browser to the page that shows a deployment.
func (b begun) follow(w http.ResponseWriter, r *http.Request) error {
	return backTo(w, r, b.App.GUID, "deploying/"+url.PathEscape(b.Job.GUID), "")
}

// deployFiles is POST /console/apps/new and /console/apps/GUID/deploy, with the files of an app: a zip, or a folder.
func (c *pages) deployFiles(w http.ResponseWriter, r *http.Request, s *page.Session, u *page.Upload) error {
	out, err := c.sendFiles(r, s, u)
	if err != nil {
		return c.failedDeploy(w, r, s, err, func(d *newData) *deployForm { return &d.Files })
	}
	return out.follow(w, r)
}

func (c *pages) sendFiles(r *http.Request, s *page.Session, u *page.Upload) (out begun, err error) {
	path, err := deployPath(r)
	if err != nil {
		return out, err
	}
	form := typed(r.PostForm)
	sizes, err := form.sizes()
	if err != nil {
		return out, err
	}
	first, err := u.Next()
	if err == nil && first == nil {
		err = fault.New(fault.Unprocessable, "Choose a zip file or a folder.")
	}
	if err != nil {
		return out, err
	}
	path += form.query(sizes)
	call := c.Platform(r, s)
	if first.Field != "folder" {
		err = call.Upload(path, "application/zip", first, &out)
		return out, err
	}
	in, to := io.Pipe()
	done := background.Async("upload of a folder", func() error {
		err := zipFolder(to, u, first)
		_ = to.CloseWithError(err)
		return err
	})
	err = call.Upload(path, "application/zip", in, &out)
	_ = in.Close()
	<-done
	return out, err
}

// zipFolder writes a zip of the files of a folder, without the name of the folder itself.
func zipFolder(to io.Writer, u *page.Upload, f *page.File) (err error) {
	w := zip.NewWriter(to)
	for ; f != nil && err == nil; f, err = u.Next() {
		_, name, ok := strings.Cut(f.Path, "/")
		if !ok {
			name = f.Path
		}
		part, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err != nil {
			return err
		}
		if _, err := io.Copy(part, f); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return w.Close()
}

// deployImage is POST /console/apps/new/image and /console/apps/GUID/deploy/image, with a container image.
func (c *pages) deployImage(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	var out begun
	path, err := deployPath(r)
	form := typed(r.PostForm)
	if err == nil && form.Image == "" {
		err = fault.New(fault.Unprocessable, "Type the reference of an image, such as docker.io/library/nginx:latest.")
	}
	var sizes map[string]int
	if err == nil {
		sizes, err = form.sizes()
	}
	if err == nil {
		body := map[string]any{"name": form.Name, "random_route": form.Random, "docker": map[string]string{
			"image": form.Image, "username": form.Username, "password": r.PostForm.Get("password")}}
		for name, n := range sizes {
			body[name] = n
		}
		err = c.Platform(r, s).Do(http.MethodPost, path, body, &out)
	}
	if err != nil {
		return c.failedDeploy(w, r, s, err, func(d *newData) *deployForm { return &d.Image })
	}
	return out.follow(w, r)
}

// sampleName is the name of the first sample in a space.
const sampleName = "hello-ingot"

// deploySample is POST /console/apps/new/sample, with the field space; without it, in the first space of the user.
func (c *pages) deploySample(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, space := c.Platform(r, s), r.PostForm.Get("space")
	out, err := sendSample(call, space)
	if err != nil {
		return c.failedDeploy(w, r, s, err, func(*newData) *deployForm { return &deployForm{} })
	}
	return out.follow(w, r)
}

func sendSample(call *page.Caller, space string) (out begun, err error) {
	if space == "" {
		spaces, err := DevelopedSpaces(call)
		if err != nil {
			return out, err
		}
		if len(spaces) == 0 {
			return out, fault.New(fault.Forbidden, "You are not a developer in any space.")
		}
		space = spaces[0].GUID
	}
	taken, err := page.All[cfapi.Thing](call, "/v3/apps", url.Values{"space_guids": {space}})
	if err != nil {
		return out, err
	}
	names := map[string]bool{}
	for _, app := range taken {
		names[app.Name] = true
	}
	name := sampleName
	for n := 2; names[name]; n++ {
		name = fmt.Sprint(sampleName, "-", n)
	}
	err = call.Do(http.MethodPost, "/v3/ingot/spaces/"+url.PathEscape(space)+"/deploy",
		map[string]any{"name": name, "sample": true, "random_route": true}, &out)
	return out, err
}
