package apps

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"ingot/internal/console/page"
	"ingot/internal/console/pagetest"
)

// formFile is a file of a form: its input, its name and its content.
type formFile struct{ field, path, content string }

// post sends a form, with files if there are some, and returns the answer.
func (w *world) post(path string, fields [][2]string, files ...formFile) (status int, location, text string) {
	w.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, f := range append([][2]string{{"csrf", pagetest.CSRF(w.Session)}}, fields...) {
		if err := form.WriteField(f[0], f[1]); err != nil {
			w.Fatal(err)
		}
	}
	for _, f := range files {
		header := textproto.MIMEHeader{"Content-Type": {"application/octet-stream"},
			"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename=%q`, f.field, f.path)}}
		part, err := form.CreatePart(header)
		if err == nil {
			_, err = io.WriteString(part, f.content)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	_ = form.Close()
	return w.sendForm(path, form.FormDataContentType(), &b)
}

// postFields sends a form without files.
func (w *world) postFields(path string, fields [][2]string) (status int, location, text string) {
	w.Helper()
	values := url.Values{"csrf": {pagetest.CSRF(w.Session)}}
	for _, f := range fields {
		values.Add(f[0], f[1])
	}
	return w.sendForm(path, "application/x-www-form-urlencoded", strings.NewReader(values.Encode()))
}

func (w *world) sendForm(path, kind string, body io.Reader) (status int, location, text string) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.Server.URL+path, body)
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Cookie", w.Cookie)
	req.Header.Set("Content-Type", kind)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Location"), string(raw)
}

// deployWorld is a platform with one space that deploys what it gets, or answers with an error.
type deployWorld struct {
	*world
	refuse       func(http.ResponseWriter) bool
	query        url.Values
	kind, body   string
	order        map[string]any
	newest, apps string
}

func newDeployWorld(t *testing.T) *deployWorld {
	t.Helper()
	w := &deployWorld{world: newWorld(t), apps: "[]"}
	w.API.HandleFunc("GET /v3/spaces", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"resources":[{"guid":"the-space","name":"dev","relationships":{"organization":{"data":{"guid":"o"}}}}],
			"included":{"organizations":[{"guid":"o","name":"demo"}]}}`)
	})
	w.API.HandleFunc("GET /v3/roles", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"resources":[{"type":"space_developer","relationships":{"space":{"data":{"guid":"the-space"}}}}]}`)
	})
	w.API.HandleFunc("GET /v3/apps", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, `{"resources":%s}`, w.apps)
	})
	w.API.HandleFunc("GET /v3/apps/the-app", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"guid":"the-app","name":"shop","relationships":{"space":{"data":{"guid":"the-space"}}},
			"included":{"spaces":[{"guid":"the-space","name":"dev"}],"organizations":[{"guid":"o","name":"demo"}]}}`)
	})
	w.API.HandleFunc("GET /api/v1/read/the-app", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"envelopes":{"batch":[]}}`)
	})
	deploy := func(rw http.ResponseWriter, r *http.Request) {
		w.query, w.kind, w.newest = r.URL.Query(), r.Header.Get("Content-Type"), r.URL.Path
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		w.body, w.order = string(raw), nil
		_ = json.Unmarshal(raw, &w.order) // not of a zip
		if w.refuse != nil && w.refuse(rw) {
			return
		}
		rw.WriteHeader(http.StatusAccepted)
		fmt.Fprint(rw, `{"app":{"guid":"the-app"},"build":{"guid":"b"},"job":{"guid":"the-job"}}`)
	}
	w.API.HandleFunc("POST /v3/ingot/spaces/{space}/deploy", deploy)
	w.API.HandleFunc("POST /v3/ingot/apps/{app}/deploy", deploy)
	return w
}

const followed = "/console/apps/the-app/deploying/the-job"

// TestDeployFromForms: each form deploys, and leads to the page of the deployment.
func TestDeployFromForms(t *testing.T) {
	t.Parallel()
	w := newDeployWorld(t)
	if status, text := w.Get("/console/apps/new?space=the-space"); status != 200 ||
		!strings.Contains(text, "Deploy a sample") || !strings.Contains(text, "demo / dev") {
		t.Fatalf("the page: %d %s", status, text)
	}
	fields := [][2]string{{"space", "the-space"}, {"name", "shop"}, {"memory", "64"}, {"instances", "2"},
		{"route", "random"}}
	check := func(what string, status int, to, path string) {
		t.Helper()
		if status != http.StatusSeeOther || to != followed || w.newest != path {
			t.Errorf("%s: %d, to %s, deployed with %s", what, status, to, w.newest)
		}
	}
	// A zip, after an input without a file as browsers send it.
	status, to, _ := w.post("/console/apps/new", fields, formFile{"folder", "", ""}, formFile{"zip", "a.zip", "PK-zip"})
	check("a zip", status, to, "/v3/ingot/spaces/the-space/deploy")
	if w.query.Encode() != "instances=2&memory_in_mb=64&name=shop&random_route=true" || w.body != "PK-zip" ||
		w.kind != "application/zip" {
		t.Errorf("a zip: %v, %s, %s", w.query, w.kind, w.body)
	}
	// A folder.
	status, to, _ = w.post("/console/apps/new", fields, formFile{"zip", "", ""},
		formFile{"folder", "my app/index.html", "x"}, formFile{"folder", "my app/lib/a b", "y"})
	check("a folder", status, to, "/v3/ingot/spaces/the-space/deploy")
	if names := namesIn(t, w.body); names != "index.html=x lib/a b=y" {
		t.Errorf("a folder: %s", names)
	}
	// A new version.
	status, to, _ = w.post("/console/apps/the-app/deploy", nil, formFile{"zip", "a.zip", "PK-zip"})
	check("a new version", status, to, "/v3/ingot/apps/the-app/deploy")

	// An image.
	status, to, _ = w.postFields("/console/apps/new/image", append(fields, [2]string{"image", "a/b:1"},
		[2]string{"username", "ann"}, [2]string{"password", "hunter2"}))
	check("an image", status, to, "/v3/ingot/spaces/the-space/deploy")
	if got := fmt.Sprint(w.order); got != "map[docker:map[image:a/b:1 password:hunter2 username:ann] instances:2 "+
		"memory_in_mb:64 name:shop random_route:true]" {
		t.Errorf("an image: %s", got)
	}
	status, to, _ = w.postFields("/console/apps/the-app/deploy/image", [][2]string{{"image", "a/b:1"}})
	check("a new image", status, to, "/v3/ingot/apps/the-app/deploy")

	// The sample, with a free name, in the first space if none is named.
	w.apps = `[{"name":"hello-ingot"},{"name":"hello-ingot-2"}]`
	status, to, _ = w.postFields("/console/apps/new/sample", nil)
	check("the sample", status, to, "/v3/ingot/spaces/the-space/deploy")
	if got := fmt.Sprint(w.order); got != "map[name:hello-ingot-3 random_route:true sample:true]" {
		t.Errorf("the sample: %s", got)
	}
	status, to, _ = w.postFields("/console/apps/the-app/restage", nil)
	check("restage", status, to, "/v3/ingot/apps/the-app/deploy")
	if got := fmt.Sprint(w.order); got != "map[restage:true]" {
		t.Errorf("restage: %s", got)
	}
}

// namesIn returns the files in a zip with their contents.
func namesIn(t *testing.T, content string) string {
	t.Helper()
	r, err := zip.NewReader(strings.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(in)
		all = append(all, f.Name+"="+string(text))
	}
	return strings.Join(all, " ")
}

// TestDeployFormErrors: an error is shown on the form, and what was typed stays.
func TestDeployFormErrors(t *testing.T) {
	t.Parallel()
	w := newDeployWorld(t)
	refuse := func(status int, detail string) func(http.ResponseWriter) bool {
		return func(rw http.ResponseWriter) bool {
			rw.WriteHeader(status)
			fmt.Fprintf(rw, `{"errors":[{"detail":%q}]}`, detail)
			return true
		}
	}
	zipped := formFile{"zip", "a.zip", "PK"}
	for name, c := range map[string]struct {
		fields [][2]string
		files  []formFile
		refuse func(http.ResponseWriter) bool
		status int
		want   string
	}{
		"no name":  {[][2]string{{"space", "the-space"}, {"memory", "77"}}, []formFile{zipped}, nil, 422, "Type a name"},
		"no space": {[][2]string{{"name", "shop"}, {"memory", "77"}}, []formFile{zipped}, nil, 422, "Choose a space"},
		"no file":  {[][2]string{{"space", "the-space"}, {"name", "shop"}, {"memory", "77"}}, nil, nil, 422, "Choose a zip"},
		"no number": {[][2]string{{"space", "the-space"}, {"name", "shop"}, {"memory", "77"}, {"instances", "many"}},
			[]formFile{zipped}, nil, 422, "Instances must be a number"},
		"a taken name": {nil, []formFile{zipped}, refuse(422, "The space has an app named shop already"), 422, "already"},
		"a bad zip":    {nil, []formFile{zipped}, refuse(422, "it is no zip file"), 422, "it is no zip file"},
		"path tricks": {nil, []formFile{{"folder", "a/../../x", "y"}}, refuse(422, "the entry leaves the folder"), 422,
			"leaves the folder"},
		"too large":  {nil, []formFile{zipped}, refuse(413, "larger than the limit"), 413, "larger than the limit"},
		"no role":    {nil, []formFile{zipped}, refuse(403, "You are not authorized"), 403, "You are not authorized"},
		"over quota": {nil, []formFile{zipped}, refuse(422, "quota exceeded"), 422, "quota exceeded"},
	} {
		w.refuse = c.refuse
		if c.fields == nil {
			c.fields = [][2]string{{"space", "the-space"}, {"name", "shop"}, {"memory", "77"}, {"route", "random"}}
		}
		status, _, text := w.post("/console/apps/new", c.fields, c.files...)
		if status != c.status || !strings.Contains(text, c.want) || !strings.Contains(text, `role="alert"`) ||
			!strings.Contains(text, `value="77"`) {
			t.Errorf("%s: %d, lacks %q or what was typed: %s", name, status, c.want, text)
		}
	}
	w.refuse = refuse(422, "no such image")
	status, _, text := w.postFields("/console/apps/new/image", [][2]string{{"space", "the-space"}, {"name", "shop"},
		{"image", "a/b:1"}, {"password", "hunter2"}})
	if status != 422 || !strings.Contains(text, "no such image") || !strings.Contains(text, `value="a/b:1"`) ||
		strings.Contains(text, "hunter2") {
		t.Errorf("an image: %d %s", status, text)
	}
	w.refuse = refuse(403, "You are not authorized")
	for _, path := range []string{"/console/apps/new/sample", "/console/apps/the-app/deploy/image"} {
		if status, _, text = w.postFields(path, [][2]string{{"space", "the-space"}, {"image", "a/b"}}); status != 403 ||
			!strings.Contains(text, "You are not authorized") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	w.refuse = refuse(404, "Space not found")
	foreign := [][2]string{{"space", "foreign"}, {"name", "x"}}
	if status, _, text = w.post("/console/apps/new", foreign, zipped); status != 404 {
		t.Errorf("a foreign space: %d %s", status, text)
	}
}

// TestDeployFromGit: the forms send a git repository, and a new secret is shown once.
func TestDeployFromGit(t *testing.T) {
	t.Parallel()
	w := newDeployWorld(t)
	refuse := func(status int, detail string) func(http.ResponseWriter) bool {
		return func(rw http.ResponseWriter) bool {
			rw.WriteHeader(status)
			fmt.Fprintf(rw, `{"errors":[{"detail":%q}]}`, detail)
			return true
		}
	}
	fields := [][2]string{{"space", "the-space"}, {"name", "shop"}, {"url", "https://git.example.com/a.git"},
		{"branch", "main"}, {"folder", "web"}, {"username", "bot"}, {"password", "hunter2"}}
	status, to, text := w.postFields("/console/apps/new/git", fields)
	if status != 303 || !strings.Contains(to, "/deploying/") {
		t.Errorf("a new app: %d %s %s", status, to, text)
	}
	if status, _, text = w.postFields("/console/apps/new/git", fields[:2]); status != 422 ||
		!strings.Contains(text, "Type the address of a git repository") {
		t.Errorf("without an address: %d %s", status, text)
	}
	w.API.HandleFunc("GET /v3/apps/the-app/routes", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"resources":[]}`)
	})
	w.refuse = refuse(422, "has no branch or tag main")
	if status, _, text = w.postFields("/console/apps/new/git", fields); status != 422 ||
		!strings.Contains(text, "has no branch or tag main") || !strings.Contains(text, `value="web"`) ||
		strings.Contains(text, "hunter2") {
		t.Errorf("refused: %d %s", status, text)
	}
	w.refuse = nil
	const source = `{"url":"https://git.example.com/a.git","branch":"main","has_password":true,"owner":"anna",
		"commit":"0123456789","subject":"<b>fix</b>","error":"no <host>",
		"webhook":{"url":"https://api/hook","enabled":true,"secret":%q}}`
	w.API.HandleFunc("GET /v3/ingot/apps/the-app/git-source", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, source, "")
	})
	w.API.HandleFunc("POST /v3/ingot/apps/the-app/git-source/secret", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, source, "s3cret")
	})
	status, _, text = w.postFields("/console/apps/the-app/settings/git/secret", nil)
	for _, want := range []string{"s3cret", "0123456</code> &lt;b&gt;fix", "no &lt;host&gt;", "https://api/hook"} {
		if status != 200 || !strings.Contains(text, want) {
			t.Errorf("a new secret: %d, lacks %s: %s", status, want, text)
		}
	}
	if status, text = w.Get("/console/apps/the-app/settings"); status != 200 || strings.Contains(text, "s3cret") {
		t.Errorf("the secret is shown twice: %d %s", status, text)
	}
	if status, text = w.Get("/console/apps/the-app/deploy"); status != 200 ||
		!strings.Contains(text, "Deploy the newest commit") {
		t.Errorf("the page to deploy: %d %s", status, text)
	}
}

// TestUploadForgery: a form with files needs the session's token first.
func TestUploadForgery(t *testing.T) {
	t.Parallel()
	w := newDeployWorld(t)
	for name, body := range map[string]string{
		"no token":      "--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nshop\r\n--x--\r\n",
		"a wrong token": "--x\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\nwrong\r\n--x--\r\n",
		"a token as a file": "--x\r\nContent-Disposition: form-data; name=\"zip\"; filename=\"csrf\"\r\n\r\n" +
			pagetest.CSRF(w.Session) + "\r\n--x--\r\n",
	} {
		if status, _, text := w.sendForm("/console/apps/new", "multipart/form-data; boundary=x",
			strings.NewReader(body)); status != 403 || w.newest != "" {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	for _, body := range []string{"", "garbage", "--x--\r\n"} {
		if status, _, _ := w.sendForm("/console/apps/new", "multipart/form-data; boundary=x",
			strings.NewReader(body)); status != 400 {
			t.Errorf("%q: %d", body, status)
		}
	}
	long := "--x\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n" + pagetest.CSRF(w.Session) +
		"\r\n--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n" + strings.Repeat("y", 2<<20) + "\r\n--x--\r\n"
	if status, _, _ := w.sendForm("/console/apps/new", "multipart/form-data; boundary=x",
		strings.NewReader(long)); status != 413 {
		t.Errorf("a long field: %d", status)
	}
}

// TestDeploying: the page of a deployment shows what it does, and why it failed.
func TestDeploying(t *testing.T) {
	t.Parallel()
	w := newDeployWorld(t)
	state, build, href := "PROCESSING", "STAGING", "http://api/v3/apps/the-app"
	w.API.HandleFunc("GET /v3/jobs/the-job", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, `{"guid":"the-job","state":%q,"created_at":"2026-01-01T00:00:00Z","errors":[{"detail":"no <start> command"}],
			"warnings":[{"detail":"mind the gap"}],"links":{"app":{"href":%q},"build":{"href":"http://api/v3/builds/b"}}}`, state, href)
	})
	// The app has a newer build, of another deployment.
	w.API.HandleFunc("GET /v3/builds", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"resources":[{"guid":"newer","state":"FAILED"}]}`)
	})
	w.API.HandleFunc("GET /v3/builds/b", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, `{"guid":"b","state":%q}`, build)
	})
	w.API.HandleFunc("GET /v3/apps/the-app/routes", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"resources":[{"guid":"r","url":"shop.example.com","protocol":"http"}]}`)
	})
	for _, c := range []struct {
		state, build string
		want, not    []string
	}{
		{"PROCESSING", "STAGING", []string{"is being built", "data-live", "mind the gap"}, []string{"failed"}},
		{"PROCESSING", "STAGED", []string{"are starting", "data-live"}, []string{"failed"}},
		{"COMPLETE", "STAGED", []string{"deployed and running", "shop.example.com"}, []string{"data-live"}},
		{"FAILED", "FAILED", []string{"no &lt;start&gt; command", "build failed", "Log of the build"}, []string{"data-live"}},
		{"FAILED", "STAGED", []string{"no &lt;start&gt; command", "Deploy again"}, []string{"build failed"}},
	} {
		state, build = c.state, c.build
		status, text := w.Get(followed)
		for _, want := range c.want {
			if status != 200 || !strings.Contains(text, want) {
				t.Errorf("%s, %s: %d, lacks %s: %s", c.state, c.build, status, want, text)
			}
		}
		for _, not := range c.not {
			if strings.Contains(text, not) {
				t.Errorf("%s, %s: has %s: %s", c.state, c.build, not, text)
			}
		}
	}
	href = "http://api/v3/apps/another"
	if status, _ := w.Get(followed); status != 404 {
		t.Errorf("the job of another app: %d", status)
	}
}

// TestEnvironmentText: variables as text, and the lines that are refused.
func TestEnvironmentText(t *testing.T) {
	t.Parallel()
	variables := []page.Variable{{Name: "A", Value: "b"}, {Name: "LINES", Value: "x\ny"}, {Name: "Q", Value: `"q"`},
		{Name: "EMPTY"}, {Name: "EQ", Value: "a=b"}, {Name: "BLANK", Value: " x "}}
	got, err := parseText(textOf(variables))
	if err != nil || fmt.Sprint(got) != fmt.Sprint(variables) {
		t.Errorf("there and back: %v, %v", got, err)
	}
	if got, err = parseText("# a comment\r\n\r\n A = b \r\n"); err != nil || fmt.Sprint(got) != "[{A b}]" {
		t.Errorf("spaces: %q, %v", got, err)
	}
	for text, want := range map[string]string{
		"A=b\nwrong": "Line 2 has no", "=b": "Line 1 has no name", "\n\nA B=c": "Line 3: the name",
		"A=1\nB=2\nA=3": "Line 3 sets A again, after line 1", `A="x`: "Line 1: a value that begins with a quote",
	} {
		if _, err := parseText(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	w := newDeployWorld(t)
	patched := ""
	w.API.HandleFunc("PATCH /v3/apps/the-app/environment_variables", func(rw http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		patched = strings.TrimSpace(string(raw))
		fmt.Fprint(rw, "{}")
	})
	w.API.HandleFunc("GET /v3/apps/the-app/env", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"environment_variables":{"OLD":"1"},"system_env_json":{}}`)
	})
	had := [][2]string{{"had", "OLD"}, {"had", "A"}}
	status, to, _ := w.postFields("/console/apps/the-app/environment/text", append(had, [2]string{"text", "A=b\r\nC=d"}))
	if status != http.StatusSeeOther || to != "/console/apps/the-app/environment?said=environment" ||
		patched != `{"var":{"A":"b","C":"d","OLD":null}}` {
		t.Errorf("saved: %d, %s, %s", status, to, patched)
	}
	patched = ""
	status, _, text := w.postFields("/console/apps/the-app/environment/text",
		append(had, [2]string{"text", "A=<b>\nwrong"}))
	if status != 422 || patched != "" || !strings.Contains(text, "Line 2 has no") ||
		!strings.Contains(text, "A=&lt;b&gt;") {
		t.Errorf("refused: %d, %s, %s", status, patched, text)
	}
}
