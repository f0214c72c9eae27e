package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// ordinary is the user that install.sh runs as if the tests run as root.
const ordinary = 64999

// account is a user without root, on a machine with a few programs.
type account struct {
	home string
	bin  string // everything in PATH
	env  []string
}

// newAccount returns a user whose PATH has the programs of busybox, except for those in without.
func newAccount(t *testing.T, without ...string) *account {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip(err)
	}
	// Not t.TempDir, whose parent only its owner opens.
	dir, err := os.MkdirTemp("", "ingot-install-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	a := &account{home: filepath.Join(dir, "home"), bin: filepath.Join(dir, "bin")}
	for _, d := range []string{dir, a.home, a.bin} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for applet := range strings.Lines(does(t, busybox, "--list")) {
		applet = strings.TrimSpace(applet)
		// These three are not among the programs of a small system.
		if slices.Contains(append(without, "dpkg", "rpm", "uname"), applet) {
			continue
		}
		if err := os.Symlink(busybox, filepath.Join(a.bin, applet)); err != nil {
			t.Fatal(err)
		}
	}
	a.program(t, "uname", `case $1 in -s) echo Linux ;; -m) echo `+rpmArch(runtime.GOARCH)+` ;; esac`)
	a.env = []string{"PATH=" + a.bin, "HOME=" + a.home, "INGOT_LISTEN=127.0.0.1:0", "INGOT_SSH_LISTEN=127.0.0.1:0",
		"INGOT_ADMIN_LISTEN=127.0.0.1:0", "INGOT_NOTIFICATIONS_LISTEN=127.0.0.1:0", "INGOT_TCP_PORTS=none"}
	if os.Getuid() == 0 {
		if err := os.Chown(a.home, ordinary, ordinary); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// program puts a shell script into PATH.
func (a *account) program(t *testing.T, name, script string) {
	t.Helper()
	path := filepath.Join(a.bin, name)
	_ = os.Remove(path) // it may not exist
	write(t, path, "#!"+filepath.Join(a.bin, "sh")+"\n"+script+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// run runs a command as the user, and returns what it prints.
func (a *account) run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = a.env, a.home
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: ordinary, Gid: ordinary}
	}
	// A server in the background keeps what it inherits open.
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// installs runs install.sh of a folder, which must succeed.
func (a *account) installs(t *testing.T, shell []string, dir string, args ...string) string {
	t.Helper()
	out, err := a.run(shell[0], slices.Concat(shell[1:], []string{filepath.Join(dir, "install.sh")}, args)...)
	if err != nil {
		t.Fatalf("install.sh %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// open returns a copy of the published folder that an ordinary user can read.
func open(t *testing.T, a *account) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(a.bin), "dist")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SHA256SUMS", "SHA256SUMS.asc", "install.sh", keyName + ".asc", keyName + ".gpg",
		"ingot_" + testVersion + "_linux_" + runtime.GOARCH + ".tar.gz", "ingot_" + testVersion + "_darwin_arm64.tar.gz"} {
		write(t, filepath.Join(dir, name), read(t, filepath.Join(published(t), name)))
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

var busyboxShell = []string{"busybox", "sh"}

// One line installs Ingot for an ordinary user from a folder, without network, curl, Go or git:
// the server runs, and an app can be pushed. Run again, it changes nothing; --uninstall asks
// before it deletes data.
func TestInstallUser(t *testing.T) {
	t.Parallel()
	a := newAccount(t, "wget")
	dir := open(t, a)
	data := a.home + "/.local/share/ingot"
	ingot := a.home + "/.local/bin/ingot"
	t.Cleanup(func() { _, _ = a.run(ingot, "down", "--data-dir", data) }) // of a failed test
	out := a.installs(t, busyboxShell, dir)
	link := regexp.MustCompile(`Console +(http://127\.0\.0\.1:\d+/console)\n`).FindStringSubmatch(out)
	if link == nil || !strings.Contains(out, "Ingot "+testVersion+" is ready.") ||
		!strings.Contains(out, ingot+" push hello") || !strings.Contains(out, "Not root: ") {
		t.Fatalf("install.sh prints\n%s", out)
	}
	if response, err := (&http.Client{Timeout: time.Minute}).Get(link[1]); err != nil { //nolint:noctx // on this machine
		t.Error(err)
	} else if response.Body.Close(); response.StatusCode != http.StatusOK {
		t.Errorf("%s answers %s", link[1], response.Status)
	}
	write(t, a.home+"/app/index.html", "one line")
	if out, err := a.run(ingot, "push", "hello", "-p", filepath.Join(a.home, "app"), "-m", "64M"); err != nil {
		t.Fatalf("push: %v\n%s", err, out)
	}
	again := a.installs(t, busyboxShell, dir)
	if !strings.Contains(again, link[1]) {
		t.Errorf("the second time, it prints\n%s", again)
	}
	if out := a.installs(t, busyboxShell, dir, "--uninstall"); !strings.Contains(out, "Its data is kept") {
		t.Errorf("--uninstall prints\n%s", out)
	}
	left, err := filepath.Glob(a.home + "/.local/*/*")
	if err != nil || len(left) != 2 { // the data, and the log
		t.Errorf("%q are left: %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(data, "secrets")); err != nil {
		t.Error(err)
	}
	out = a.installs(t, busyboxShell, dir, "--uninstall", "--purge")
	if !strings.Contains(out, "Removed Ingot and "+data) {
		t.Errorf("--purge prints\n%s", out)
	}
	if _, err := os.Stat(data); err == nil {
		t.Errorf("%s is left", data)
	}
}

// Files come from a web server too, with curl or wget, and are verified. Every shell does.
func TestInstallDownloads(t *testing.T) {
	t.Parallel()
	needs(t, "dash", "curl", "gpgv")
	a := newAccount(t, "wget")
	dir := open(t, a)
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	script := []string{"--from", server.URL, "--no-start"}
	if out, err := a.run("dash", append([]string{dir + "/install.sh"}, script...)...); err == nil ||
		!strings.Contains(out, "neither curl nor wget is installed") {
		t.Errorf("without curl and wget: %v\n%s", err, out)
	}
	for name, shell := range map[string][]string{"curl": {"dash"}, "wget": {"bash", "--posix"}} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		link := filepath.Join(a.bin, name)
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		if out := a.installs(t, shell, dir, script...); !strings.Contains(out, "is installed") {
			t.Errorf("with %s:\n%s", name, out)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		a.installs(t, shell, dir, "--uninstall")
	}
	for _, name := range []string{"gpgv", "base64"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(a.bin, name))
		if err := os.Symlink(path, filepath.Join(a.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, ext := range []string{".asc", ".gpg"} {
		out := a.installs(t, []string{"dash"}, dir, "--no-start", "--key", filepath.Join(dir, keyName+ext))
		if !strings.Contains(out, "The signature is good.") {
			t.Errorf("with the key:\n%s", out)
		}
	}
	a.installs(t, []string{"dash"}, dir, "--uninstall")
}

// What cannot be installed is refused, with what to do, and leaves nothing behind.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	needs(t, "dash", "gpgv")
	a := newAccount(t)
	dir := open(t, a)
	other, err := secretKey(packet.PubKeyAlgoEdDSA)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "other.gpg"), string(other))
	gpgv, err := exec.LookPath("gpgv")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(gpgv, filepath.Join(a.bin, "gpgv")); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "ingot_"+testVersion+"_linux_"+runtime.GOARCH+".tar.gz")
	for _, tt := range []struct {
		name    string
		prepare func()
		args    []string
		want    string
	}{
		{"option", nil, []string{"--frm", "x"}, "unknown option --frm: see install.sh --help"},
		{"value", nil, []string{"--from"}, "--from needs a value"},
		{"purge", nil, []string{"--purge"}, "is for --uninstall only"},
		{"folder", nil, []string{"--from", "/nowhere"}, "/nowhere is not a folder"},
		{"empty folder", nil, []string{"--from", a.home}, "SHA256SUMS could not be fetched"},
		{"version", nil, []string{"--version", "9.9.9"}, "has version 1.2.3, not 9.9.9"},
		{"other key", nil, []string{"--key", dir + "/other.gpg"}, "SHA256SUMS is not signed by the key"},
		{"architecture", func() { a.program(t, "uname", "[ $1 = -s ] && echo Linux || echo riscv64") }, nil,
			"this machine is riscv64"},
		{"system", func() { a.program(t, "uname", "echo Haiku") }, nil, "there is no Ingot for Haiku"},
		{"checksum", func() {
			a.program(t, "uname", "[ $1 = -s ] && echo Linux || echo "+rpmArch(runtime.GOARCH))
			write(t, archive, read(t, archive)+"x")
		}, nil, "is damaged: its checksum is"},
		{"not signed", func() { _ = os.Remove(dir + "/SHA256SUMS.asc") }, []string{"--key", dir + "/" + keyName + ".gpg"},
			"is not signed: it has no SHA256SUMS.asc"},
	} {
		if tt.prepare != nil {
			tt.prepare()
		}
		out, err := a.run("dash", append([]string{dir + "/install.sh"}, tt.args...)...)
		if err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v, %s\nwant %q", tt.name, err, out, tt.want)
		}
	}
	if left, err := filepath.Glob(a.home + "/.*"); err != nil || len(left) > 0 {
		t.Errorf("%q were installed: %v", left, err)
	}
	out := a.installs(t, []string{"dash"}, dir, "--uninstall")
	if !strings.Contains(out, "is not installed") {
		t.Errorf("--uninstall prints\n%s", out)
	}
}

// --version replaces the version in the address of the release. On macOS the client is
// installed.
func TestInstallElsewhere(t *testing.T) {
	t.Parallel()
	needs(t, "dash")
	a := newAccount(t, "wget")
	dir := open(t, a)
	a.program(t, "curl", `for u; do :; done; echo "$u" >&2; exit 22`)
	write(t, filepath.Join(filepath.Dir(dir), "alone.sh"), read(t, filepath.Join(dir, "install.sh")))
	out, err := a.run("dash", filepath.Join(filepath.Dir(dir), "alone.sh"), "--version", "v9.9.9")
	if want := strings.Replace(testURL, testVersion, "9.9.9", 1) + "/SHA256SUMS"; err == nil ||
		!strings.Contains(out, want+"\n") {
		t.Errorf("--version: %v\n%s\nwant %s", err, out, want)
	}
	a.program(t, "uname", "[ $1 = -s ] && echo Darwin || echo arm64")
	out = a.installs(t, []string{"dash"}, dir)
	if !strings.Contains(out, "login -a URL") {
		t.Errorf("on macOS:\n%s", out)
	}
	if _, err := os.Stat(a.home + "/.local/bin/ingot"); err != nil {
		t.Error(err)
	}
}

func TestInstallScript(t *testing.T) {
	t.Parallel()
	script := filepath.Join(published(t), "install.sh")
	if text := read(t, script); strings.Contains(text, "@VERSION@") || strings.Contains(text, "@URL@") {
		t.Error("install.sh has a name that was not replaced")
	}
	for _, shell := range [][]string{{"dash", "-n"}, {"busybox", "sh", "-n"}, {"shellcheck"}} {
		needs(t, shell[0])
		does(t, shell[0], append(shell[1:], script)...)
	}
	if out := does(t, "dash", script, "--help"); !strings.Contains(out, "--uninstall") || !strings.Contains(out, testURL) {
		t.Errorf("--help prints\n%s", out)
	}
}
