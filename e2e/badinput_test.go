package e2e

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
)

// TestPushRefused checks the errors for pushes that are invalid or not allowed.
func TestPushRefused(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		together(t,
			part{"bad input", func(t *testing.T) { badInput(t, s) }},
			part{"uploads", func(t *testing.T) { badUploads(t, s) }},
			part{"users", func(t *testing.T) { pushAs(t, s) }},
		)
	})
}

// badInput tests errors before and during staging.
func badInput(t *testing.T, s *site) {
	home := s.admin(t)
	contains(t, pushFails(t, home, pushProbe(t, "mystery", "-b", "nope")...), "For application 'mystery'",
		`"nope" must be an existing`)
	contains(t, pushFails(t, home, "push", "mystery", "-p", probe(t)), "NoAppDetectedError",
		"not successfully detected by any available buildpack")
	contains(t, cfOK(t, home, "logs", "mystery", "--recent"), "[STG/0]", "Tried: ", "go_buildpack", "Name one with -b")

	// The error has the end of the build's log, whether or not cf shows that.
	contains(t, pushFails(t, home, "push", "mystery", "-p", probe(t), "-b", "nodejs_buildpack"), "FAILED",
		"BuildpackCompileFailed - App staging failed in the buildpack finalize phase",
		"The last lines of the build:", "package.json")
	// There is no start command, unless the app has one.
	contains(t, pushFails(t, home, "push", "mystery", "-p", probe(t), "-b", "binary_buildpack"),
		"StagingError - Start command not specified", "cf push -c COMMAND")
	cfOK(t, home, pushProbe(t, "mystery")...)
	contains(t, cfOK(t, home, "curl", "/v3/apps/"+strings.TrimSpace(cfOK(t, home, "app", "mystery", "--guid"))+"/droplets/current"), `"detect_output":"binary `)

	// cf itself checks an archive before it uploads it.
	pushFails(t, home, "push", "mystery", "-p", write(t, "broken.zip", strings.Repeat("this is not an archive ", 200)),
		"-b", "binary_buildpack")

	for _, one := range []struct{ key, value, says string }{
		{"memory", "12", "Memory"},
		{"memory", "lots", "Memory"},
		{"disk_quota", "0M", "Disk quota"},
		{"health-check-type", "smell", "Health check type"},
		{"health-check-http-endpoint", "nowhere", "Health check http endpoint"},
		{"env", "[1, 2]", "Env"},
		{"env", "{PORT: 1}", "PORT"},
		{"env", "{VCAP_X: 1}", "VCAP_"},
		{"routes", "[{route: 'not a route'}]", "not a route"},
		{"routes", "[{route: host.example.org}]", "host.example.org"},
		{"sidecars", "[{name: helper}]", "sidecar"},
		{"processes", "[{instances: 1}]", "type"},
		{"buildpacks", "nope", "Buildpacks"},
		{"metadata", "{labels: {'-x-': y}}", "label"},
	} {
		file := write(t, "manifest.yml", fmt.Sprintf("applications:\n- name: wrong\n  %s: %s\n", one.key, one.value))
		out, code := cf(t, home, "apply-manifest", "-f", file)
		if code != 1 || !strings.Contains(out, "For application 'wrong'") || !strings.Contains(strings.ToLower(out),
			strings.ToLower(one.says)) {
			t.Errorf("%s: %s: exit code %d, want 1 and the words For application 'wrong' and %s\n%s", one.key, one.value, code,
				one.says, out)
		}
	}
	token := s.adminToken(t)
	space := s.list(t, token, "/v3/spaces?names=dev")[0]["guid"].(string)
	apply := func(text string) *reply {
		t.Helper()
		return s.send(t, "/v3/spaces/"+space+"/actions/apply_manifest", token, "application/x-yaml", strings.NewReader(text))
	}
	for text, says := range map[string]string{
		"":                                      "",
		"applications: []":                      "applications",
		"applications: [{}]":                    "name",
		"applications: [":                       "",
		"applications: {name: x}":               "applications",
		"version: 2\napplications: [{name: x}]": "version",
		"a: &a [*a]":                            "",
		"applications: [{name: x, instances: lots}]": "instances",
		"applications: [{name: x, timeout: 0}]":      "timeout",
	} {
		r := apply(text)
		if r.Status != http.StatusUnprocessableEntity && r.Status != http.StatusBadRequest ||
			!strings.Contains(strings.ToLower(string(r.Body)), says) {
			t.Errorf("the manifest %q: %s", text, r)
		}
	}
	if found := s.list(t, token, "/v3/apps?names=x"); len(found) > 0 {
		t.Errorf("a refused manifest leaves an app: %v", found)
	}
}

// send posts a raw body.
func (s *site) send(t testing.TB, path, token, kind string, body io.Reader) *reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.API+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &reply{res.StatusCode, res.Header, text}
}

// badUploads uploads packages that cf would never create.
func badUploads(t *testing.T, s *site) {
	home := s.admin(t)
	cfOK(t, home, "create-app", "parcel")
	app := guid(t, home, "parcel")
	token := s.adminToken(t)
	newPackage := func() string {
		t.Helper()
		r := s.call(t, http.MethodPost, "/v3/packages", token, map[string]any{
			"type": "bits", "relationships": map[string]any{"app": map[string]any{"data": map[string]string{"guid": app}}},
		}).want(t, http.StatusCreated)
		return r.object(t)["guid"].(string)
	}
	upload := func(bits []byte) (string, *reply) {
		t.Helper()
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		part, err := form.CreateFormFile("bits", "package.zip")
		if err == nil {
			_, err = part.Write(bits)
		}
		if err == nil {
			err = form.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		id := newPackage()
		return id, s.send(t, "/v3/packages/"+id+"/upload", token, form.FormDataContentType(), &body)
	}
	// refused uploads a package that is rejected, immediately or by processing.
	refused := func(what string, bits []byte, says ...string) {
		t.Helper()
		id, r := upload(bits)
		text := string(r.Body)
		if r.Status == http.StatusOK {
			testkit.Eventually(t, what+" fails", func() bool {
				r := s.call(t, http.MethodGet, "/v3/packages/"+id, token, nil)
				text = string(r.Body)
				return r.object(t)["state"] == "FAILED"
			})
		} else if r.Status < 400 || r.Status >= 500 {
			t.Errorf("%s: answer is %s, want a status of 4xx", what, r)
		}
		for _, word := range says {
			if !strings.Contains(text, word) {
				t.Errorf("%s: %q is not in %s", what, word, text)
			}
		}
		build := s.call(t, http.MethodPost, "/v3/builds", token, map[string]any{"package": map[string]string{"guid": id}})
		if build.Status != http.StatusBadRequest || !strings.Contains(string(build.Body), "not ready") {
			t.Errorf("%s: staging it answers %s", what, build)
		}
	}
	refused("no archive", bytes.Repeat([]byte("garbage"), 1000), "zip")
	whole := zipWith(t, entry{"file.txt", 0o644, strings.Repeat("text ", 1000)})
	refused("half an archive", whole[:len(whole)/2], "zip")
	damaged := bytes.Clone(whole)
	for i := 40; i < 60; i++ {
		damaged[i] ^= 0x55
	}
	refused("a damaged archive", damaged)
	refused("a way up", zipWith(t, entry{"../../escape.txt", 0o644, "x"}), "escape.txt")
	refused("a way from the root", zipWith(t, entry{"/etc/escape.txt", 0o644, "x"}), "escape.txt")
	refused("a link out", zipWith(t, entry{"link", os.ModeSymlink | 0o777, "../../../etc/passwd"}), "link")
	refused("a link to the root", zipWith(t, entry{"link", os.ModeSymlink | 0o777, "/etc/passwd"}), "link")
	refused("through a link", zipWith(t, entry{"dir", os.ModeSymlink | 0o777, ".."}, entry{"dir/escape.txt", 0o644, "x"}))
	refused("a device", zipWith(t, entry{"null", os.ModeDevice | os.ModeCharDevice | 0o666, ""}), "null")
	if _, r := upload(zipWith(t, entry{"dir/file.txt", 0o644, "x"}, entry{"link", os.ModeSymlink | 0o777,
		"dir/file.txt"})); r.Status != http.StatusOK {
		t.Errorf("a good archive: %s", r)
	}
	tooLarge(t, s, token, newPackage())

	// A package that does not exist, and an invalid body.
	s.send(t, "/v3/packages/nobody/upload", token, "multipart/form-data; boundary=x", strings.NewReader("--x--\r\n")).
		want(t, http.StatusNotFound)
	s.send(t, "/v3/packages/"+newPackage()+"/upload", token, "text/plain", strings.NewReader("x")).
		want(t, http.StatusBadRequest)
	s.send(t, "/v3/packages/"+newPackage()+"/upload", token, "multipart/form-data; boundary=x",
		io.LimitReader(zeroes{}, 1<<20)).want(t, http.StatusBadRequest)
}

type entry struct {
	name string
	mode os.FileMode
	text string
}

func zipWith(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(f, e.text)
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

// tooLarge announces a body over the limit, and is rejected before it is sent.
func tooLarge(t *testing.T, s *site, token, id string) {
	t.Helper()
	const announced = 3 << 30
	var sent counter
	body := io.TeeReader(io.LimitReader(zeroes{}, announced), &sent)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.API+"/v3/packages/"+id+"/upload", body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = announced
	req.Header.Set("Content-Type", "multipart/form-data; boundary=limit")
	req.Header.Set("Authorization", "Bearer "+token)
	// It waits for 100 Continue before it sends the body.
	req.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: patience}, Timeout: patience}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("after %d bytes: %v", sent, err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16)) // it may be cut off
	if res.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "larger than the") {
		t.Errorf("an upload of 3 GB answers %s %s", res.Status, text)
	}
	if sent > 0 {
		t.Errorf("%d bytes were sent before the refusal", sent)
	}
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// zeroes is an endless reader of zero bytes.
type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// pushAs pushes as users with different roles.
func pushAs(t *testing.T, s *site) {
	admin := s.admin(t)
	cfOK(t, admin, "create-space", "team", "-o", "demo")
	as := func(name string, roles ...string) string {
		t.Helper()
		cfOK(t, admin, "create-user", name, "secret of "+name)
		for _, role := range roles {
			cfOK(t, admin, "set-space-role", name, "demo", "team", role)
		}
		home := cfHome(t, s.Server)
		cfOK(t, home, "auth", name, "secret of "+name)
		return home
	}
	developer, auditor, stranger := as("dora", "SpaceDeveloper"), as("otto", "SpaceAuditor"), as("alien")
	for _, home := range []string{developer, auditor} {
		cfOK(t, home, "target", "-o", "demo", "-s", "team")
	}
	contains(t, columns(cfOK(t, developer, pushProbe(t, "ours")...)), "#0 running")
	s.reaches(t, "ours", "/", http.StatusOK)
	app := guid(t, developer, "ours")

	// An auditor can only read.
	contains(t, columns(cfOK(t, auditor, "app", "ours")), "#0 running")
	contains(t, cfOK(t, auditor, "events", "ours"), "audit.app.create", "dora")
	contains(t, cfOK(t, auditor, "logs", "ours", "--recent"), "[APP/PROC/WEB/0]")
	const denied = "You are not authorized to perform the requested action"
	for _, args := range [][]string{
		pushProbe(t, "theirs"), {"stop", "ours"}, {"restart", "ours"}, {"scale", "ours", "-i", "2"},
		{"set-env", "ours", "A", "b"}, {"env", "ours"},
		{"delete", "ours", "-f"}, {"rename", "ours", "theirs"}, {"restage", "ours"}, {"map-route", "ours", "apps.localhost",
			"--hostname", "theirs"},
		{"create-app-manifest", "ours", "-p", filepath.Join(t.TempDir(), "m.yml")},
	} {
		out, code := cf(t, auditor, args...)
		if code != 1 || !strings.Contains(out, denied) {
			t.Errorf("cf %s of an auditor: exit code %d, want 1\n%s", strings.Join(args, " "), code, out)
		}
	}

	// A user without roles gets 404, which does not reveal what exists.
	contains(t, cfOK(t, stranger, "orgs"), "No orgs found")
	cfFails(t, stranger, "Organization 'demo' not found", "target", "-o", "demo")
	token := oauthToken(t, stranger)
	for _, path := range []string{"/v3/apps/" + app, "/v3/apps/" + app + "/env", "/v3/apps/" + app +
		"/processes/web/stats", "/v3/processes/" + app, "/api/v1/read/" + app} {
		if r := s.call(t, http.MethodGet, path, token, nil); r.Status != http.StatusNotFound {
			t.Errorf("%s of a stranger: %s", path, r)
		}
	}
	for _, path := range []string{"/v3/apps", "/v3/spaces", "/v3/routes", "/v3/processes", "/v3/packages", "/v3/droplets",
		"/v3/builds", "/v3/audit_events"} {
		if found := s.list(t, token, path); len(found) > 0 {
			t.Errorf("%s of a stranger has %v", path, found)
		}
	}
	for _, action := range []string{"stop", "restart"} {
		s.call(t, http.MethodPost, "/v3/apps/"+app+"/actions/"+action, token, nil).want(t, http.StatusNotFound)
	}
	s.call(t, http.MethodDelete, "/v3/apps/"+app, token, nil).want(t, http.StatusNotFound)
	s.get(t, "ours", "/").want(t, http.StatusOK)
	s.running(t, app, 1)
}

// TestPushDiskFull runs a server with a disk that is too small.
func TestPushDiskFull(t *testing.T) {
	t.Parallel()
	dir := appsDir(t)
	if err := os.Mkdir(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("ingot-e2e", dir, "tmpfs", 0, "size=24m,mode=711"); err != nil {
		t.Skipf("no small disk can be made: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("the small disk stays: %v", err)
		}
	})
	s := startApps(t, options{Engine: "process", Dir: dir, Env: []string{"TMPDIR=" + dir}})
	s.mayFail = true
	home := s.admin(t)
	big := t.TempDir()
	noise := make([]byte, 40<<20)
	x := uint32(1)
	for i := range noise { // incompressible
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		noise[i] = byte(x)
	}
	if err := os.WriteFile(filepath.Join(big, "big"), noise, 0o600); err != nil {
		t.Fatal(err)
	}
	out := pushFails(t, home, "push", "big", "-p", big, "-b", "binary_buildpack", "-c", "true")
	contains(t, strings.ToLower(out), "disk", "full")
	// The server continues, and the space is free again.
	cfOK(t, home, "apps")
	cfOK(t, home, "delete", "big", "-f")
}
