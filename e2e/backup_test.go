package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// backups is a server with a key for its backups.
type backups struct {
	*site
	t                *testing.T
	home             string
	key, to, by, app string
}

func startBackups(t *testing.T, o options) *backups {
	t.Helper()
	b := &backups{site: startApps(t, o), t: t, key: filepath.Join(t.TempDir(), "key")}
	b.home = b.admin(t)
	cfOK(t, b.home, pushProbe(t, "steady")...)
	cfOK(t, b.home, "set-env", "steady", "COLOR", "green")
	b.app = guid(t, b.home, "steady")
	b.running(t, b.app, 1)
	b.keep(b.ingot(0, "backup", "keygen", "--output", b.key))
	return b
}

// keep keeps what keygen prints for the server.
func (b *backups) keep(said string) {
	b.t.Helper()
	_, rest, _ := strings.Cut(strings.TrimSpace(said), "INGOT_BACKUP_RECIPIENTS=")
	b.to, b.by, _ = strings.Cut(rest, "\nINGOT_BACKUP_SIGNING_KEY=")
	if !strings.HasPrefix(b.to, "age1") || !strings.HasPrefix(b.by, "INGOT-SIGNING-KEY-") {
		b.t.Fatalf("keygen says\n%s\nwant a public key and a signing key", said)
	}
}

func (b *backups) ingot(code int, args ...string) string {
	b.t.Helper()
	p := run(b.t, []string{"INGOT_BACKUP_SIGNING_KEY=" + b.by}, args...)
	if got := p.wait(b.t); got != code {
		b.t.Fatalf("ingot %v: exit code %d, want %d\n%s%s", args, got, code, p.Stdout, p.Stderr)
	}
	return p.Stdout.String() + p.Stderr.String()
}

func (b *backups) backup(target string) []string {
	return []string{"backup", target, "--data-dir", b.Dir, "--recipient", b.to}
}

func (b *backups) restore(from, dir string) []string {
	return []string{"restore", from, "--data-dir", dir, "--key", b.key}
}

// killed runs a command and kills it after a random part of the time it takes. It reports
// whether the command was faster.
func (b *backups) killed(takes time.Duration, args ...string) (finished bool) {
	b.t.Helper()
	p := run(b.t, []string{"INGOT_BACKUP_SIGNING_KEY=" + b.by}, args...)
	select {
	case <-p.done:
	case <-time.After(rand.N(takes)):
		_ = p.Cmd.Process.Kill()
		<-p.done
	}
	return p.Cmd.ProcessState.ExitCode() == 0
}

// starts starts the server from another data directory, and checks that the app runs there.
func (b *backups) starts(dir string) {
	b.t.Helper()
	b.Dir = dir
	b.Restart(b.t)
	b.home = b.admin(b.t)
	b.running(b.t, b.app, 1)
	b.reaches(b.t, "steady", "/", http.StatusOK)
	contains(b.t, cfOK(b.t, b.home, "env", "steady"), "green")
}

// TestSoakBackup backs up a server that runs, kills backups and restores at random moments,
// and brings the app back in another data directory. The first restore is of a backup in a file,
// the second of one in a directory.
func TestSoakBackup(t *testing.T) {
	t.Parallel()
	b := startBackups(t, options{Engine: "process"})
	dir := t.TempDir()
	file, many := filepath.Join(dir, "file.age"), filepath.Join(dir, "many")

	began := time.Now()
	contains(t, b.ingot(0, b.backup(many)...), "Backup 20", "written to "+many,
		"2 files of packages, droplets and buildpacks")
	takes := time.Since(began)
	kills := 4
	if os.Getenv("INGOT_SOAK") == "1" {
		kills = 60
	}
	whole := 1
	for range kills {
		if b.killed(takes, b.backup(many)...) {
			whole++
		}
		if !b.killed(takes, b.backup(file)...) {
			if _, err := os.Stat(file); err == nil {
				contains(t, b.ingot(0, "backup", "verify", file, "--key", b.key), "is complete")
			}
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		os.Remove(file)
	}
	// What exists is complete. A backup can be killed when it is written and has not said so.
	list := strings.Split(strings.TrimSpace(b.ingot(0, "backup", "list", many)), "\n")
	if n := len(list) - 1; n < whole || n > kills+1 {
		t.Errorf("%d backups, want at least %d\n%s", n, whole, strings.Join(list, "\n"))
	}
	for _, line := range list[1:] {
		contains(t, b.ingot(0, "backup", "verify", many, "--id", strings.Fields(line)[0], "--key", b.key), "is complete")
	}
	b.ingot(0, append(b.backup(many), "--keep", "1")...)
	b.ingot(0, b.backup(file)...)
	contains(t, b.ingot(1, b.backup(file)...), file+" already exists")
	contains(t, b.ingot(0, "backup", "status", "--data-dir", b.Dir), "Last backup: 20", "The last attempt failed",
		"already exists")
	contains(t, b.ingot(1, b.restore(file, b.Dir)...), "never into that of a running server")
	contains(t, b.ingot(2, "backup", file), "--recipient is required")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Contains(text, []byte("green")) {
		t.Errorf("%v, or the backup is not encrypted", err)
	}

	b.ingot(0, "down", "--data-dir", b.Dir)
	if err := os.RemoveAll(b.Dir); err != nil { // nothing of it is used any more
		t.Fatal(err)
	}
	first := filepath.Join(filepath.Dir(b.Dir), "first")
	began = time.Now()
	b.ingot(0, b.restore(file, filepath.Join(dir, "trial"))...)
	takes = time.Since(began)
	for range kills {
		if b.killed(takes, b.restore(file, first)...) {
			if err := os.RemoveAll(first); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := os.Stat(filepath.Join(first, ".restore")); err == nil {
			p := run(t, nil, "up", "--data-dir", first, "--listen", "127.0.0.1:0", "--notifications-listen", "127.0.0.1:0",
				"--admin-listen", "127.0.0.1:0", "--ssh-listen", "127.0.0.1:0")
			p.mayFail = true
			if code := p.wait(t); code != 1 || !strings.Contains(p.Stderr.String(), "run 'ingot restore' again") {
				t.Fatalf("a server on half a restore: %d, %s", code, p.Stderr)
			}
		}
	}
	if entries, _ := os.ReadDir(first); len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(first, ".restore")); err != nil { // killed after it was complete
			if err := os.RemoveAll(first); err != nil {
				t.Fatal(err)
			}
		}
	}
	contains(t, b.ingot(0, b.restore(file, first)...), "Restored the database and 2 packages, droplets and buildpacks",
		"is complete. Start the server")
	b.starts(first)
	cfOK(t, b.home, "restart", "steady")
	b.ingot(0, "down", "--data-dir", b.Dir)
	second := filepath.Join(filepath.Dir(b.Dir), "second")
	b.ingot(0, b.restore(many, second)...)
	b.starts(second)
}

// TestBackupOnFullDisk: a backup that does not fit leaves nothing, and the server works. The
// commands of docs/backup.md do what it says.
func TestBackupOnFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	b := startBackups(t, options{Engine: "process"})
	filler := fillDisk(t, disk)
	for _, target := range []string{filepath.Join(disk, "file.age"), filepath.Join(disk, "many")} {
		contains(t, b.ingot(1, b.backup(target)...), "no space left on device")
	}
	left, err := filepath.Glob(filepath.Join(disk, "*", "*", "*"))
	if more, _ := filepath.Glob(filepath.Join(disk, ".*partial")); err != nil || len(left)+len(more) > 0 {
		t.Errorf("%v %v are left, %v", left, more, err)
	}
	cfOK(t, b.home, "apps")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	b.ingot(0, b.backup(filepath.Join(disk, "many"))...)
	// The restore does not fit.
	fillDisk(t, disk)
	contains(t, b.ingot(1, b.restore(filepath.Join(disk, "many"), filepath.Join(disk, "data"))...),
		"no space left on device")
	if _, err := os.Stat(filepath.Join(disk, "data")); err == nil {
		t.Error("the data directory is there, want none")
	}
	b.asDocumented(t.TempDir())
}

// commandsOf returns the commands of a page that begin with "$ ingot", each with what the page says
// it prints.
func commandsOf(t *testing.T, page string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
			all = append(all, nil)
		case inside && strings.HasPrefix(line, "$ "):
			all = append(all, []string{line[2:]})
		case inside && len(all[len(all)-1]) > 0:
			all[len(all)-1] = append(all[len(all)-1], line)
		}
	}
	return slices.DeleteFunc(all, func(c []string) bool { return len(c) == 0 || !strings.HasPrefix(c[0], "ingot ") })
}

// asDocumented runs the commands of docs/backup.md in their order, in a new directory, and
// compares what they print as far as it does not depend on the machine. Examples of data that cannot be
// saved need a broken service instance, and are left out.
func (b *backups) asDocumented(dir string) {
	b.t.Helper()
	ran := 0
	for n, c := range commandsOf(b.t, "backup.md") {
		printed := strings.Join(c[1:], "\n")
		if strings.Contains(printed, "Not saved:") || strings.Contains(printed, "Not restored:") {
			continue
		}
		data := b.Dir
		if strings.HasPrefix(c[0], "ingot restore") {
			data = filepath.Join(dir, fmt.Sprintf("restored-%d", n))
		}
		if strings.Contains(c[0], "half.age") {
			if err := os.WriteFile(filepath.Join(dir, "half.age"), b.half(dir), 0o600); err != nil {
				b.t.Fatal(err)
			}
		}
		here := strings.NewReplacer("/backup/ingot", filepath.Join(dir, "ingot"), "/var/lib/ingot", data,
			"backup-key.txt", filepath.Join(dir, "backup-key.txt"), "half.age", filepath.Join(dir, "half.age"))
		line := here.Replace(c[0])
		code := 0
		if strings.HasPrefix(printed, "ingot: ") {
			code = 1
		}
		p := run(b.t, []string{"INGOT_BACKUP_RECIPIENTS=" + b.to, "INGOT_BACKUP_SIGNING_KEY=" + b.by},
			strings.Fields(line)[1:]...)
		got := p.wait(b.t)
		said := p.Stdout.String() + p.Stderr.String()
		if got != code {
			b.t.Errorf("%s: exit code %d, want %d\n%s", line, got, code, said)
		}
		for _, want := range c[1:] {
			// Up to the first thing that is different on each machine.
			want = here.Replace(want)
			if i := strings.IndexAny(want, "0123456789/="); i >= 0 {
				want = want[:i]
			}
			// The widths of columns differ too.
			if !strings.Contains(columns(said), columns(want)) {
				b.t.Errorf("%s printed\n%s\nwant %q, as the page says", line, said, want)
			}
		}
		if strings.Contains(c[0], "keygen") {
			b.keep(said)
		}
		ran++
	}
	if ran < 7 {
		b.t.Errorf("%d commands of the page were run, want all", ran)
	}
}

// half returns the first half of a backup in a file.
func (b *backups) half(dir string) []byte {
	b.t.Helper()
	file := filepath.Join(dir, "whole.age")
	b.ingot(0, b.backup(file)...)
	text, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	return text[:len(text)/2]
}
