package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// programsDir returns the directory of programs of this machine: those of
// INGOT_TEST_PROGRAMS, which saves the time of building them.
func programsDir(t *testing.T) string {
	t.Helper()
	dir, err := builtOnce()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var builtOnce = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("INGOT_TEST_PROGRAMS"); dir != "" {
		return dir, nil
	}
	work, err := testDir()
	if err != nil {
		return "", err
	}
	o := options{version: "0.0.0-test", source: "..", work: work}
	return o.programsFor(context.Background(), target{"linux", runtime.GOARCH})
})

// testDir returns a directory for what several tests use.
var testDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ingot-release-test-")
	atExit = func() { os.RemoveAll(dir) }
	return dir, err
})

var atExit = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	atExit()
	os.Exit(code)
}

const testVersion = "1.2.3"

// written runs f, which writes files to a directory, and returns them.
func written(t *testing.T, f func(dir string) error) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	if err := f(dir); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// released returns a file of a release of this tree.
func released(t *testing.T, pattern string) []byte {
	t.Helper()
	releasedOnce.Do(func() {
		releasedFiles = written(t, func(out string) error {
			return run(t.Context(), []string{"--version", testVersion, "--epoch", "1700000000", "--programs", programsDir(t),
				"--arch", runtime.GOARCH, "--clients", "none", "--signing-key", testKey(t), "--out", out}, io.Discard)
		})
	})
	for name, data := range releasedFiles {
		if ok, _ := path.Match(pattern, name); ok {
			return data
		}
	}
	t.Fatalf("no %s was written", pattern)
	return nil
}

var (
	releasedOnce  sync.Once
	releasedFiles map[string][]byte
)

// A release has the same bytes when its files have other times and modes and are in
// another directory. To be quick, all its programs are the smallest one; `make
// release-check` builds everything twice.
func TestReproducible(t *testing.T) {
	t.Parallel()
	docs, err := generated(t.Context(), programsDir(t))
	if err != nil {
		t.Fatal(err)
	}
	small := filepath.Join(programsDir(t), "ingot-sftp")
	var releases [2]map[string][]byte
	for i, below := range []string{"first", "another/directory"} {
		source := filepath.Join(t.TempDir(), below)
		for _, name := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "NOTICE", "SCOPE.md",
			"SECURITY.md", "docs", "packaging", "go.mod", "go.sum"} {
			copyTree(t, filepath.Join("..", name), filepath.Join(source, name), i)
		}
		for _, program := range programs {
			copyTree(t, small, filepath.Join(source, "built", program), i)
		}
		releases[i] = written(t, func(out string) error {
			o := options{version: testVersion, epoch: time.Unix(1700000000, 0), source: source,
				programs: filepath.Join(source, "built"), out: out, only: outputs}
			return o.release(t.Context(), target{"linux", runtime.GOARCH}, docs, io.Discard)
		})
	}
	if len(releases[0]) != len(outputs) || len(releases[1]) != len(outputs) {
		t.Errorf("%d and %d files, want %d", len(releases[0]), len(releases[1]), len(outputs))
	}
	for name, want := range releases[0] {
		if got := releases[1][name]; !bytes.Equal(got, want) {
			t.Errorf("%s differs: %d and %d bytes", name, len(got), len(want))
		}
	}
}

// copyTree copies files. Their times differ each time, and their modes by variant.
func copyTree(t *testing.T, from, to string, variant int) {
	t.Helper()
	err := filepath.WalkDir(from, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		at := filepath.Join(to, strings.TrimPrefix(p, from))
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		return os.WriteFile(at, data, []os.FileMode{0o700, 0o644}[variant])
	})
	if err != nil {
		t.Fatal(err)
	}
}

// entry is a file of an archive.
type entry struct {
	*tar.Header
	data []byte
}

func untar(t *testing.T, compressed []byte) map[string]entry {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]entry{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "root" || h.Gname != "root" || h.ModTime.Unix() != 1700000000 {
			t.Errorf("%s has the owner %d %s and the time %s, want root and the epoch", h.Name, h.Uid, h.Uname, h.ModTime)
		}
		if _, twice := all[h.Name]; twice {
			t.Errorf("%s is there twice", h.Name)
		}
		name := strings.TrimSuffix(h.Name, "/")
		if parent := name[:strings.LastIndex(name, "/")+1]; parent != "" && all[parent].Header == nil {
			t.Errorf("%s comes before its directory", h.Name)
		}
		all[h.Name] = entry{h, data}
	}
}

// commandNames returns the commands that `ingot help` lists.
func commandNames(t *testing.T) []string {
	t.Helper()
	out, err := output(exec.Command(filepath.Join(programsDir(t), "ingot"), "help"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z][a-z-]*)  `).FindAllSubmatch(out, -1) {
		names = append(names, string(m[1]))
	}
	if len(names) < 50 {
		t.Fatalf("only the commands %q", names)
	}
	return names
}

func TestTarball(t *testing.T) {
	t.Parallel()
	all := untar(t, released(t, "*.tar.gz"))
	root := "ingot-" + testVersion + "-linux-" + runtime.GOARCH + "/"
	for name := range all {
		if !strings.HasPrefix(name, root) {
			t.Errorf("%s is not below %s", name, root)
		}
	}
	for _, program := range programs {
		if got := all[root+program]; got.Header == nil || got.Mode != 0o755 || len(got.data) < 1<<20 {
			t.Errorf("%s is not an executable program", program)
		}
	}
	want := []string{"CONTRIBUTING.md", "LICENSE", "NOTICE", "README.md", "SCOPE.md", "docs/operating.md",
		"completions/ingot.bash", "completions/_ingot", "completions/ingot.fish", "packaging/ingot.service",
		"packaging/default", "sbom.cdx.json", "man/ingot.1"}
	for _, name := range commandNames(t) {
		want = append(want, "man/ingot-"+name+".1")
	}
	for _, name := range want {
		if got := all[root+name]; got.Header == nil || got.Mode != 0o644 || len(got.data) == 0 {
			t.Errorf("%s is missing, empty or executable", name)
		}
	}
}

// members returns the members of an ar archive.
func members(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	rest, ok := bytes.CutPrefix(archive, []byte("!<arch>\n"))
	if !ok {
		t.Fatal("not an ar archive")
	}
	all := map[string][]byte{}
	for len(rest) > 0 {
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || string(rest[58:60]) != "`\n" {
			t.Fatalf("header %q: %v", rest[:60], err)
		}
		all[strings.TrimSpace(string(rest[:16]))] = rest[60 : 60+size]
		rest = rest[60+size+size%2:]
	}
	return all
}

func TestDeb(t *testing.T) {
	t.Parallel()
	all := members(t, released(t, "*.deb"))
	if got := string(all["debian-binary"]); got != "2.0\n" {
		t.Errorf("debian-binary is %q, want 2.0", got)
	}
	data := untar(t, all["data.tar.gz"])
	want := map[string]int64{
		"./usr/bin/ingot": 0o755, "./usr/lib/ingot/ingot-init": 0o755, "./usr/lib/ingot/ingot-builder": 0o755,
		"./usr/lib/ingot/ingot-static": 0o755, "./usr/lib/ingot/ingot-sftp": 0o755,
		"./etc/default/ingot": 0o640, "./etc/needrestart/conf.d/ingot.conf": 0o644,
		"./usr/share/doc/ingot/docs/operating.md": 0o644,
		"./usr/share/doc/ingot/copyright":         0o644, "./usr/share/doc/ingot/changelog.gz": 0o644,
		"./usr/share/bash-completion/completions/ingot": 0o644, "./usr/share/zsh/vendor-completions/_ingot": 0o644,
		"./usr/share/fish/vendor_completions.d/ingot.fish": 0o644,
		"./usr/share/man/man1/ingot.1.gz":                  0o644,
	}
	for _, name := range commandNames(t) {
		want["./usr/share/man/man1/ingot-"+name+".1.gz"] = 0o644
	}
	// Every unit, so that a new one is installed without a change here.
	var units []string
	for _, kind := range []string{"service", "socket", "timer", "slice"} {
		found, err := filepath.Glob("../packaging/*." + kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			units = append(units, filepath.Base(file))
			want["./usr/lib/systemd/system/"+filepath.Base(file)] = 0o644
		}
	}
	for name, mode := range want {
		if got := data[name]; got.Header == nil || got.Mode != mode || len(got.data) == 0 {
			t.Errorf("%s is missing, empty, or does not have the mode %o", name, mode)
		}
	}
	control := untar(t, all["control.tar.gz"])
	const conffiles = "/etc/default/ingot\n/etc/needrestart/conf.d/ingot.conf\n"
	if got := string(control["./conffiles"].data); got != conffiles {
		t.Errorf("conffiles %q, want %q", got, conffiles)
	}
	if got := string(control["./control"].data); !strings.Contains(got, "\nVersion: "+testVersion+"\nArchitecture: "+
		runtime.GOARCH+"\n") || !regexp.MustCompile(`\nInstalled-Size: \d{5,6}\n`).MatchString(got) {
		t.Errorf("control:\n%s", got)
	}
	for _, unit := range units {
		if !bytes.Contains(control["./prerm"].data, []byte(unit)) {
			t.Errorf("prerm does not stop %s", unit)
		}
	}
	sums := string(control["./md5sums"].data)
	for name, file := range data {
		if file.Typeflag == tar.TypeReg && !strings.HasPrefix(name, "./etc/") &&
			!strings.Contains(sums, "  "+strings.TrimPrefix(name, "./")+"\n") {
			t.Errorf("md5sums has no %s", name)
		}
	}
	dpkgReads(t, released(t, "*.deb"))
}

// dpkgReads unpacks a package with dpkg-deb, and runs its scripts twice, as interrupted
// installations do. `make soak` installs it on a system with systemd.
func dpkgReads(t *testing.T, archive []byte) {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Log("dpkg-deb is missing: the package was not read with it")
		return
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "ingot.deb")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := output(exec.Command("dpkg-deb", "-R", file, filepath.Join(dir, "root"))); err != nil {
		t.Fatal(err)
	}
	out, err := output(exec.Command("dpkg-deb", "-f", file, "Package", "Version", "Depends"))
	if want := "Package: ingot\nVersion: 1.2.3\nDepends: runc, e2fsprogs\n"; err != nil || string(out) != want {
		t.Errorf("dpkg-deb -f: %v, %q, want %q", err, out, want)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		if _, err := output(exec.Command("/bin/sh", "-n", filepath.Join(dir, "root", "DEBIAN", script))); err != nil {
			t.Error(err)
		}
	}
}

// The unit keeps apps running, and takes away what the server does not need. The exposure
// that systemd computes must not grow unnoticed.
func TestUnit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../packaging/ingot.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"KillMode=process", "Delegate=yes", "WatchdogSec=2min",
		"Wants=network-online.target ingot.slice", "OOMPolicy=continue", "NoNewPrivileges=yes", "ProtectSystem=strict",
		"ProtectHome=yes", "DevicePolicy=closed"} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("ingot.service has no %s", want)
		}
	}
	// Apps inherit these, or containers cannot be created with them: docs/operating.md.
	for _, name := range []string{
		"MemoryDenyWriteExecute", "RestrictSUIDSGID", "LockPersonality", "RestrictNamespaces", "ProtectKernelTunables",
		"ProtectKernelLogs", "ProtectProc", "ProtectControlGroups", "PrivateDevices", "PrivateTmp", "ProtectHostname",
	} {
		if strings.Contains(string(text), "\n"+name+"=") {
			t.Errorf("ingot.service has %s=, with which apps do not work", name)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is missing: the exposure was not computed")
		return
	}
	const most = "65" // tenths
	if out, err := output(exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold="+most,
		"../packaging/ingot.service")); err != nil {
		t.Errorf("the exposure is above %s tenths: %v\n%s", most, err, out)
	}
}

func TestDebVersion(t *testing.T) {
	t.Parallel()
	when := time.Date(2026, 11, 16, 3, 4, 5, 0, time.UTC)
	var ordered []string
	for _, tt := range []struct{ version, want string }{
		{"0.1.0-dev+1e1c280", "0.1.0~dev+20261116.030405.1e1c280"},
		{"0.1.0-dev+1e1c280.dirty", "0.1.0~dev+20261116.030405.1e1c280.dirty"},
		{"0.1.0-rc.1", "0.1.0~rc.1"},
		{"0.1.0", "0.1.0"},
		{"0.1.1-dev", "0.1.1~dev+20261116.030405"},
		{"1.2.3", "1.2.3"},
	} {
		if got := debVersion(tt.version, when); got != tt.want {
			t.Errorf("debVersion(%q) = %q, want %q", tt.version, got, tt.want)
		}
		ordered = append(ordered, tt.want)
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		return
	}
	for i := range ordered[1:] {
		if err := exec.Command("dpkg", "--compare-versions", ordered[i], "lt", ordered[i+1]).Run(); err != nil {
			t.Errorf("dpkg does not sort %s before %s", ordered[i], ordered[i+1])
		}
	}
}

// The bill of materials is valid, and names the modules that docs/dependencies.txt
// names, each with its license.
func TestSBOM(t *testing.T) {
	t.Parallel()
	text := released(t, "*.cdx.json")
	validateSBOM(t, text)
	var bom struct {
		SerialNumber string
		Components   []struct {
			Name, Version, PURL string
			Licenses            []struct{ License struct{ ID string } }
		}
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, c := range bom.Components {
		if c.Name != "std" {
			got = append(got, c.Name)
		}
		if len(c.Licenses) == 0 {
			t.Errorf("%s has no license", c.Name)
		}
		if wanted := fmt.Sprintf("pkg:golang/%s@%s", c.Name, strings.ReplaceAll(c.Version, "+", "%2B")); c.PURL != wanted &&
			c.PURL != strings.ReplaceAll(wanted, "%2B", "+") {
			t.Errorf("package URL %q, want %q", c.PURL, wanted)
		}
	}
	list, err := os.ReadFile("../docs/dependencies.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		if name, _, ok := strings.Cut(line, " "); ok && name != "" && !strings.HasPrefix(name, "#") {
			want = append(want, name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("modules\n%q\nwant those of docs/dependencies.txt:\n%q", got, want)
	}
	if len(bom.Dependencies) != len(bom.Components)+1 || bom.Dependencies[0].Ref != "ingot" ||
		len(bom.Dependencies[0].DependsOn) < 10 {
		t.Errorf("%d dependencies of %d components, the first %+v", len(bom.Dependencies), len(bom.Components),
			bom.Dependencies[0])
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).
		MatchString(bom.SerialNumber) {
		t.Errorf("serial number %q", bom.SerialNumber)
	}
}

// validateSBOM compares a document with the schema of CycloneDX, which its library has.
func validateSBOM(t *testing.T, text []byte) {
	t.Helper()
	dir, err := output(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go"))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	for url, name := range map[string]string{
		"http://cyclonedx.org/schema/bom-1.6.schema.json":  "bom-1.6.schema.json",
		"http://cyclonedx.org/schema/spdx.schema.json":     "spdx.schema.json",
		"http://cyclonedx.org/schema/jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(url, document); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Errorf("the SBOM is not valid: %v", err)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"", "--version is required"},
		{"--version 1 --arch riscv64", "amd64, arm64"},
		{"--version 1 --clients plan9/386", "windows/arm64"},
		{"--version 1 --only apk", "tar, deb, rpm, sbom"},
		{"--version 1 --publish --url no", "is not a URL"},
		{"--version 1 --publish --url https://a.example --source-url https://a.example", "--commit is required"},
		{"--version 1 more", "more"},
		{"--version 1 --programs x --arch amd64,arm64", "--programs"},
	} {
		if err := run(t.Context(), strings.Fields(tt.args), io.Discard); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("release %s: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
	err := run(t.Context(), []string{"--version", "1", "--programs", t.TempDir(), "--arch", runtime.GOARCH, "--out",
		t.TempDir()}, io.Discard)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without programs: error %v, want one that names the missing program", err)
	}
}
