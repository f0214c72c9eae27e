package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Platform is a server with the login of a user who can push apps.
type Platform struct {
	*Server
	// Engine is the engine that --engine auto selected, and Why the reason.
	Engine, Why string

	// Memory is the memory of pushed apps (default: 64M).
	Memory string

	token      string // of the user admin
	org, space string
}

// StartPlatform starts a server with a demo org and space, and logs in.
func (r *Report) StartPlatform(ctx context.Context, args ...string) (*Platform, error) {
	return r.startPlatformIn(ctx, r.freshDir(), args...)
}

// startPlatformIn is like StartPlatform, in a data directory that may have been
// used before.
func (r *Report) startPlatformIn(ctx context.Context, dir string, args ...string) (*Platform, error) {
	s, err := r.startIn(ctx, dir, append([]string{"--demo", "--engine", "auto"}, args...)...)
	if err != nil {
		return nil, err
	}
	p := &Platform{Server: s}
	if err := p.enter(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return p, nil
}

func (p *Platform) enter(ctx context.Context) error {
	lines, err := p.logLines()
	if err != nil {
		return err
	}
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l.Message, "apps run in containers"):
			p.Engine, p.Why = "container", l.Why
		case strings.HasPrefix(l.Message, "apps run as plain processes"):
			p.Engine, p.Why = "process", l.Why
		}
	}
	if p.token, err = p.login(ctx, "admin", adminPassword); err != nil {
		return err
	}
	var spaces struct {
		Resources []struct {
			GUID          string
			Relationships struct {
				Organization struct{ Data struct{ GUID string } }
			}
		}
	}
	if err := p.Do(ctx, http.MethodGet, "/v3/spaces", nil, &spaces); err != nil {
		return err
	}
	if len(spaces.Resources) == 0 {
		return errors.New("the server has no demo space")
	}
	p.space, p.org = spaces.Resources[0].GUID, spaces.Resources[0].Relationships.Organization.Data.GUID
	return nil
}

func (p *Platform) login(ctx context.Context, user, password string) (string, error) {
	return p.Token(ctx, basic("cf", ""), url.Values{"grant_type": {"password"}, "username": {user},
		"password": {password}})
}

// noteEngine adds a note about the engine.
func (p *Platform) noteEngine(r *Report) {
	r.Note("apps ran on the engine that --engine auto selected: %s (%s).", p.Engine, p.Why)
}

// Do calls the API with JSON, as the user admin.
func (p *Platform) Do(ctx context.Context, method, path string, body, into any) error {
	_, err := p.send(ctx, method, path, "application/json", body, into)
	return err
}

// send is like Do with any content type; it also returns the header.
func (p *Platform) send(ctx context.Context, method, path, kind string, body, into any) (http.Header, error) {
	content, ok := body.([]byte)
	if !ok && body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	header := http.Header{"Authorization": {"bearer " + p.token}, "Content-Type": {kind}}
	answer, back, err := p.Send(ctx, method, path, header, content)
	if err != nil || into == nil {
		return back, err
	}
	return back, json.Unmarshal(answer, into)
}

// pollEvery is the polling interval.
const pollEvery = 10 * time.Millisecond

// poll calls done until it returns true.
func poll(ctx context.Context, every time.Duration, what string, done func() (bool, error)) error {
	return pollFor(ctx, patience, every, what, done)
}

// pollFor is poll with another timeout.
func pollFor(ctx context.Context, most, every time.Duration, what string, done func() (bool, error)) error {
	for began := time.Now(); time.Since(began) < most; {
		ok, err := done()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if ok {
			return nil
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
	return fmt.Errorf("timeout: %s not within %s", what, most)
}

// await waits for the job of a response.
func (p *Platform) await(ctx context.Context, header http.Header) error {
	at, err := url.Parse(header.Get("Location"))
	if err != nil {
		return err
	}
	return poll(ctx, pollEvery, "the job", func() (bool, error) {
		var job struct {
			State  string
			Errors json.RawMessage
		}
		if err := p.Do(ctx, http.MethodGet, at.Path, nil, &job); err != nil {
			return false, err
		}
		if job.State == "FAILED" {
			return false, fmt.Errorf("%s", job.Errors)
		}
		return job.State == "COMPLETE", nil
	})
}

// applyManifest applies a manifest.
func (p *Platform) applyManifest(ctx context.Context, yaml string) error {
	header, err := p.send(ctx, http.MethodPost, "/v3/spaces/"+p.space+"/actions/apply_manifest", "application/x-yaml",
		[]byte(yaml), nil)
	if err != nil {
		return err
	}
	return p.await(ctx, header)
}

// PushTimes are the durations of the parts of a push.
type PushTimes struct{ create, upload, stage, start, route, total time.Duration }

// App is a pushed app.
type App struct {
	GUID, Host string
	// Staged is when the build was created.
	Staged time.Time
	Times  PushTimes
}

// Push does the same as `cf push NAME -b binary_buildpack -c ./app`, without the
// command line and without extra waiting.
func (p *Platform) Push(ctx context.Context, name string, upload *upload) (*App, error) {
	app := &App{}
	began := time.Now()
	last := began
	lap := func() time.Duration {
		took := time.Since(last)
		last = last.Add(took)
		return took
	}
	if err := p.create(ctx, app, name); err != nil {
		return nil, err
	}
	app.Times.create = lap()

	var pkg struct{ GUID, State string }
	err := p.Do(ctx, http.MethodPost, "/v3/packages",
		map[string]any{"type": "bits", "relationships": relationship("app", app.GUID)}, &pkg)
	if err != nil {
		return app, err
	}
	if _, err := p.send(ctx, http.MethodPost, "/v3/packages/"+pkg.GUID+"/upload", upload.kind, upload.body,
		&pkg); err != nil {
		return app, err
	}
	err = poll(ctx, pollEvery, "the package", func() (bool, error) {
		if pkg.State == "READY" {
			return true, nil
		}
		return false, p.Do(ctx, http.MethodGet, "/v3/packages/"+pkg.GUID, nil, &pkg)
	})
	if err != nil {
		return app, err
	}
	app.Times.upload = lap()

	droplet, err := p.build(ctx, app, pkg.GUID)
	if err != nil {
		return app, err
	}
	app.Times.stage = lap()

	if err := p.run(ctx, app, droplet); err != nil {
		return app, err
	}
	app.Times.total = time.Since(began)
	return app, nil
}

// run starts an app on a droplet and waits until it responds.
func (p *Platform) run(ctx context.Context, app *App, droplet string) error {
	began := time.Now()
	err := p.Do(ctx, http.MethodPatch, "/v3/apps/"+app.GUID+"/relationships/current_droplet",
		relationship("x", droplet)["x"], nil)
	if err != nil {
		return err
	}
	if err := p.Do(ctx, http.MethodPost, "/v3/apps/"+app.GUID+"/actions/start", nil, nil); err != nil {
		return err
	}
	if err := p.awaitRunning(ctx, app); err != nil {
		return err
	}
	app.Times.start = time.Since(began)
	if err := p.awaitAnswer(ctx, app, ""); err != nil {
		return err
	}
	app.Times.route = time.Since(began) - app.Times.start
	return nil
}

func relationship(name, guid string) map[string]any {
	return map[string]any{name: map[string]any{"data": map[string]string{"guid": guid}}}
}

// create creates an app with a route and no files.
func (p *Platform) create(ctx context.Context, app *App, name string) error {
	err := p.applyManifest(ctx, "applications:\n- name: "+name+"\n  memory: "+cmp.Or(p.Memory, "64M")+
		"\n  disk_quota: 64M\n  command: ./app\n  buildpacks: [binary_buildpack]\n  default-route: true\n")
	if err != nil {
		return err
	}
	return p.find(ctx, app, name)
}

// find looks up an app and its route.
func (p *Platform) find(ctx context.Context, app *App, name string) error {
	var apps struct{ Resources []struct{ GUID string } }
	if err := p.Do(ctx, http.MethodGet, "/v3/apps?names="+name+"&space_guids="+p.space, nil, &apps); err != nil {
		return err
	}
	if len(apps.Resources) != 1 {
		return fmt.Errorf("there are %d apps %s", len(apps.Resources), name)
	}
	app.GUID = apps.Resources[0].GUID
	var routes struct{ Resources []struct{ URL string } }
	if err := p.Do(ctx, http.MethodGet, "/v3/apps/"+app.GUID+"/routes", nil, &routes); err != nil {
		return err
	}
	if len(routes.Resources) != 1 {
		return fmt.Errorf("app %s has %d routes", name, len(routes.Resources))
	}
	app.Host = routes.Resources[0].URL
	return nil
}

// build stages a package and returns the droplet.
func (p *Platform) build(ctx context.Context, app *App, pkg string) (string, error) {
	var build struct {
		GUID, State, Error string
		Droplet            struct{ GUID string }
	}
	app.Staged = time.Now()
	err := p.Do(ctx, http.MethodPost, "/v3/builds", map[string]any{"package": map[string]string{"guid": pkg}}, &build)
	if err != nil {
		return "", err
	}
	err = pollFor(ctx, 10*patience, pollEvery, "the build", func() (bool, error) {
		if err := p.Do(ctx, http.MethodGet, "/v3/builds/"+build.GUID, nil, &build); err != nil {
			return false, err
		}
		if build.State == "FAILED" {
			return false, errors.New(build.Error)
		}
		return build.State == "STAGED", nil
	})
	return build.Droplet.GUID, err
}

// instanceStat is one row of the stats of a process.
type instanceStat struct {
	Index int
	State string
	GUID  string `json:"instance_guid"`
}

func (p *Platform) stats(ctx context.Context, app *App) ([]instanceStat, error) {
	var stats struct{ Resources []instanceStat }
	err := p.Do(ctx, http.MethodGet, "/v3/apps/"+app.GUID+"/processes/web/stats", nil, &stats)
	return stats.Resources, err
}

// awaitRunning waits until all instances are running.
func (p *Platform) awaitRunning(ctx context.Context, app *App) error {
	return poll(ctx, pollEvery, "the instance", func() (bool, error) {
		all, err := p.stats(ctx, app)
		for _, one := range all {
			if one.State == "CRASHED" {
				return false, fmt.Errorf("it crashed\n%s", p.tail())
			}
			if one.State != "RUNNING" {
				return false, err
			}
		}
		return len(all) > 0, err
	})
}

// awaitAnswer sends requests to an app, or to one of its instances if given,
// until the response is 200.
func (p *Platform) awaitAnswer(ctx context.Context, app *App, instance string) error {
	w, err := dial(ctx, p.API)
	if err != nil {
		return err
	}
	defer w.conn.Close()
	var extra []string
	if instance != "" {
		extra = []string{"X-Cf-App-Instance: " + app.GUID + ":" + instance}
	}
	request := get(app.Host, "/", extra...)
	return poll(ctx, pollEvery/10, "the answer of the app", func() (bool, error) {
		status, err := w.do(request)
		return status == http.StatusOK, err
	})
}

// Remove deletes an app and waits until nothing of it runs, also after an
// interrupt: instances outlive their server by design.
func (p *Platform) Remove(ctx context.Context, app *App) error {
	if app == nil || app.GUID == "" {
		return nil
	}
	if err := p.remove(ctx, app.GUID); err != nil {
		return err
	}
	return p.awaitNone(context.WithoutCancel(ctx))
}

// remove deletes an app, also after an interrupt.
func (p *Platform) remove(ctx context.Context, guid string) error {
	ctx = context.WithoutCancel(ctx)
	header, err := p.send(ctx, http.MethodDelete, "/v3/apps/"+guid, "application/json", nil, nil)
	if err == nil {
		err = p.await(ctx, header)
	}
	return err
}

// awaitNone waits until no instance is left.
func (p *Platform) awaitNone(ctx context.Context) error {
	return poll(ctx, pollEvery, "the end of all instances", func() (bool, error) {
		for _, engine := range []string{"containers", "processes"} {
			if left, err := os.ReadDir(filepath.Join(p.Dir, engine, "instances")); err == nil && len(left) > 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// logLine has the relevant fields of a line of the server's log.
type logLine struct {
	Time     time.Time
	Message  string `json:"msg"`
	Why      string
	Instance string
	// The steps of starting an instance.
	Files, Create, Network, Release time.Duration
}

func (s *Server) logLines() ([]logLine, error) {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return nil, err
	}
	var lines []logLine
	for line := range bytes.Lines(text) {
		var l logLine
		// Ignore lines with other types in these fields.
		if json.Unmarshal(line, &l) == nil {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// appLines returns the lines of an app's log with their times.
func (p *Platform) appLines(ctx context.Context, app *App) ([]string, error) {
	var answer struct {
		Envelopes struct {
			Batch []struct {
				Timestamp int64 `json:",string"`
				Tags      map[string]string
				Log       struct{ Payload []byte }
			}
		}
	}
	if err := p.Do(ctx, http.MethodGet, "/api/v1/read/"+app.GUID+"?envelope_types=LOG&limit=1000", nil,
		&answer); err != nil {
		return nil, err
	}
	var lines []string
	for _, e := range answer.Envelopes.Batch {
		after := time.Unix(0, e.Timestamp).Sub(app.Staged)
		lines = append(lines, fmt.Sprintf("+%.0f ms [%s] %.50s", millis(after), e.Tags["source_type"],
			bytes.TrimSpace(e.Log.Payload)))
	}
	return lines, nil
}

// hotSpots takes a processor profile of the server while during runs, and notes
// where the time goes.
func (r *Report) hotSpots(ctx context.Context, s *Server, name string, seconds int, during func() error) error {
	dir := r.ProfileDir
	if dir == "" {
		dir = r.Scratch
	}
	file := filepath.Join(dir, name+".pprof")
	if err := s.Profile(ctx, seconds, file, during); err != nil {
		return err
	}
	if r.ProfileDir != "" {
		r.Note("profile of a round that is not counted: %s", file)
	}
	out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-cum", "-nodecount=120", file).Output()
	if err != nil {
		return fmt.Errorf("go tool pprof: %w", err)
	}
	r.Note("where the server's processor time goes (pprof -top -cum): %s", topOf(string(out)))
	return nil
}

// topOf returns the relevant part of pprof's output: the processor usage, and
// functions with at least a twentieth of it. It omits functions that every
// request calls, and type arguments.
func topOf(text string) string {
	var parts []string
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "Duration:") {
			parts = append(parts, line)
			continue
		}
		f := strings.Fields(typeArguments.ReplaceAllString(line, ""))
		if len(f) < 6 || len(parts) > 14 {
			continue
		}
		share, err := strconv.ParseFloat(strings.TrimSuffix(f[4], "%"), 64)
		if err != nil || share < 5 || seen[f[5]] || passedByAll.MatchString(f[5]) {
			continue
		}
		seen[f[5]] = true
		parts = append(parts, fmt.Sprintf("%.0f %% %s", share, f[5]))
	}
	return strings.Join(parts, "; ")
}

var (
	typeArguments = regexp.MustCompile(`\[.*\]`)
	passedByAll   = regexp.MustCompile(
		`^(runtime\.(mcall|park_m|schedule|findRunnable|systemstack|goexit|main)|net/http\.|io\.|ingot/internal/(base/web|system)\.|github\.com/go-chi/)`)
)

// demoApp builds the program that is pushed: static and stripped.
func (r *Report) demoApp(ctx context.Context) (string, error) {
	path := filepath.Join(r.Scratch, "app")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, goBuild(ctx, moduleDir(), "-s -w", path, "./testdata/app")
}

// upload is a prepared body of a package upload.
type upload struct {
	kind string
	body []byte
}

// newUpload packs the app as cf does. The mark is appended to the program, which
// does not affect it, so that the server has not seen the file before.
func newUpload(program, mark string) (*upload, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	h := &zip.FileHeader{Name: "app", Method: zip.Deflate}
	h.SetMode(0o755)
	w, err := z.CreateHeader(h)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(append(content, mark...)); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if err := form.WriteField("resources", "[]"); err != nil {
		return nil, err
	}
	part, err := form.CreateFormFile("bits", "package.zip")
	if err != nil {
		return nil, err
	}
	if _, err := part.Write(packed.Bytes()); err != nil {
		return nil, err
	}
	if err := form.Close(); err != nil {
		return nil, err
	}
	return &upload{form.FormDataContentType(), body.Bytes()}, nil
}
