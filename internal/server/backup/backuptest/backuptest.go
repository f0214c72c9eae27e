package backuptest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/server/backup"
)

// Run tests a new repository, whose objects may have several parts.
func Run(t *testing.T, o backup.Objects, large int) {
	t.Helper()
	ctx, unlock, err := o.Lock(t.Context())
	testkit.Must(t, err)
	if _, _, err := o.Lock(t.Context()); !errors.Is(err, backup.ErrBusy) {
		t.Errorf("a second lock: %v, want %v", err, backup.ErrBusy)
	}
	for _, size := range []int{0, 1, large, 2 * large, 2*large + 1} {
		want := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		if n, err := o.Put(ctx, "blobs/x/sized.age", bytes.NewReader(want)); err != nil || n != int64(size) {
			t.Fatalf("put %d bytes: %d, %v", size, n, err)
		}
		if got := content(t, o, "blobs/x/sized.age"); got != string(want) {
			t.Errorf("%d bytes come back as %d", size, len(got))
		}
	}
	broken := errors.New("broken")
	for _, before := range []int{0, large + 1} {
		r := io.MultiReader(strings.NewReader(strings.Repeat("x", before)), failing{broken})
		if _, err := o.Put(ctx, "blobs/x/sized.age", r); !errors.Is(err, broken) {
			t.Errorf("put what fails: %v, want %v", err, broken)
		}
	}
	if got := content(t, o, "blobs/x/sized.age"); len(got) != 2*large+1 {
		t.Errorf("after a failed put it has %d bytes, want those of before", len(got))
	}
	if _, err := o.Open(ctx, "backups/none.age"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open what does not exist: %v", err)
	}
	if err := o.Delete(ctx, "backups/none.age"); err != nil {
		t.Errorf("delete what does not exist: %v", err)
	}
	keep(ctx, t, o)
	unlock()
	_, unlock, err = o.Lock(t.Context())
	if err != nil {
		t.Fatalf("lock again: %v", err)
	}
	unlock()
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// keep writes some backups with shared blobs, and removes the older ones.
func keep(ctx context.Context, t *testing.T, o backup.Objects) {
	t.Helper()
	put := func(name string) string {
		t.Helper()
		if _, err := o.Put(ctx, name, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	shared, first, last := put("blobs/a/shared.age"), put("blobs/a/first.age"), put("blobs/b/last.age")
	for i, objects := range [][]string{{shared, first}, {shared}, {shared, last}} {
		id := backup.NewID(time.Unix(int64(i), 0))
		if _, err := backup.PutArchive(ctx, o, id,
			func(w io.Writer) error { _, err := io.WriteString(w, id); return err }); err != nil {
			t.Fatal(err)
		}
		testkit.Must(t, backup.Commit(ctx, o, backup.Index{Format: backup.Format, ID: id, Objects: objects}))
	}
	put(backup.ArchiveName("killed")) // of a process that was killed
	bad := errors.New("bad")
	if _, err := backup.PutArchive(ctx, o, "bad", func(io.Writer) error { return bad }); !errors.Is(err, bad) {
		t.Errorf("an archive that cannot be written: %v, want %v", err, bad)
	}
	all, err := backup.List(ctx, o)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d backups, %v, want 3", len(all), err)
	}
	if found, err := backup.Find(ctx, o, ""); err != nil || found.ID != all[2].ID {
		t.Errorf("the newest is %q, %v, want %q", found.ID, err, all[2].ID)
	}
	if _, err := backup.Find(ctx, o, "killed"); !errors.Is(err, backup.ErrNoBackup) {
		t.Errorf("one without an index: %v, want %v", err, backup.ErrNoBackup)
	}
	pruned, err := backup.Prune(ctx, o, 2)
	if err != nil || len(pruned.Backups) != 1 || pruned.Backups[0] != all[0].ID {
		t.Fatalf("pruned %v, %v, want %s", pruned, err, all[0].ID)
	}
	want := []string{shared, last}
	for _, i := range all[1:] {
		want = append(want, backup.ArchiveName(i.ID), strings.TrimSuffix(backup.ArchiveName(i.ID), ".age")+".json")
	}
	var got []string
	for _, folder := range []string{"blobs/", "backups/"} {
		if err := o.List(ctx, folder, func(name string, _ int64) error { got = append(got, name); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}

func content(t *testing.T, o backup.Objects, name string) string {
	t.Helper()
	r, err := o.Open(t.Context(), name)
	testkit.Must(t, err)
	defer r.Close()
	text, err := io.ReadAll(r)
	testkit.Must(t, err)
	return string(text)
}
