//go:build unix

package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/background"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/server/backup"
	"ingot/internal/server/installation"
)

// backedUp is a server with an app, and a key for its backups.
type backedUp struct {
	*faultySite
	c       Config
	app     string
	message string
	to, by  string
	key     installation.BackupKey
}

func startBackedUp(t *testing.T, change func(*Config)) *backedUp {
	t.Helper()
	c := testConfig(t)
	c.DataDir = passableDir(t)
	if change != nil {
		change(&c)
	}
	f := &backedUp{faultySite: &faultySite{T: t, System: startSystem(t, c)}, c: c}
	f.api, f.token = f.Endpoints().API, adminToken(t, f.System)
	org := f.create("/v3/organizations", map[string]any{"name": "org"})
	f.space = f.create("/v3/spaces", map[string]any{"name": "space", "relationships": to("organization", org)})
	var pkg string
	f.app, pkg = f.faultySite.app("app")
	if !f.build(f.app, pkg) {
		t.Fatal("the build failed")
	}
	f.act(f.app, "start")
	testkit.Eventually(t, "the app runs", func() bool { return f.running(f.app) != "" })
	f.openMail()
	f.message = f.send()
	f.key.File = filepath.Join(t.TempDir(), "key")
	var err error
	if f.to, f.by, err = installation.NewBackupKey(f.key.File, ""); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *backedUp) config(target string) installation.BackupConfig {
	return installation.BackupConfig{DataDir: f.c.DataDir, DatabaseURL: f.c.DatabaseURL, BlobURL: f.c.BlobURL,
		Target: target, Recipients: f.to, SigningKey: f.by, Log: discard, Tell: func(string) {}}
}

func (f *backedUp) backup(target string) installation.BackupState {
	f.Helper()
	state, err := Parts().Backup(f.Context(), f.config(target))
	if err != nil {
		f.Fatal(err)
	}
	return state
}

func (f *backedUp) restoreConfig(from, dir string) installation.RestoreConfig {
	return installation.RestoreConfig{From: from, Key: f.key, DataDir: dir, BlobURL: f.c.BlobURL, Log: discard,
		Tell: func(string) {}}
}

// stopApps stops the server with its apps, so that the restored one can use their ports.
func (f *backedUp) stopApps() {
	f.Helper()
	f.end(f.app)
	f.Stop()
}

// restored starts a server from a backup in another data directory, and checks that
// everything is there and that the app runs by itself.
func (f *backedUp) restored(from string, change func(*Config, *installation.RestoreConfig)) *backedUp {
	f.Helper()
	g := &backedUp{faultySite: &faultySite{T: f.T}, c: f.c, app: f.app, message: f.message, to: f.to, by: f.by, key: f.key}
	g.c.DataDir = passableDir(f.T)
	r := f.restoreConfig(from, g.c.DataDir)
	if change != nil {
		change(&g.c, &r)
	}
	if err := Parts().Restore(f.Context(), r); err != nil {
		f.Fatal(err)
	}
	g.System = startSystem(f.T, g.c)
	g.api, g.token, g.space = g.Endpoints().API, adminToken(f.T, g.System), f.space
	testkit.Eventually(f, "the restored app runs", func() bool { return g.running(g.app) != "" })
	g.mailer = clientToken(f.T, g.System, "mailer", "a long enough secret")
	if a := call(f.T, http.MethodGet, g.Endpoints().Notifications+"/messages/"+f.message, g.mailer,
		nil); a.status != http.StatusOK {
		f.Errorf("notification %s: %d %s, want it", f.message, a.status, a.body)
	}
	return g
}

// load writes to the server until ctx ends: spaces, mail, and apps with packages and
// droplets, some of which are deleted. It returns what was acknowledged.
type load struct {
	mu       sync.Mutex
	spaces   []string
	messages []string
	apps     []string
}

func (l *load) add(list *[]string, one string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, one)
}

func (l *load) counts() (spaces, messages, apps int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.spaces), len(l.messages), len(l.apps)
}

func (l *load) run(ctx context.Context, f *backedUp) {
	org := f.list("/v3/organizations?names=org")[0]["guid"].(string)
	var all background.WaitGroup
	for _, work := range []func(i int){
		func(i int) {
			l.add(&l.spaces, f.create("/v3/spaces", map[string]any{"name": fmt.Sprintf("s%d", i),
				"relationships": to("organization", org)}))
		},
		func(int) { l.add(&l.messages, f.send()) },
		func(i int) {
			app, pkg := f.faultySite.app(fmt.Sprintf("a%d", i))
			if i%3 == 0 { // its blobs are unused then
				if a := f.ask(http.MethodDelete, "/v3/apps/"+app, nil); a.status != http.StatusAccepted {
					f.Errorf("delete: %d %s", a.status, a.body)
				}
				return
			}
			if i%8 == 1 && !f.build(app, pkg) {
				f.Errorf("the build of a%d failed", i)
			}
			l.add(&l.apps, pkg)
		},
	} {
		all.Go("load", func() {
			for i := 0; ctx.Err() == nil; i++ {
				work(i)
			}
		})
	}
	all.Wait()
}

// TestSoakBackupUnderLoad backs a server up while it is written to, and restores it: what was
// acknowledged before the backup began is there, and every app can be started. With
// INGOT_SOAK=1 it does so many times.
func TestSoakBackupUnderLoad(t *testing.T) {
	t.Parallel()
	rounds, minimum := 1, 4
	if os.Getenv("INGOT_SOAK") == "1" {
		rounds, minimum = 8, 40
	}
	f := startBackedUp(t, nil)
	var l load
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := background.Async("load", func() error { l.run(ctx, f); return nil })
	dir := t.TempDir()
	type promise struct{ spaces, messages, apps int }
	var promised []promise
	for round := range rounds {
		testkit.Eventually(t, "there is something to back up", func() bool {
			spaces, messages, apps := l.counts()
			return min(spaces, messages) >= (round+1)*minimum && apps >= (round+1)*minimum/2
		})
		var p promise
		p.spaces, p.messages, p.apps = l.counts()
		promised = append(promised, p)
		f.backup(filepath.Join(dir, fmt.Sprint(round)))
		f.backup(dir + "/many/")
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f.stopApps()
	for round, p := range promised {
		g := f.restored(filepath.Join(dir, fmt.Sprint(round)), nil)
		g.has(&l, p.spaces, p.messages, p.apps)
		g.stopApps()
	}
	last := promised[rounds-1]
	g := f.restored(dir+"/many", nil)
	g.has(&l, last.spaces, last.messages, last.apps)
	g.stopApps()
}

// has checks that the first of what was acknowledged is there, and can be used.
func (f *backedUp) has(l *load, spaces, messages, apps int) {
	f.Helper()
	for _, guid := range l.spaces[:spaces] {
		if a := f.ask(http.MethodGet, "/v3/spaces/"+guid, nil); a.status != http.StatusOK {
			f.Errorf("space %s: %d, want it", guid, a.status)
		}
	}
	for _, id := range l.messages[:messages] {
		if a := call(f.T, http.MethodGet, f.Endpoints().Notifications+"/messages/"+id, f.mailer,
			nil); a.status != http.StatusOK {
			f.Errorf("message %s: %d, want it", id, a.status)
		}
	}
	for _, pkg := range l.apps[:apps] {
		if a := f.ask(http.MethodGet, "/v3/packages/"+pkg+"/download", nil); a.status != http.StatusOK {
			f.Errorf("package %s: %d, want it", pkg, a.status)
		}
	}
}

// TestBackupRepository: a second backup adds no blobs, other recipients get their own,
// old ones are removed, and metrics show the last.
func TestBackupRepository(t *testing.T) {
	t.Parallel()
	f := startBackedUp(t, nil)
	dir := filepath.Join(t.TempDir(), "backups")
	if a := call(t, http.MethodGet, f.Endpoints().Admin+"/metrics", "",
		nil); strings.Contains(a.body, "ingot_backup_last") {
		t.Error("there are metrics of a backup without one")
	}
	first := f.backup(dir)
	second := f.backup(dir + "/")
	if first.Blobs != 2 || first.Missing != 0 || second.Blobs != first.Blobs {
		t.Errorf("the backups have %d and %d blobs, want a package and a droplet each", first.Blobs, second.Blobs)
	}
	if second.Added != second.Size || first.Added <= first.Size {
		t.Errorf("the first added %d to %d, the second %d to %d: want that only the first wrote blobs", first.Added,
			first.Size, second.Added, second.Size)
	}
	if m, err := Parts().Verify(t.Context(), dir, first.ID, f.key, discard); err != nil || m.ID != first.ID {
		t.Errorf("verify: %v", err)
	}
	_, err := Parts().Backup(t.Context(), f.config("ftp://x"))
	if err == nil || !strings.Contains(err.Error(), "ftp:// is not supported") {
		t.Errorf("to ftp: %v", err)
	}
	a := call(t, http.MethodGet, f.Endpoints().Admin+"/metrics", "", nil)
	for _, want := range []string{
		"ingot_backup_last_attempt_success 0", "ingot_backup_last_size_bytes ", "ingot_backup_last_blob_bytes ",
		"ingot_backup_last_run_seconds ",
		"ingot_backup_last_success_timestamp_seconds ", "ingot_backup_last_attempt_timestamp_seconds ",
	} {
		if !strings.Contains(a.body, "\n"+want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	state, err := Parts().Last(t.Context(), f.c.DataDir, "", discard)
	if err != nil || state.ID != second.ID || !strings.Contains(state.Failure, "ftp://") || state.Size != second.Size {
		t.Errorf("the state is %+v, %v, want the second backup and the failure", state, err)
	}
	if info, err := os.Stat(filepath.Join(f.c.DataDir, installation.StateFile)); err != nil ||
		info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v, want mode 0600", installation.StateFile, info, err)
	}

	// Another key needs other objects, and cannot read the old ones.
	other := f.key
	other.File = filepath.Join(t.TempDir(), "other")
	c := f.config(dir)
	if c.Recipients, c.SigningKey, err = installation.NewBackupKey(other.File, ""); err != nil {
		t.Fatal(err)
	}
	c.Keep = 2
	third, err := Parts().Backup(t.Context(), c)
	if err != nil || third.Added <= third.Size {
		t.Errorf("for another key: %+v, %v, want that blobs were written", third, err)
	}
	if _, err := Parts().Verify(t.Context(), dir, "", other, discard); err != nil {
		t.Errorf("verify with the new key: %v", err)
	}
	if _, err := Parts().Verify(t.Context(), dir, "", f.key, discard); !errors.Is(err, backup.ErrWrongKey) {
		t.Errorf("verify with the old key: %v, want %v", err, backup.ErrWrongKey)
	}
	all, err := Parts().List(t.Context(), dir, discard)
	if err != nil || len(all) != 2 || all[0].ID != second.ID || all[1].ID != third.ID {
		t.Errorf("%d backups, %v, want the second and the third", len(all), err)
	}
	if err := Parts().Prune(t.Context(), dir, 1, discard, func(string) {}); err != nil {
		t.Error(err)
	}
	if blobs, _ := filepath.Glob(filepath.Join(dir, "blobs", "*", "*.age")); len(blobs) != 2 {
		t.Errorf("%d objects of blobs are left, want the two of the third backup", len(blobs))
	}
	f.stopApps()
}

// TestRestoreRefused: what cannot be restored changes nothing, and says why.
func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	f := startBackedUp(t, nil)
	dir := t.TempDir()
	file, many := filepath.Join(dir, "file.age"), filepath.Join(dir, "many")
	f.backup(file)
	older := f.backup(many)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	changed := append([]byte{}, whole...)
	changed[len(changed)/2] ^= 1
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "note"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	otherKey := filepath.Join(dir, "other-key")
	if _, _, err := installation.NewBackupKey(otherKey, ""); err != nil {
		t.Fatal(err)
	}
	forged := f.forge(many, older.ID)
	// Objects of two blobs change places.
	blobs, _ := filepath.Glob(filepath.Join(many, "blobs", "*", "*.age"))
	if len(blobs) != 2 {
		t.Fatalf("%d blobs, want two", len(blobs))
	}
	swapped := filepath.Join(dir, "swapped")
	if err := os.CopyFS(swapped, os.DirFS(many)); err != nil {
		t.Fatal(err)
	}
	for i, from := range blobs {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := filepath.Rel(many, blobs[1-i])
		if err := os.WriteFile(filepath.Join(swapped, at), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	missing := filepath.Join(dir, "missing")
	if err := os.CopyFS(missing, os.DirFS(many)); err != nil {
		t.Fatal(err)
	}
	gone, _ := filepath.Rel(many, blobs[0])
	if err := os.Remove(filepath.Join(missing, gone)); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "new")
	for name, tc := range map[string]struct {
		from, dir, key, url string
		want                string
	}{
		"used":      {file, used, "", "", "is not empty, it has note"},
		"running":   {file, f.c.DataDir, "", "", "never into that of a running server"},
		"key":       {file, fresh, otherKey, "", "it was made for another one"},
		"no key":    {file, fresh, filepath.Join(dir, "none"), "", "--key: "},
		"changed":   {write("changed", changed), fresh, "", "", "the backup is damaged"},
		"cut off":   {write("cut", whole[:len(whole)-1]), fresh, "", "", "the backup is damaged"},
		"half":      {write("half", whole[:len(whole)/2]), fresh, "", "", "the backup is damaged"},
		"other":     {write("text", []byte("hello")), fresh, "", "", "the backup is damaged: it is not an encrypted backup"},
		"none":      {filepath.Join(dir, "nothing"), fresh, "", "", "nothing does not exist: name the file or directory"},
		"unsigned":  {forged.unsigned, fresh, "", "", "the backup is not signed"},
		"stranger":  {forged.stranger, fresh, "", "", "was not signed with the signing key that belongs to this private key"},
		"older":     {forged.older, fresh, "", "", "there is the backup " + older.ID},
		"touched":   {forged.touched, fresh, "", "", "says that it was made at "},
		"empty":     {t.TempDir(), fresh, "", "", "there is no such backup"},
		"swapped":   {swapped, fresh, "", "", "is another one"},
		"missing":   {missing, fresh, "", "", "is missing: blobs/"},
		"database":  {file, fresh, "", "postgres://u@127.0.0.1:1/x", "move it with 'ingot db copy'"},
		"elsewhere": {file, fresh, "", "sqlite:/elsewhere/x.db", "restore without this flag"},
	} {
		c := f.restoreConfig(tc.from, tc.dir)
		c.DatabaseURL = tc.url
		if tc.key != "" {
			c.Key.File = tc.key
		}
		if err := Parts().Restore(t.Context(), c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the data directory is there (%v), want none", name, err)
		}
		if tc.dir != fresh || tc.url != "" {
			continue
		}
		if _, err := Parts().Verify(t.Context(), tc.from, "", c.Key, discard); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("verify %s: %v, want %q", name, err, tc.want)
		}
	}
	if left, err := os.ReadDir(used); err != nil || len(left) != 1 {
		t.Errorf("the directory in use has %v, %v, want what was there", left, err)
	}
	f.stopApps()
}

// TestRestoreOfNewer: a backup of a newer version is refused before anything is written.
func TestRestoreOfNewer(t *testing.T) {
	t.Parallel()
	key := installation.BackupKey{File: filepath.Join(t.TempDir(), "key")}
	public, _, err := installation.NewBackupKey(key.File, "")
	if err != nil {
		t.Fatal(err)
	}
	to, err := backup.ParseRecipients(public)
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]backup.Header{
		`version 99 of the "notify" tables`: {Ingot: "9.9", Database: "sqlite", Schemas: map[string]int64{"notify": 99}},
		"format 99 of the data directory":   {Ingot: "9.9", Database: "sqlite", DataFormat: 99},
	} {
		file := filepath.Join(t.TempDir(), "file.age")
		err := backup.WriteFile(file, func(w io.Writer) error {
			out, err := backup.NewWriter(w, to, nil, h)
			if err == nil {
				_, err = out.Close("", nil)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		err = Parts().Restore(t.Context(), installation.RestoreConfig{From: file, Key: key,
			DataDir: filepath.Join(t.TempDir(), "new"), Log: discard, Tell: func(string) {}})
		if want := "the backup was made by ingot 9.9, which is newer than this program (" + name; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestInterruptedRestore: a server does not start on what an interrupted restore left, and
// a second restore begins anew.
func TestInterruptedRestore(t *testing.T) {
	t.Parallel()
	f := startBackedUp(t, nil)
	file := filepath.Join(t.TempDir(), "file.age")
	f.backup(file)
	f.stopApps()
	dir := passableDir(t)
	for _, name := range []string{".restore/secrets", ".restore/ingot-restore", "blobs"} { // killed while it moved them
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := f.c
	c.DataDir = dir
	if err := newSystem(t, c).Start(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "did not finish: run 'ingot restore' again") {
		t.Fatalf("starting: %v, want a refusal", err)
	}
	g := f.restored(file, func(c *Config, r *installation.RestoreConfig) { c.DataDir, r.DataDir = dir, dir })
	g.stopApps()
	if _, err := os.Stat(filepath.Join(dir, ".restore")); err == nil {
		t.Error("the staging directory is still there")
	}
}

// TestBackupDeletedBlob: a blob that is deleted after the snapshot is not needed by the
// next; one that the server has lost is reported.
func TestBackupDeletedBlob(t *testing.T) {
	t.Parallel()
	f := startBackedUp(t, nil)
	var lost, deleted string
	for _, name := range []string{"lost", "deleted"} {
		_, pkg := f.faultySite.app(name)
		if name == "lost" {
			lost = pkg
		} else {
			deleted = pkg
		}
	}
	for _, pkg := range []string{lost, deleted} {
		if err := os.Remove(filepath.Join(f.c.DataDir, installation.BlobsDir, "packages", pkg)); err != nil {
			t.Fatal(err)
		}
	}
	// Between the first snapshot and the second the row of one is deleted.
	lists := 0
	before := func() {
		if lists++; lists == 2 {
			if a := f.ask(http.MethodDelete, "/v3/packages/"+deleted, nil); a.status != http.StatusAccepted {
				t.Errorf("delete: %d %s", a.status, a.body)
			}
			testkit.Eventually(t, "the package is deleted", func() bool {
				return f.ask(http.MethodGet, "/v3/packages/"+deleted,
					nil).status == http.StatusNotFound
			})
		}
	}
	parts, c := Parts(), f.config(filepath.Join(t.TempDir(), "file.age"))
	parts.OpenBlobs = func(dir string) (installation.Blobs, error) {
		files, err := blob.Open(dir)
		return savedBlobs{watchedBlobs{files, before}}, err
	}
	if _, err := parts.Backup(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	m, err := parts.Verify(t.Context(), c.Target, "", f.key, discard)
	if err != nil {
		t.Fatal(err)
	}
	if lists != 3 {
		t.Errorf("the packages were listed %d times, want 3: before and after the first snapshot, and after the second",
			lists)
	}
	if len(m.Missing) != 1 || m.Missing[0] != "packages/"+lost {
		t.Errorf("missing are %q, want the package that was lost", m.Missing)
	}
	f.stopApps()
}

// watchedBlobs calls before whenever packages are listed.
type watchedBlobs struct {
	blob.Store
	before func()
}

func (w watchedBlobs) List(ctx context.Context, kind blob.Kind) iter.Seq2[blob.Item, error] {
	if kind == blob.Packages {
		w.before()
	}
	return w.Store.List(ctx, kind)
}
