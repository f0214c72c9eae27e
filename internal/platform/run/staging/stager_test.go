package staging_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/storage/blob"
)

// simple is a buildpack that shows what it sees.
var simple = map[string]string{
	"bin/detect": "#!/bin/sh\nexit 0\n",
	"bin/finalize": "#!/bin/bash\necho \"----> sees $GREETING $GROUP $CF_STACK $MEMORY_LIMIT $VCAP_SERVICES " +
		"$VCAP_APPLICATION\"\n[ -f $2/count ] && echo found $(cat $2/count)\necho x >> $2/count\nprintf 'processes: " +
		"[{type: web, command: run}]' > $3/$4/launch.yml\n",
}

// withCatalog is a world whose only buildpacks are these.
func withCatalog(t *testing.T, packs map[string]map[string]string, change func(*staging.Config)) (*world, *catalog) {
	t.Helper()
	list := &catalog{}
	w := newWorld(t, func(c *staging.Config) {
		c.Catalog = list
		if change != nil {
			change(c)
		}
	})
	for name, files := range packs {
		*list = append(*list, w.installBuildpack(name, files))
	}
	return w, list
}

func TestEnvironmentAndCache(t *testing.T) {
	t.Parallel()
	w, _ := withCatalog(t, map[string]map[string]string{"simple": simple}, nil)
	req, log := w.request(map[string]string{"a": "b"})
	req.Env = map[string]string{"GROUP": "group", "GREETING": "no"}
	req.App.Env = map[string]string{"GREETING": "{{home}}", "CF_STACK": "no", "VCAP_SERVICES": "no", "A=B": "ignored"}
	req.VCAPServices = `{"x":[]}`
	req.MemoryMB = 300
	result := w.stage(req, log)
	if want := `----> sees {{home}} group cflinuxfs4 300m {"x":[]} {}`; !strings.Contains(log.String(), want) {
		t.Errorf("no %q in\n%s", want, log)
	}
	info, err := w.blobs.Stat(context.Background(), blob.Droplets, "droplet")
	if err != nil || info.SHA256 != result.Checksum || info.Size != result.Size || result.Size == 0 ||
		result.Stack != "cflinuxfs4" {
		t.Errorf("stored %+v, %v, result %+v", info, err, result)
	}
	var d platform.Droplet
	result.Apply(&d)
	if d.State != platform.DropletStaged || d.ProcessTypes["web"] != "run" || d.Checksum != result.Checksum {
		t.Errorf("droplet %+v", d)
	}

	req.BuildGUID = "second"
	w.stage(req, log)
	if !strings.Contains(log.String(), "found x") {
		t.Errorf("the cache was not kept:\n%s", log)
	}
	// A broken cache does no harm.
	if _, err := w.blobs.Put(context.Background(), blob.BuildCache, "app", strings.NewReader("junk"),
		blob.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	req.BuildGUID = "third"
	w.stage(req, log)
}

// Of two servers that store the droplet of one build, the first wins.
func TestDropletIsStoredOnce(t *testing.T) {
	t.Parallel()
	w, _ := withCatalog(t, map[string]map[string]string{"simple": simple}, nil)
	first, err := w.blobs.Put(context.Background(), blob.Droplets, "droplet", strings.NewReader("first"),
		blob.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if result := w.stage(w.request(map[string]string{"a": "b"})); result.Checksum != first.SHA256 ||
		result.Size != first.Size {
		t.Errorf("the droplet is %s of %d bytes, want the stored %s of %d", result.Checksum, result.Size,
			first.SHA256, first.Size)
	}
}

// A build has the variables of Diego's tasks, and none of the server.
func TestInstanceVariables(t *testing.T) {
	t.Parallel()
	w, _ := withCatalog(t, map[string]map[string]string{"curious": {
		"bin/detect": "#!/bin/sh\nexit 0\n",
		"bin/finalize": "#!/bin/bash\nenv | sed 's/^/sees /'\nprintf 'processes: [{type: web, command: run}]' > " +
			"$3/$4/launch.yml\n",
	}}, nil)
	req, log := w.request(map[string]string{"a": "b"})
	w.stage(req, log)
	for _, want := range []string{
		"sees CF_INSTANCE_IP=127.0.0.1\n", "sees CF_INSTANCE_INTERNAL_IP=127.0.0.1\n", "sees CF_INSTANCE_ADDR=\n",
		"sees CF_INSTANCE_PORT=\n", "sees CF_INSTANCE_PORTS=[]\n",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if strings.Contains(log.String(), "sees INGOT_") {
		t.Errorf("a variable of the server in\n%s", log)
	}
}

func TestHostilePackages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		zip  []byte
		want string
	}{
		"not a zip":      {[]byte("hello"), "it is no zip file"},
		"parent":         {makeZip(t, map[string]string{"../x": ""}), "leaves the directory"},
		"absolute":       {makeZip(t, map[string]string{"/etc/x": ""}), "absolute path"},
		"link outside":   {makeZip(t, map[string]string{"@a": "../../x"}), "leaves the directory"},
		"absolute link":  {makeZip(t, map[string]string{"@a": "/etc"}), "absolute path"},
		"through a link": {makeZip(t, map[string]string{"@a": ".", "a/b": ""}), "entry"},
		"bomb":           {makeZip(t, map[string]string{"a": strings.Repeat("\x00", 12<<20)}), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := withCatalog(t, map[string]map[string]string{"simple": simple}, nil)
			req, log := w.requestZip(test.zip)
			req.DiskMB = 10
			w.fails(req, log, "StagingError - The archive is not valid: ")
			_, err := w.Stage(context.Background(), req)
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	t.Run("no package", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		req, log := w.request(nil)
		req.PackageGUID = "other"
		w.fails(req, log, "The package is not stored here")
	})
}

func TestBuildpackChoice(t *testing.T) {
	t.Parallel()
	supply := map[string]string{"bin/supply": "#!/bin/sh\necho supplied by $4\n"}
	nested := map[string]string{"repo-main/bin/finalize": simple["bin/finalize"], "repo-main/README": ""}
	w, list := withCatalog(t, map[string]map[string]string{"simple": simple, "tools": supply, "nested": nested,
		"off": simple, "new": simple}, nil)
	for i, p := range *list {
		(*list)[i].Enabled = p.Name != "off"
		if p.Name == "new" {
			(*list)[i].State = platform.BuildpackAwaitingUpload
		}
	}
	req, log := w.request(map[string]string{"a": "b"})

	req.Lifecycle.Buildpacks = []string{"tools", "simple"}
	result := w.stage(req, log)
	if len(result.Buildpacks) != 2 || result.Buildpacks[0].Name != "tools" ||
		!strings.Contains(log.String(), "supplied by 0") {
		t.Errorf("result is %+v, want tools as first of 2 buildpacks and its supply in the log\n%s", result, log)
	}
	req.Lifecycle.Buildpacks = []string{"nested"}
	w.stage(req, log)
	for name, want := range map[string]string{
		"other": `There is no buildpack "other"`, "off": "is disabled", "new": "has no content yet",
		"ftp://a/b.zip": "has to begin with https://", "https://user:secret@127.0.0.1:1/b.zip": "does not fetch",
		"https://127.0.0.1:1/b": "does not fetch",
	} {
		req.Lifecycle.Buildpacks = []string{name}
		w.fails(req, log, want)
	}
	if strings.Contains(log.String(), "secret") {
		t.Error("a password is in the log")
	}
	*list = nil
	req.Lifecycle.Buildpacks = nil
	w.fails(req, log, "NoBuildpacksFound - ")
}

func TestCustomBuildpacks(t *testing.T) {
	t.Parallel()
	content := makeZip(t, simple)
	routes := map[string]http.HandlerFunc{
		"/simple.zip": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) },
		"/large.zip":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 3<<20)) },
	}
	if git, err := exec.LookPath("git"); err == nil {
		out, err := exec.Command(git, "--exec-path").Output()
		if err != nil {
			t.Fatal(err)
		}
		makeRepository(t, git, filepath.Join(t.TempDir(), "repo"), simple, func(root string) {
			backend := &cgi.Handler{
				Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Root: "/git",
				Stderr: io.Discard, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
			}
			routes["/git/"] = backend.ServeHTTP
		})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for path, h := range routes {
			if r.URL.Path == path || strings.HasSuffix(path, "/") && strings.HasPrefix(r.URL.Path, path) {
				h(w, r)
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	for name, test := range map[string]struct {
		path, want string
		git        bool
	}{
		"zip":        {"/simple.zip", "", false},
		"missing":    {"/other.zip", "could not be fetched: it answers 404 Not Found", false},
		"too large":  {"/large.zip", "it is larger than 2 MB", false},
		"git":        {"/git/repo.git", "", true},
		"git branch": {"/git/repo.git#v1", "", true},
		"git none":   {"/git/repo.git#v2", "could not be fetched: git says", true},
		"git where":  {"/git/other.git", "could not be fetched: git says", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.git && routes["/git/"] == nil {
				t.Skip("git is not installed")
			}
			w := newWorld(t, func(c *staging.Config) { c.PrivateFetch, c.MaxBuildpack = true, 2<<20 })
			address := strings.Replace(server.URL, "://", "://name:secret@", 1) + test.path
			req, log := w.request(map[string]string{"a": "b"}, address)
			if test.want != "" {
				w.fails(req, log, test.want)
			} else {
				result := w.stage(req, log)
				if got, want := result.Buildpacks[0].Name, server.URL+test.path; got != want {
					t.Errorf("name %q, want %q", got, want)
				}
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("a password is in the log:\n%s", log)
			}
		})
	}
}

func makeRepository(t *testing.T, git, dir string, files map[string]string, use func(root string)) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "x"}, {"branch", "v1"},
		{"clone", "-q", "--bare", ".", "../repo.git"},
	} {
		cmd := exec.Command(git, append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	use(filepath.Dir(dir))
}

// slow says so and waits for a file.
func slow(gate string) map[string]string {
	return map[string]string{
		"bin/detect": "#!/bin/sh\nexit 0\n",
		"bin/finalize": "#!/bin/sh\necho waiting\nuntil [ -e " + gate +
			" ]; do sleep 0.05; done\necho done waiting\nprintf 'processes: [{type: web, command: run}]' > $3/$4/launch.yml\n",
	}
}

type staged struct {
	result staging.Result
	err    error
}

func (w *world) background(ctx context.Context, req staging.Request) <-chan staged {
	ch := make(chan staged, 1)
	go func() {
		result, err := w.Stage(ctx, req)
		ch <- staged{result, err}
	}()
	return ch
}

func TestRestartAdopts(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	w, _ := withCatalog(t, map[string]map[string]string{"slow": slow(gate)}, nil)
	req, log := w.request(map[string]string{"a": "b"})
	var mu sync.Mutex
	var position engine.Position
	req.Seen = func(p engine.Position) { mu.Lock(); position = p; mu.Unlock() }
	first := w.background(context.Background(), req)
	<-log.until("waiting")
	if _, err := w.Stage(context.Background(), req); !fault.Is(err, fault.Conflict) {
		t.Errorf("the same build twice: %v", err)
	}
	w.restart()
	if s := <-first; !errors.Is(s.err, staging.ErrInterrupted) {
		t.Fatalf("interrupted: %v", s.err)
	}
	if list, err := w.engine.List(context.Background(), nil); err != nil || len(list) != 1 || !list[0].Running {
		t.Fatalf("it does not go on: %v, %v", list, err)
	}
	mu.Lock()
	req.After = position
	mu.Unlock()
	second := w.background(context.Background(), req)
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if s := <-second; s.err != nil || s.result.ProcessTypes["web"] != "run" {
		t.Fatalf("second staging is %+v, want the web command run\n%s", s, log)
	}
	if log.count("done waiting") != 1 || log.count("waiting") != 2 || log.count("Creating the staging instance") != 1 {
		t.Errorf("lines came twice, or not at all:\n%s", log)
	}
	w.nothingLeft()
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w, _ := withCatalog(t, map[string]map[string]string{"slow": slow("/nonexistent")}, nil)
	req, log := w.request(map[string]string{"a": "b"})
	first := w.background(context.Background(), req)
	<-log.until("waiting")
	if err := w.Cancel(context.Background(), "build"); err != nil {
		t.Fatal(err)
	}
	if s := <-first; s.err == nil || s.err.Error() != "StagingError - The build was cancelled" {
		t.Errorf("error is %v, want a cancelled build", s.err)
	}
	w.nothingLeft()

	// One that is no longer followed.
	ctx, cancel := context.WithCancel(context.Background())
	again, log2 := w.request(map[string]string{"a": "b"})
	second := w.background(ctx, again)
	<-log2.until("waiting")
	cancel()
	if s := <-second; !errors.Is(s.err, staging.ErrInterrupted) {
		t.Fatalf("error is %v, want %v", s.err, staging.ErrInterrupted)
	}
	for range 2 {
		if err := w.Cancel(context.Background(), "build"); err != nil {
			t.Fatal(err)
		}
	}
	w.nothingLeft()
}

func TestSweep(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	wanted := true
	w, _ := withCatalog(t, map[string]map[string]string{"slow": slow("/nonexistent")}, func(c *staging.Config) {
		c.Wanted = func(context.Context, string) (bool, error) { mu.Lock(); defer mu.Unlock(); return wanted, nil }
	})
	req, log := w.request(map[string]string{"a": "b"})
	ctx, cancel := context.WithCancel(context.Background())
	call := w.background(ctx, req)
	<-log.until("waiting")
	cancel()
	<-call
	for _, want := range []bool{true, false} {
		mu.Lock()
		wanted = want
		mu.Unlock()
		if err := w.Sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
		if list, err := w.engine.List(context.Background(), nil); err != nil || (len(list) == 1) != want {
			t.Errorf("wanted %v: %v, %v", want, list, err)
		}
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	w, _ := withCatalog(t, map[string]map[string]string{"slow": slow("/nonexistent")},
		func(c *staging.Config) { c.Timeout = time.Second })
	req, log := w.request(map[string]string{"a": "b"})
	w.fails(req, log, "StagingTimeExpired - Staging time expired: the build took longer than 1s")
}

// TestSilentBuild says that a build works that writes nothing.
func TestSilentBuild(t *testing.T) {
	t.Parallel()
	w, _ := withCatalog(t, map[string]map[string]string{"slow": slow("/nonexistent")},
		func(c *staging.Config) { c.Silence = time.Millisecond })
	req, log := w.request(map[string]string{"a": "b"})
	call := w.background(context.Background(), req)
	<-log.until("waiting")
	<-log.until("Still building (")
	if err := w.Cancel(context.Background(), "build"); err != nil {
		t.Fatal(err)
	}
	<-call
}

func TestKilled(t *testing.T) {
	t.Parallel()
	w, _ := withCatalog(t, map[string]map[string]string{"slow": slow("/nonexistent")}, nil)
	req, log := w.request(map[string]string{"a": "b"})
	call := w.background(context.Background(), req)
	<-log.until("waiting")
	if err := w.engine.Remove(context.Background(), "build"); err != nil {
		t.Fatal(err)
	}
	if s := <-call; s.err == nil || !strings.Contains(s.err.Error(), "was lost before the build ended") {
		t.Errorf("error is %v, want a lost build", s.err)
	}
}

func TestParallelBound(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	w, _ := withCatalog(t, map[string]map[string]string{"slow": slow(gate)}, func(c *staging.Config) { c.Parallel = 1 })
	one, log1 := w.request(map[string]string{"a": "b"})
	first := w.background(context.Background(), one)
	<-log1.until("waiting")
	two, log2 := w.request(map[string]string{"a": "b"})
	two.BuildGUID = "second"
	second := w.background(context.Background(), two)
	<-log2.until("Waiting for other builds to end")
	if list, err := w.engine.List(context.Background(), nil); err != nil || len(list) != 1 {
		t.Errorf("instances are %v, %v, want 1", list, err)
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join((<-first).err, (<-second).err); err != nil {
		t.Error(err)
	}
}

// Nothing is known about what an uploaded buildpack leaves to sidecars, whether the app names
// it, or it detects the app.
func TestUploadedBuildpackSidecars(t *testing.T) {
	t.Parallel()
	pack := map[string]string{"bin/detect": "#!/bin/sh\nexit 0\n",
		"bin/finalize": "#!/bin/sh\nprintf 'processes: [{type: web, command: run}]' > $3/$4/launch.yml\n"}
	for name, tc := range map[string]struct {
		installed string
		named     []string
		memory    int
		warns     bool
	}{
		"named":                {"mine", []string{"mine"}, 0, true},
		"detected":             {"mine", nil, 0, true},
		"with memory":          {"mine", nil, 64, false},
		"replaces bundled one": {"ruby_buildpack", []string{"ruby_buildpack"}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := withCatalog(t, map[string]map[string]string{tc.installed: pack}, nil)
			req, log := w.request(map[string]string{"a": "b"}, tc.named...)
			req.Sidecars = []platform.Sidecar{{Name: "config-server", ProcessTypes: []string{"web"}, MemoryMB: tc.memory}}
			w.stage(req, log)
			want := `WARNING: The sidecar "config-server" has no memory, which is required with a custom buildpack (` +
				tc.installed + `)`
			if n := log.count(want); n != map[bool]int{true: 1, false: 0}[tc.warns] {
				t.Errorf("%d times %q in\n%s", n, want, log)
			}
		})
	}
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{"run": "#!/bin/sh\n", "Procfile": "web: ./run\n"}, "binary_buildpack")
	req.Sidecars = []platform.Sidecar{{Name: "config-server", ProcessTypes: []string{"web"}}}
	w.stage(req, log)
	if log.count("has no memory") != 0 {
		t.Errorf("a warning about a bundled buildpack:\n%s", log)
	}
}

func TestLaunchSidecars(t *testing.T) {
	t.Parallel()
	pack := map[string]string{
		"bin/detect": "#!/bin/sh\nexit 0\n",
		"bin/finalize": "#!/bin/sh\nprintf 'processes: [{type: web, command: run}, {type: agent, command: go, platforms: " +
			"{cloudfoundry: {sidecar_for: [web]}}}]' > $3/$4/launch.yml\n",
	}
	w, list := withCatalog(t, map[string]map[string]string{"plain": pack}, nil)
	req, log := w.request(map[string]string{"a": "b"})
	if got := w.stage(req, log).Sidecars; len(got) != 1 || got[0].Name != "agent" ||
		!slices.Equal(got[0].ProcessTypes, []string{"web"}) {
		t.Errorf("sidecars are %+v, want agent for web", got)
	}
	pack["manifest.yml"] = "needs_sidecar_memory: true\n"
	*list = catalog{w.installBuildpack("hungry", pack)}
	w.fails(req, log, `The sidecar "agent" of web has no memory: apps of hungry take all the memory`)
}

// A buildpack can use the keys of a manifest for its sidecars, and staging fails with what is
// wrong with them.
func TestLaunchSidecarOptions(t *testing.T) {
	t.Parallel()
	pack := func(ingot string) map[string]string {
		return map[string]string{
			"bin/detect": "#!/bin/sh\nexit 0\n",
			"bin/supply": "#!/bin/sh\nprintf 'processes: [{type: web, command: run}, {type: agent, command: go, limits: " +
				"{memory: 16}, platforms: {cloudfoundry: {sidecar_for: [web]}, ingot: " + ingot + "}}]' > $3/$4/launch.yml\n",
			"bin/finalize": "#!/bin/sh\n",
		}
	}
	w, list := withCatalog(t, map[string]map[string]string{
		"plain": pack("{restart: always, run-in: tasks, ports: 9090, health-check-type: port, stop-signal: int}")}, nil)
	req, log := w.request(map[string]string{"a": "b"})
	got := w.stage(req, log).Sidecars
	if len(got) != 1 || got[0].MemoryMB != 16 || got[0].Options == nil {
		t.Fatalf("the sidecars are %+v, want agent with options", got)
	}
	if o := got[0].Options; o.Restart != "always" || !got[0].Sidecar().RunsInTasks() ||
		!slices.Equal(o.Ports, []int{9090}) || o.Health == nil || o.StopSignal != "SIGINT" {
		t.Errorf("the options are %+v", o)
	}
	for ingot, want := range map[string]string{
		"{restart: sometimes}":             `the sidecar "agent" of the buildpack, launch.yml: Restart must be one of never, on-failure, always`,
		"{restrat: always}":                `the sidecar "agent" of the buildpack, platforms.ingot in launch.yml: Unknown field(s): 'restrat'`,
		"{ports: many}":                    `Ports must be a list of numbers`,
		"{memory: 64M}":                    `Unknown field(s): 'memory'`,
		"{before: main, depends_on: main}": `Sidecars wait for each other to start: agent → main → agent`,
		"{ports: 8080}":                    `The sidecar "agent" declares port 8080, which is that of the main process`,
	} {
		*list = catalog{w.installBuildpack("bad", pack(ingot))}
		req, log := w.request(map[string]string{"a": "b"})
		w.fails(req, log, want)
	}
	// A sidecar of the user has precedence, and its keys too.
	*list = catalog{w.installBuildpack("bad", pack("{before: main, depends_on: main}"))}
	req, log = w.request(map[string]string{"a": "b"})
	req.Sidecars = []platform.Sidecar{{Name: "agent", Command: "mine", ProcessTypes: []string{"web"}}}
	w.stage(req, log)
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	w, _ := withCatalog(t, map[string]map[string]string{"simple": simple},
		func(c *staging.Config) { c.MaxDroplet, c.MaxCache = 300, 1 })
	req, log := w.request(map[string]string{"a": "b"})
	w.fails(req, log, "StagingError - ")
	w.config.MaxDroplet = 1 << 20
	w.restart()
	w.stage(req, log)
	if log.count("cache is larger than") != 1 {
		t.Errorf("log says %d times that the cache is too large, want once\n%s", log.count("cache is larger than"), log)
	}
}

func TestStartStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	backgroundtest.Stress(t, func(*testing.T) background.Service { return staging.New(w.config) })
	w.Stop()
	req, _ := w.request(nil)
	if _, err := w.Stage(context.Background(), req); !errors.Is(err, staging.ErrInterrupted) {
		t.Errorf("stopped: %v", err)
	}
	c := w.config
	c.Programs = t.TempDir()
	if err := staging.New(c).Start(context.Background()); err == nil || !strings.Contains(err.Error(), "ingot-builder") {
		t.Errorf("without programs: %v", err)
	}
}
