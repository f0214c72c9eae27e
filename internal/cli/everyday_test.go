package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pushed droplet is not staged: it is uploaded, set as current and started.
func TestPushDroplet(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.file(t, "shop.tgz", "\x1f\x8bthe droplet")
	if out, errs, code := w.run("push", "shop", "--no-manifest", "--droplet", "shop.tgz"); code != 0 {
		t.Fatalf("code %d\n%s%s", code, out, errs)
	}
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	if body := w.api.bodies["POST /v3/droplets/droplet-guid/upload"]; !strings.Contains(body, "\x1f\x8bthe droplet") ||
		!strings.Contains(body, `name="bits"`) {
		t.Errorf("uploaded %q", body)
	}
	if body := w.api.bodies["PATCH /v3/apps/app-guid/relationships/current_droplet"]; body != `{"data":{"guid":"droplet-guid"}}` {
		t.Errorf("the droplet was set by %s", body)
	}
	for _, call := range w.api.calls {
		if call == "POST /v3/packages" || call == "POST /v3/builds" {
			t.Errorf("%s: it was staged", call)
		}
	}
}

// Flags that cannot be combined with --droplet are refused before anything is
// changed.
func TestPushDropletRefused(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"with a path": {"--droplet", "shop.tgz", "-p", "."}, "with a buildpack": {"--droplet", "shop.tgz", "-b",
			"binary_buildpack"},
		"no such file": {"--droplet", "nothing.tgz"}, "not an archive": {"--droplet", "words.txt"},
		"empty": {"--droplet", "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := loggedIn(t)
			w.file(t, "shop.tgz", "\x1f\x8bdroplet")
			w.file(t, "words.txt", "words")
			w.file(t, "empty", "")
			out, errs, code := w.run(append([]string{"push", "shop", "--no-manifest"}, args...)...)
			w.api.mu.Lock()
			defer w.api.mu.Unlock()
			if code == 0 || len(w.api.calls) > 0 {
				t.Errorf("code %d, calls %v\n%s%s", code, w.api.calls, out, errs)
			}
		})
	}
}

// A download neither overwrites a file nor leaves a partial one behind.
func TestDownloadDropletKeepsFiles(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.file(t, "mine.tgz", "mine")
	if _, _, code := w.run("download-droplet", "shop", "--path", "mine.tgz"); code == 0 {
		t.Error("a file was overwritten")
	}
	if got, err := os.ReadFile(filepath.Join(w.dir, "mine.tgz")); err != nil || string(got) != "mine" {
		t.Errorf("the file is %q now (%v)", got, err)
	}
	if _, _, code := w.run("download-droplet", "shop", "--droplet", "nothing", "--path", "other.tgz"); code == 0 {
		t.Error("a droplet that is not there was downloaded")
	}
	if _, err := os.Stat(filepath.Join(w.dir, "other.tgz")); err == nil {
		t.Error("a failed download leaves a file")
	}
}

// A droplet's guid comes from the server: it cannot make the client write
// elsewhere.
func TestDownloadDropletStaysInTheFolder(t *testing.T) {
	t.Parallel()
	for guid, want := range map[string]string{
		"x/../../stolen": "droplet_stolen.tgz", "..": "droplet_...tgz", `..\..\x`: "droplet_.._.._x.tgz",
		"a\x1b[2Jb": "droplet_a__2Jb.tgz",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			w := loggedIn(t)
			w.api.droplet = guid
			out, errs, code := w.run("download-droplet", "shop")
			got, err := os.ReadFile(filepath.Join(w.dir, want))
			if code != 0 || err != nil || string(got) != "\x1f\x8bdroplet" {
				t.Errorf("code %d, %q (%v)\n%s%s", code, got, err, out, errs)
			}
		})
	}
}

// The password of a broker is sent to the API and never shown.
func TestBrokerPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	out, errs, _ := w.run("create-service-broker", "mine", "user", "hidden-word", "https://broker.test")
	if strings.Contains(out+errs, "hidden-word") || !w.api.body("POST /v3/service_brokers", "hidden-word") {
		t.Errorf("shown, or not sent:\n%s%s", out, errs)
	}
}

// Passwords are read from standard input; the new one must be entered twice.
func TestPasswd(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"old\nnew\nnew\n": `{"oldPassword":"old","password":"new"}`,
		"old\nnew\nother\n": ""} {
		w := loggedIn(t)
		w.in = in
		w.run("passwd")
		w.api.mu.Lock()
		if got := w.api.bodies["PUT /Users/user-guid/password"]; got != want {
			t.Errorf("%q sends %q", in, got)
		}
		w.api.mu.Unlock()
	}
}
