package staging_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/process"
	"ingot/internal/platform/instance/initproto"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/storage/blob"
)

var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ingot-staging-test-")
	if err == nil {
		binaries = dir
		err = testkit.Build(dir, "ingot/cmd/ingot-builder", "ingot/cmd/ingot-static", "ingot/cmd/ingot-init")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the programs cannot be built:", err)
		os.Exit(1)
	}
	status := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

// world is a Stager with a process engine.
type world struct {
	*staging.Stager
	t      *testing.T
	dir    string
	config staging.Config
	engine engine.Engine
	blobs  *blob.Files
}

func newWorld(t *testing.T, change func(*staging.Config)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	// Builds may run as another user, who has to get to the instance's home.
	err := os.Chmod(filepath.Dir(w.dir), 0o711)
	if err != nil {
		t.Fatal(err)
	}
	if w.blobs, err = blob.Open(filepath.Join(w.dir, "blobs")); err != nil {
		t.Fatal(err)
	}
	w.engine, err = process.New(process.Options{Root: filepath.Join(w.dir, "instances"),
		Init: filepath.Join(binaries, "ingot-init")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		list, err := w.engine.List(context.Background(), nil)
		for _, i := range list {
			err = errors.Join(err, w.engine.Remove(context.Background(), i.ID))
		}
		if err := errors.Join(err, w.engine.Close()); err != nil {
			t.Error(err)
		}
	})
	w.config = staging.Config{Engine: w.engine, Blobs: w.blobs, Programs: binaries, Scratch: t.TempDir(), Parallel: 4,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&w.config)
	}
	w.restart()
	return w
}

// restart is what a new server process does.
func (w *world) restart() {
	w.t.Helper()
	if w.Stager != nil {
		w.Stop()
	}
	w.Stager = staging.New(w.config)
	if err := w.Start(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.Stop)
}

// request uploads an app and returns the request to stage it.
func (w *world) request(app map[string]string, buildpacks ...string) (staging.Request, *lines) {
	w.t.Helper()
	return w.requestZip(makeZip(w.t, app), buildpacks...)
}

func (w *world) requestZip(content []byte, buildpacks ...string) (staging.Request, *lines) {
	w.t.Helper()
	if _, err := w.blobs.Put(context.Background(), blob.Packages, "package", bytes.NewReader(content),
		blob.PutOptions{}); err != nil {
		w.t.Fatal(err)
	}
	log := &lines{}
	return staging.Request{
		BuildGUID: "build", DropletGUID: "droplet", PackageGUID: "package",
		App:       staging.App{GUID: "app", Name: "name"},
		Lifecycle: platform.Lifecycle{Type: "buildpack", Buildpacks: buildpacks, Stack: "cflinuxfs4"},
		Log:       log.add,
	}, log
}

// stage stages, and expects it to work.
func (w *world) stage(req staging.Request, log *lines) staging.Result {
	w.t.Helper()
	result, err := w.Stage(context.Background(), req)
	if err != nil {
		w.t.Fatalf("staging: %v\n%s", err, log)
	}
	w.nothingLeft()
	return result
}

func (w *world) nothingLeft() {
	w.t.Helper()
	list, err := w.engine.List(context.Background(), nil)
	if err != nil || len(list) > 0 {
		w.t.Errorf("instances left: %v, %v", list, err)
	}
	left, _ := filepath.Glob(filepath.Join(w.config.Scratch, "*"))
	if len(left) > 0 {
		w.t.Errorf("left in scratch: %v", left)
	}
}

// installBuildpack uploads a buildpack and puts it into the catalog.
func (w *world) installBuildpack(name string, files map[string]string) platform.Buildpack {
	w.t.Helper()
	if _, err := w.blobs.Put(context.Background(), blob.Buildpacks, name, bytes.NewReader(makeZip(w.t, files)),
		blob.PutOptions{}); err != nil {
		w.t.Fatal(err)
	}
	return platform.Buildpack{Resource: platform.Resource{GUID: name}, Name: name, Enabled: true,
		State: platform.BuildpackReady}
}

// catalog is a fixed list of buildpacks.
type catalog []platform.Buildpack

func (c *catalog) Buildpacks(context.Context, string) ([]platform.Buildpack, error) { return *c, nil }

// makeZip zips files. A name with a leading '@' is a link, files in bin and those
// that begin with #! are programs.
func makeZip(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range files {
		h := &zip.FileHeader{Name: strings.TrimPrefix(name, "@"), Method: zip.Deflate}
		h.SetMode(0o644)
		if strings.HasPrefix(text, "#!") {
			h.SetMode(0o755)
		}
		if strings.HasPrefix(name, "@") {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// lines is a staging log.
type lines struct {
	mu   sync.Mutex
	all  []string
	wait map[string]chan struct{}
}

func (l *lines) add(_ string, _ bool, _ time.Time, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	for text, ch := range l.wait {
		if strings.Contains(string(line), text) {
			close(ch)
			delete(l.wait, text)
		}
	}
}

// until returns a channel that is closed when a line has the text in it.
func (l *lines) until(text string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wait == nil {
		l.wait = map[string]chan struct{}{}
	}
	ch := make(chan struct{})
	if slices.ContainsFunc(l.all, func(line string) bool { return strings.Contains(line, text) }) {
		close(ch)
	} else {
		l.wait[text] = ch
	}
	return ch
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

// launcher does what the platform does before an app starts.
const launcher = `cd "$HOME"; for f in ../profile.d/*; do [ -f "$f" ] && . "$f"; done; exec bash -c "$1"`

// launched is a droplet that runs.
type launched struct {
	t       *testing.T
	address string
}

// launch runs the web process of the droplet and waits until it listens.
func (w *world) launch(result staging.Result, env ...string) launched {
	w.t.Helper()
	command := result.ProcessTypes["web"]
	if command == "" {
		w.t.Fatal("there is no web process")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	w.t.Cleanup(cancel)
	err := w.engine.Start(ctx, engine.Spec{
		ID: "instance", Ports: []int{8080},
		Files: []engine.Archive{{Open: func() (io.ReadCloser, error) { return w.blobs.Open(ctx, blob.Droplets, "droplet") }}},
		Launch: initproto.Spec{
			Instance: "instance", LogRate: -1, Grace: time.Second,
			Members: []initproto.Member{{
				Name: "web", Source: "APP/PROC/WEB", Dir: "{{home}}/app", Args: []string{"bash", "-c", launcher,
					"launcher", command},
				Env: append([]string{
					"PATH=/usr/local/bin:/usr/bin:/bin", "HOME={{home}}/app", "DEPS_DIR={{home}}/deps", "TMPDIR={{home}}/tmp",
					"PORT={{port:8080}}", "MEMORY_LIMIT=512m",
				}, env...),
			}},
			Health: initproto.Check{Kind: initproto.CheckPort, Ports: []int{8080}, Startup: 4 * time.Minute,
				Invocation: time.Second, Interval: time.Second},
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	stream, err := w.engine.Records(ctx, "instance", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer stream.Close()
	var seen []string
	for {
		r, err := stream.Next()
		if err != nil {
			w.t.Fatalf("the app does not run: %v\n%s", err, strings.Join(seen, "\n"))
		}
		seen = append(seen, string(r.Payload))
		if r.Kind == initproto.Event && bytes.Contains(r.Payload, []byte(`"healthy"`)) {
			break
		}
	}
	i, err := w.engine.Get(ctx, "instance")
	if err != nil {
		w.t.Fatal(err)
	}
	return launched{w.t, "http://" + i.Ports[0].Address}
}

var client = &http.Client{Timeout: 2 * time.Minute}

// get expects a text in the answer.
func (l launched) get(path, want string) {
	l.t.Helper()
	res, err := client.Get(l.address + path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(body), want) {
		l.t.Errorf("GET %s: %s %q, %v; want %q", path, res.Status, body, err, want)
	}
}
