//go:build linux

package system

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/logging"
	"ingot/internal/platform/alerts"
)

// damages are ways in which a file can be damaged. text means that what is left is a text, and not
// empty.
var damages = []struct {
	name string
	text bool
	do   func(path string) error
}{
	{"empty", false, func(p string) error { return os.WriteFile(p, nil, 0o600) }},
	{"truncated", true, func(p string) error {
		text, err := os.ReadFile(p)
		return errors.Join(err, os.WriteFile(p, text[:len(text)/2], 0o600))
	}},
	{"garbage", true, func(p string) error {
		return os.WriteFile(p, []byte("\x00\xff{ this is nothing that a server writes"), 0o600)
	}},
	{"directory", false, func(p string) error {
		return errors.Join(os.Remove(p),
			os.MkdirAll(filepath.Join(p, "inside"), 0o700))
	}},
	{"other JSON", true, func(p string) error {
		return os.WriteFile(p, []byte(`{"engine":7,"format":"a","id":[]}`),
			0o600)
	}},
	{"unreadable", false, func(p string) error { return errors.Join(os.Remove(p), os.Symlink(filepath.Base(p), p)) }},
}

// fileRow is a row of the table of the data directory in docs/architecture.md.
type fileRow struct{ name, damaged string }

func fileRows(t *testing.T) (rows []fileRow) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "| File in DIR |")
	for line := range strings.Lines(after) {
		cells := strings.Split(line, "|")
		if len(cells) == 5 && strings.Contains(cells[1], "`") {
			rows = append(rows, fileRow{strings.Trim(cells[1], " `"), strings.TrimSpace(cells[3])})
		} else if strings.TrimSpace(line) == "" {
			break
		}
	}
	return rows
}

// rowOf returns the first row of a file.
func rowOf(rows []fileRow, file string) (fileRow, bool) {
	for _, r := range rows {
		if ok, _ := path.Match(r.name, file); ok || strings.HasSuffix(r.name, "/") && strings.HasPrefix(file, r.name) {
			return r, true
		}
	}
	return fileRow{}, false
}

// damagedSite is a data directory of a server that was used, and what it contains.
type damagedSite struct {
	*backedUp
	rows     []fileRow
	files    []string
	password string
}

func newDamagedSite(t *testing.T) *damagedSite {
	t.Helper()
	s := &damagedSite{backedUp: startBackedUp(t, nil), rows: fileRows(t)}
	s.password = readSecret(t, s.System, adminPasswordFile)
	s.backup(filepath.Join(t.TempDir(), "backups")) // writes backup.json
	s.stopApps()
	err := filepath.WalkDir(s.c.DataDir, func(path string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(s.c.DataDir, path)
		if e != nil && e.Type().IsRegular() {
			s.files = append(s.files, rel)
		}
		return errors.Join(err, relErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	// What only exists while a server runs.
	s.files = append(s.files, endpointsFile, "handover.sock", "forward.sock")
	if len(s.rows) < 20 || len(s.files) < 20 {
		t.Fatalf("%d rows and %d files, want the table and a data directory that was used", len(s.rows), len(s.files))
	}
	return s
}

// copied returns a copy of the data directory, without large files that nothing reads.
func (s *damagedSite) copied() string {
	s.Helper()
	dir := passableDir(s.T)
	err := filepath.WalkDir(s.c.DataDir, func(path string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(s.c.DataDir, path)
		if err := errors.Join(err, relErr); err != nil {
			return err
		}
		info, err := e.Info()
		to := filepath.Join(dir, rel)
		switch {
		case err != nil || strings.HasPrefix(rel, "reserve"):
			return err
		case e.IsDir():
			return errors.Join(os.MkdirAll(to, 0o700), os.Chmod(to, info.Mode().Perm()|0o200))
		case !e.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(to, text, info.Mode().Perm()), os.Chmod(to, info.Mode().Perm()))
	})
	if err != nil {
		s.Fatal(err)
	}
	return dir
}

// TestSoakDamagedFiles damages every file of a data directory in every way, and starts a server there.
// It does what the table in docs/architecture.md says: it starts, with a warning that names the
// file if it was set aside, and has everything else; or it refuses, and names the file and what to do.
func TestSoakDamagedFiles(t *testing.T) {
	t.Parallel()
	s := newDamagedSite(t)
	all := os.Getenv("INGOT_SOAK") != ""
	seen := map[string]bool{}
	for n, file := range s.files {
		row, ok := rowOf(s.rows, file)
		if !ok {
			t.Errorf("%s has no row in the table of docs/architecture.md", file)
			continue
		}
		// Each file in each way takes minutes. Otherwise each is damaged in one way, what is set aside in
		// another one, too; of files of which only themselves are lost, one of each row.
		if !all && seen[row.name] && (strings.HasPrefix(row.damaged, "only") || strings.HasPrefix(row.damaged, "recreated")) {
			continue
		}
		seen[row.name] = true
		for i := range damages {
			if all || (n+i)%len(damages) == 0 || (n+i)%len(damages) == 3 && strings.HasPrefix(row.damaged, "set aside") {
				s.try(file, row, i)
			}
		}
	}
}

// try damages a file in one way and starts a server.
func (s *damagedSite) try(file string, row fileRow, how int) {
	s.Helper()
	name := file + ", " + damages[how].name
	c := s.c
	c.DataDir = s.copied()
	defer os.RemoveAll(filepath.Dir(c.DataDir))
	at := filepath.Join(c.DataDir, file)
	if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(at, []byte("from a server that was killed"), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	if err := damages[how].do(at); err != nil {
		s.Fatal(err)
	}
	log := &lockedLog{}
	c.Log = logging.New(log, false, slog.LevelInfo)
	server, err := New(c)
	if err != nil {
		s.Fatal(err)
	}
	defer server.Stop()
	err = server.Start(s.Context())
	verdict, onlyIf, conditional := strings.Cut(row.damaged, " if it is not ")
	notFile := damages[how].name == "directory" || damages[how].name == "unreadable"
	if conditional && (strings.HasPrefix(onlyIf, "a file") && !notFile || onlyIf == "a text" && damages[how].text) {
		verdict = "accepted"
	}
	switch {
	case strings.HasPrefix(verdict, "refused"):
		if err == nil || !strings.Contains(err.Error(), at) || !slices.ContainsFunc([]string{"restore", "remove"},
			func(w string) bool { return strings.Contains(err.Error(), w) }) {
			s.Errorf("%s: %v, want that the start is refused and the error names the file and what to do", name, err)
		}
		if _, err := os.Lstat(at); err != nil {
			s.Errorf("%s: it was removed (%v), want it left", name, err)
		}
		return
	case err != nil:
		s.Errorf("%s: %v, want that the server starts", name, err)
		return
	case strings.HasPrefix(verdict, "set aside"):
		kept, _ := filepath.Glob(at + ".damaged-*")
		if len(kept) != 1 || !strings.Contains(log.String(), `"level":"WARN"`) || !strings.Contains(log.String(), at) {
			s.Errorf("%s: set aside are %q, want it and a warning that names the file\n%s", name, kept, log)
		}
	}
	s.whole(name, server)
}

// whole checks that nothing else is lost.
func (s *damagedSite) whole(name string, server *System) {
	s.Helper()
	a := call(s.T, http.MethodPost, server.Endpoints().Auth+"/oauth/token", "", url.Values{
		"grant_type": {"password"}, "client_id": {"cf"}, "client_secret": {""}, "username": {"admin"},
		"password": {s.password},
	})
	token, _ := a.json(s.T)["access_token"].(string)
	if token == "" {
		s.Errorf("%s: login of the administrator: %d %s", name, a.status, a.body)
		return
	}
	a = call(s.T, http.MethodGet, server.Endpoints().API+"/v3/apps/"+s.app, token, nil)
	if a.status != http.StatusOK {
		s.Errorf("%s: the app: %d %s, want it", name, a.status, a.body)
	}
	if a := call(s.T, http.MethodGet, server.Endpoints().API+"/v3/apps/"+s.app+"/droplets/current", token,
		nil); a.status != http.StatusOK {
		s.Errorf("%s: the droplet: %d %s, want it", name, a.status, a.body)
	}
	mailer := clientToken(s.T, server, "mailer", "a long enough secret")
	if a := call(s.T, http.MethodGet, server.Endpoints().Notifications+"/messages/"+s.message, mailer,
		nil); a.status != http.StatusOK {
		s.Errorf("%s: the message: %d %s, want it", name, a.status, a.body)
	}
}

// TestDamagedFilesAreBounded: of each name a few damaged files are kept.
func TestDamagedFilesAreBounded(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	at := filepath.Join(c.DataDir, alerts.PositionFile)
	for n := range 5 {
		if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			if err := os.WriteFile(at, fmt.Appendf(nil, "damaged %d", n), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := newSystem(t, c)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Stop()
	}
	kept, err := filepath.Glob(at + ".damaged-*")
	if err != nil || len(kept) != 3 {
		t.Fatalf("%q, %v, want three", kept, err)
	}
	if text, err := os.ReadFile(kept[2]); err != nil || string(text) != "damaged 4" {
		t.Errorf("the last is %q, %v, want the newest", text, err)
	}
}
