package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// Failures of one app that once crashed the whole server.

// TestStartsThatFail tests a droplet that does not fit on the disk, an app that
// is stopped while it starts, and a truncated droplet file.
func TestStartsThatFail(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		home := s.admin(t)
		cfOK(t, home, pushProbe(t, "neighbour")...)
		if s.options.Engine == "container" {
			out := pushFails(t, home, pushProbe(t, "large", "-k", "1M")...)
			contains(t, out, "Start unsuccessful")
			showsCrash(t, home, "large", "#0 crashed")
			contains(t, cfOK(t, home, "logs", "large", "--recent"), "need more than its disk limit")
		}
		s.stays(t)

		cfOK(t, home, pushProbe(t, "brief", "-i", "2")...)
		cfOK(t, home, "stop", "brief")
		app, token := guid(t, home, "brief"), s.adminToken(t)
		for range times(5, 40) {
			for _, action := range []string{"start", "stop", "start", "restart", "stop"} {
				s.call(t, http.MethodPost, "/v3/apps/"+app+"/actions/"+action, token, nil).want(t, http.StatusOK)
			}
		}
		s.stays(t)

		cfOK(t, home, "start", "brief")
		cfOK(t, home, "stop", "brief")
		s.damage(t, app)
		if _, code := cf(t, home, "start", "brief"); code == 0 && s.options.Engine == "process" {
			t.Error("an app starts whose droplet is cut off")
		}
		s.stays(t)
		s.reaches(t, "neighbour", "/", http.StatusOK)

		// A server stops properly while apps start.
		cfOK(t, home, pushProbe(t, "late", "-i", "3")...)
		cfOK(t, home, "stop", "late")
		s.call(t, http.MethodPost, "/v3/apps/"+guid(t, home, "late")+"/actions/start", token, nil).want(t, http.StatusOK)
		s.Stop(t)
		s.Restart(t)
		s.running(t, guid(t, home, "late"), 3)
		s.stays(t)
	})
}

// stays checks that the server responds, is still the same process, and has
// recovered no panic.
func (s *site) stays(t testing.TB) {
	t.Helper()
	if s.ended() {
		t.Fatal("the server has ended")
	}
	s.call(t, http.MethodGet, "/readyz", "", nil).want(t, http.StatusOK)
	metrics := s.call(t, http.MethodGet, s.Admin+"/metrics", "", nil).want(t, http.StatusOK)
	for _, line := range strings.Split(string(metrics.Body), "\n") {
		if strings.HasPrefix(line, "ingot_panics_total") {
			t.Errorf("the server has recovered a panic: %s", line)
		}
	}
}

// damage truncates the file of an app's droplet and deletes its unpacked copies.
func (s *site) damage(t testing.TB, app string) {
	t.Helper()
	token := s.adminToken(t)
	droplet := s.call(t, http.MethodGet, "/v3/apps/"+app+"/droplets/current", token, nil).want(t, http.StatusOK).
		object(t)["guid"].(string)
	found := 0
	err := filepath.WalkDir(filepath.Join(s.Dir, "blobs"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, droplet) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		found++
		return os.Truncate(path, info.Size()/2)
	})
	if err != nil || found == 0 {
		t.Fatalf("%d files of droplet %s: %v", found, droplet, err)
	}
}

// slowBuildpack compiles until its app has a file "fast".
func slowBuildpack(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "slow.zip")
	script := func(text string) string { return "#!/bin/sh\n" + text + "\n" }
	content := zipWith(t,
		entry{"bin/detect", 0o755, script("echo slow")},
		entry{"bin/compile", 0o755, script(`echo "slow compiling begins"
[ -e "$1/fast" ] || sleep 300
echo "slow compiling ends"`)},
		entry{"bin/release", 0o755, script("echo 'default_process_types: {web: ./probe}'")},
	)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPushAfterKill kills the server during a build. The same push works at once
// with the next server.
func TestPushAfterKill(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		home := s.admin(t)
		cfOK(t, home, "create-buildpack", "slow_buildpack", slowBuildpack(t), "90")
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(probe(t))); err != nil {
			t.Fatal(err)
		}
		push := []string{"push", "again", "-p", dir, "-b", "slow_buildpack", "-m", "64M", "-k", "128M"}
		pushed := make(chan string, 1)
		go func() {
			out, _, err := cfTry(t, home, push...)
			if err != nil {
				out += err.Error()
			}
			pushed <- out
		}()
		var app string
		testkit.Eventually(t, "the build begins", func() bool {
			for _, b := range s.list(t, s.adminToken(t), "/v3/builds?states=STAGING") {
				app = b["relationships"].(map[string]any)["app"].(map[string]any)["data"].(map[string]any)["guid"].(string)
				return true
			}
			return false
		})
		s.logged(t, app, "STG", "slow compiling begins")
		s.Kill9(t)
		out := <-pushed
		s.Restart(t)
		old := s.list(t, s.adminToken(t), "/v3/apps/"+app+"/builds")
		if len(old) != 1 {
			t.Fatalf("%d builds after the kill; the push said:\n%s", len(old), out)
		}
		if err := os.WriteFile(filepath.Join(dir, "fast"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		cfOK(t, home, push...)
		t.Logf("the second push took %s", time.Since(began).Round(time.Millisecond))
		s.reaches(t, "again", "/", http.StatusOK)
		build := s.call(t, http.MethodGet, "/v3/builds/"+old[0]["guid"].(string), s.adminToken(t), nil).want(t, http.StatusOK)
		contains(t, string(build.Body), `"state":"FAILED"`, "a newer build of the app has replaced it")
		// Its instance is stopped long before it would have exited by itself.
		testkit.Eventually(t, "the instance of the old build is gone", func() bool {
			for _, folder := range []string{"containers/instances", "processes"} {
				if _, err := os.Stat(filepath.Join(s.Dir, folder, old[0]["guid"].(string))); err == nil {
					return false
				}
			}
			return true
		})
		s.stays(t)
	})
}

// TestPushDroplet pushes droplets: a downloaded one, one in the format of Cloud
// Foundry, and invalid ones.
func TestPushDroplet(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		home := s.admin(t)
		// Without its own command, the droplet's is used.
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(probe(t))); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "Procfile"), []byte("web: ./probe\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfOK(t, home, "push", "origin", "-p", dir, "-b", "binary_buildpack", "-m", "64M", "-k", "64M")
		file := filepath.Join(home, "origin.tgz")
		cfOK(t, home, "download-droplet", "origin", "--path", file)
		cfOK(t, home, "push", "copied", "--droplet", file, "-m", "64M", "-k", "64M")
		s.reaches(t, "copied", "/", http.StatusOK)

		program, err := os.ReadFile(filepath.Join(probe(t), "probe"))
		if err != nil {
			t.Fatal(err)
		}
		folder := func(name string) tarEntry { return tarEntry{Header: tar.Header{Name: name, Typeflag: tar.TypeDir}} }
		theirs := dropletWith(t,
			folder("./"), folder("./app/"), tarEntry{tar.Header{Name: "./app/probe"}, program}, folder("./deps/"),
			folder("./profile.d/"), folder("./tmp/"), folder("./logs/"),
			tarEntry{tar.Header{Name: "./staging_info.yml", Mode: 0o644},
				[]byte(`{"detected_buildpack":"binary","start_command":"./probe"}`)},
		)
		cfOK(t, home, "push", "theirs", "--droplet", theirs, "-m", "64M", "-k", "64M")
		s.reaches(t, "theirs", "/", http.StatusOK)

		bad := map[string]string{
			"below": dropletWith(t,
				folder("./app/"), tarEntry{Header: tar.Header{Name: "./app/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}},
				tarEntry{tar.Header{Name: "./app/l/passwd"}, []byte("x")},
				tarEntry{tar.Header{Name: "./staging_info.yml"}, []byte(`{"start_command":"./probe"}`)}),
			"noapp": dropletWith(t, tarEntry{tar.Header{Name: "./staging_info.yml"}, []byte(`{"start_command":"./probe"}`)}),
			"text":  write(t, "droplet.tgz", "this is no archive"),
		}
		whole, err := os.ReadFile(theirs)
		if err != nil {
			t.Fatal(err)
		}
		bad["cut"] = write(t, "droplet.tgz", string(whole[:len(whole)/2]))
		for name, file := range bad {
			out := pushFails(t, home, "push", "bad-"+name, "--droplet", file, "-m", "64M", "-k", "64M")
			t.Logf("%s: %s", name, out[max(0, len(out)-200):])
			app := guid(t, home, "bad-"+name)
			body := s.call(t, http.MethodGet, "/v3/apps/"+app+"/droplets", s.adminToken(t), nil).want(t, http.StatusOK)
			contains(t, string(body.Body), `"state":"FAILED"`)
		}
		s.stays(t)
	})
}

// tarEntry is an entry of a droplet, with its content.
type tarEntry struct {
	tar.Header
	text []byte
}

// dropletWith packs a droplet into a file.
func dropletWith(t testing.TB, entries ...tarEntry) string {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for _, e := range entries {
		e.Size = int64(len(e.text))
		if e.Mode == 0 {
			e.Mode = 0o755
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return write(t, "droplet.tgz", packed.String())
}
