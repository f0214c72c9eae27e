package apps

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// manifestKind is the media type of manifests.
const manifestKind = "application/x-yaml"

// manifestData is the page of an app's manifest: its text, and when it was reviewed, what applying it would change.
type manifestData struct {
	Text             string
	Marks            []mark // problems with their positions
	Reviewed         bool
	Changes          []manifestChange
	After            string // what the last change needs: restart, restage or nothing
	Write, Apply     string // commands
	Restart, Restage string
}

// manifestChange is a difference between the app and its manifest, in words.
type manifestChange struct {
	What, Op, Was, Value string
	Needs                string // restart, restage or nothing
}

// apiChange is a difference as the API describes it.
type apiChange struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Was   any    `json:"was"`
	Value any    `json:"value"`
}

// outline is what the console itself reads in a manifest: the names in it.
type outline struct {
	Applications []struct {
		Name      string `yaml:"name"`
		Processes []struct {
			Type string `yaml:"type"`
		} `yaml:"processes"`
		Sidecars []struct {
			Name string `yaml:"name"`
		} `yaml:"sidecars"`
		Routes []struct {
			Route string `yaml:"route"`
		} `yaml:"routes"`
	} `yaml:"applications"`
}

// outlineOf returns the names in a manifest. The API says what is wrong with one that cannot be read.
func outlineOf(text string) (o outline) {
	_ = yaml.Unmarshal([]byte(text), &o)
	return o
}

// only returns an error if the manifest is about other apps than one: it would create them.
func (o *outline) only(name string) error {
	for _, one := range o.Applications {
		if one.Name != name {
			return fault.New(fault.Unprocessable, "This page changes the app %s only, and the manifest has an app named %.80q. "+
				"Rename an app on its page Settings, and use the client for several apps: ingot apply-manifest.", name, one.Name)
		}
	}
	if len(o.Applications) > 1 {
		return fault.New(fault.Unprocessable, "The manifest lists the app %s %d times.", name, len(o.Applications))
	}
	return nil
}

// manifest is GET /console/apps/GUID/manifest.
func (c *pages) manifest(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return ShowTab(c.Console, w, r, s, "manifest", func(r *http.Request, call *page.Caller, d *Data) (any, error) {
		if err := mayManifest(d); err != nil {
			return nil, err
		}
		text, err := call.Raw(nil, http.MethodGet, "/v3/apps/"+url.PathEscape(d.App.GUID)+"/manifest", nil)
		data := newManifestData(d, string(text))
		data.After = knownNeed(strings.TrimPrefix(r.URL.Query().Get("said"), manifestSaid))
		return data, err
	})
}

// mayManifest returns an error unless the user is a space developer: a manifest has the values of variables.
func mayManifest(d *Data) error {
	if !d.MayShell {
		return fault.New(fault.Forbidden, "Only space developers may see and change manifests.")
	}
	return nil
}

func newManifestData(d *Data, text string) *manifestData {
	return &manifestData{Text: text, Write: page.Command("cf", "create-app-manifest", d.App.Name),
		Apply: page.Command("cf", "apply-manifest", "-f", "manifest.yml"), Restart: d.Restart, Restage: d.Restage}
}

// typedManifest returns the field text of a form.
func typedManifest(r *http.Request) string {
	return strings.ReplaceAll(r.PostForm.Get("text"), "\r\n", "\n")
}

// diffManifest checks a manifest of an app and returns what applying it would change.
func diffManifest(call *page.Caller, d *Data, text string) ([]manifestChange, error) {
	o := outlineOf(text)
	if err := o.only(d.App.Name); err != nil {
		return nil, err
	}
	var answer struct {
		Diff []apiChange `json:"diff"`
	}
	if err := call.Upload("/v3/spaces/"+url.PathEscape(d.SpaceGUID)+"/manifest_diff", manifestKind,
		strings.NewReader(text), &answer); err != nil {
		return nil, err
	}
	changes := make([]manifestChange, len(answer.Diff))
	for i, one := range answer.Diff {
		changes[i] = o.change(one)
	}
	return changes, nil
}

// reviewManifest is POST /console/apps/GUID/manifest/review, with the field text: it changes nothing.
func (c *pages) reviewManifest(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, text := c.Platform(r, s), typedManifest(r)
	d, err := loadName(call, web.Param(r, "guid"))
	if err != nil {
		return err
	}
	changes, err := diffManifest(call, d, text)
	if err != nil {
		return c.manifestFailed(w, r, s, text, err)
	}
	return c.showManifest(w, r, s, http.StatusOK, "", func(data *manifestData) {
		data.Changes, data.Reviewed, data.Marks = changes, true, warningsOf(text)
	})
}

// applyManifest is POST /console/apps/GUID/manifest/apply, with the field text.
func (c *pages) applyManifest(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, guid, text := c.Platform(r, s), web.Param(r, "guid"), typedManifest(r)
	d, err := loadName(call, guid)
	if err != nil {
		return err
	}
	changes, err := diffManifest(call, d, text)
	if err != nil {
		return c.manifestFailed(w, r, s, text, err)
	}
	at, err := call.Order("/v3/spaces/"+url.PathEscape(d.SpaceGUID)+"/actions/apply_manifest", manifestKind, text)
	var done job
	if err == nil {
		err = call.Get(&done, at, nil)
	}
	if err == nil && done.Failed() {
		var why []string
		for _, one := range done.Errors {
			why = append(why, one.Detail)
		}
		err = fault.New(fault.Unprocessable, "%s", strings.Join(why, " "))
	}
	if err != nil {
		return c.manifestFailed(w, r, s, text, err)
	}
	needs := ""
	for _, one := range changes {
		if needs != needsRestage && one.Needs != "" {
			needs = one.Needs
		}
	}
	if !d.App.Started() && needs == needsRestart {
		needs = ""
	}
	if !done.Done() { // services are still being bound
		return followManifest(w, r, guid, &done, needs)
	}
	return backTo(w, r, guid, "manifest", manifestSaid+needs)
}

// manifestFailed shows the page again, with a problem, its position and what was typed.
func (c *pages) manifestFailed(w http.ResponseWriter, r *http.Request, s *page.Session, text string, err error) error {
	status, problem, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	return c.showManifest(w, r, s, status, "The manifest was not applied. See the problems below.",
		func(data *manifestData) { data.Marks = append(marksOf(text, problem), warningsOf(text)...) })
}

func (c *pages) showManifest(w http.ResponseWriter, r *http.Request, s *page.Session, status int, problem string,
	fill func(*manifestData)) error {
	load := func(r *http.Request, _ *page.Caller, d *Data) (any, error) {
		data := newManifestData(d, typedManifest(r))
		fill(data)
		return data, nil
	}
	return showTab(c.Console, w, r, s, "manifest", load, status, problem)
}

// What a change needs before instances have it, and how the results of applying begin.
const (
	needsRestart, needsRestage = "restart", "restage"
	manifestSaid               = "manifest-"
)

// atOnce are the keys that take effect at once, and built those that a build needs.
var (
	atOnce = []string{"instances", "metadata", "routes", "no-route", "random-route", "default-route"}
	built  = []string{"buildpack", "buildpacks", "stack", "lifecycle", "docker"}
)

// change returns a difference in words.
func (o *outline) change(one apiChange) manifestChange {
	words := strings.Split(strings.TrimPrefix(one.Path, "/applications/0/"), "/")
	for i := range words {
		words[i] = strings.ReplaceAll(strings.ReplaceAll(words[i], "~1", "/"), "~0", "~")
	}
	out := manifestChange{Op: map[string]string{"add": "set", "remove": "reset", "replace": "change"}[one.Op]}
	key := words[0]
	if len(words) > 2 && key == "processes" {
		key = words[2]
	}
	key = strings.ReplaceAll(key, "_", "-")
	switch {
	case slices.Contains(built, key):
		out.Needs = needsRestage
	case !slices.Contains(atOnce, key):
		out.Needs = needsRestart
	}
	secret := slices.ContainsFunc(words, isSecretKey)
	out.Was, out.Value = shownValue(one.Was, secret), shownValue(one.Value, secret)
	if len(words) > 1 {
		words[1] = o.name(words[0], words[1])
	}
	out.What = strings.Join(words, " › ")
	return out
}

// name returns the name of an entry of a list, or its index if it has none.
func (o *outline) name(list, index string) string {
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || len(o.Applications) == 0 {
		return index
	}
	app := &o.Applications[0]
	switch {
	case list == "processes" && i < len(app.Processes):
		return app.Processes[i].Type
	case list == "sidecars" && i < len(app.Sidecars):
		return app.Sidecars[i].Name
	case list == "routes" && i < len(app.Routes):
		return app.Routes[i].Route
	}
	return index
}

// isSecretKey reports whether values below a key may be secrets: those of variables and of service parameters.
func isSecretKey(key string) bool { return key == "env" || key == "parameters" }

// shownValue returns a value as the page shows it, without secrets.
func shownValue(v any, secret bool) string {
	if v == nil {
		return ""
	}
	if secret {
		return "(hidden)"
	}
	if text, ok := v.(string); ok {
		return text
	}
	text, err := json.Marshal(withoutSecrets(v))
	if err != nil { // never: it was JSON
		return ""
	}
	return string(text)
}

// withoutSecrets returns a copy of a value without the members that may be secrets.
func withoutSecrets(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutSecrets(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			if out[key] = withoutSecrets(value); isSecretKey(key) {
				out[key] = "(hidden)"
			}
		}
		return out
	}
	return v
}

// applyingData is a manifest whose services are still being bound: its settings are saved already.
type applyingData struct {
	job
	After            string // what the changes need when all is done: restart, restage or nothing
	Restart, Restage string // commands
	Command          string
}

// manifestAfter is what the template manifest-after shows: that the changes need a restart or a restage.
type manifestAfter struct {
	CSRF, App, After, Restart, Restage string
}

// applyingTab begins the name of the page of a manifest that is being applied; the guid of its job follows.
const applyingTab = "applying/"

// applying is GET /console/apps/GUID/applying/JOB: ?after= is what the changes need.
func (c *pages) applying(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid, of := web.Param(r, "guid"), web.Param(r, "job")
	data, err := loadTab(c.Console, r, s, guid, "manifest", loadApplying(of))
	if err != nil {
		return err
	}
	at := "apps/" + url.PathEscape(guid)
	p := page.Page{Title: "Manifest of " + data.App.Name, Section: "apps", Data: data,
		Crumbs: append(data.crumbs(), page.Crumb{Name: data.App.Name, Link: page.Path + "/" + at})}
	if more, ok := data.More.(*applyingData); ok && !more.Done() {
		p.Live = at + "/" + applyingTab + url.PathEscape(of) + "?" + afterQuery(more.After)
	}
	return c.Show(w, r, s, http.StatusOK, "applying.html", p)
}

// loadApplying returns the loader of the page of a job that applies a manifest.
func loadApplying(of string) tabLoader {
	return func(r *http.Request, call *page.Caller, d *Data) (any, error) {
		if err := mayManifest(d); err != nil {
			return nil, err
		}
		data := &applyingData{After: knownNeed(r.URL.Query().Get("after")), Restart: d.Restart, Restage: d.Restage,
			Command: page.Command("cf", "services")}
		if !d.App.Started() && data.After == needsRestart {
			data.After = ""
		}
		if err := call.Get(&data.job, "/v3/jobs/"+url.PathEscape(of), nil); err != nil && !page.Gone(err) {
			return nil, err
		}
		if d.SpaceGUID == "" || !strings.HasSuffix(data.Links.Space.Href, "/v3/spaces/"+d.SpaceGUID) {
			return nil, fault.New(fault.NotFound, "No such manifest is being applied to the app.")
		}
		return data, nil
	}
}

func afterQuery(after string) string { return url.Values{"after": {after}}.Encode() }

// knownNeed returns what a change needs, or nothing if it is not a word for that.
func knownNeed(word string) string {
	if word == needsRestart || word == needsRestage {
		return word
	}
	return ""
}

// followManifest shows the progress of a job that applies a manifest.
func followManifest(w http.ResponseWriter, r *http.Request, app string, j *job, after string) error {
	return backTo(w, r, app, applyingTab+url.PathEscape(j.GUID)+"?"+afterQuery(after), "")
}
