package backup_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/server/backup"
	"ingot/internal/server/backup/backuptest"
)

// keyed is a key, with the parts that servers have and those that a restore needs.
type keyed struct {
	public, private, signer string
	to                      backup.Recipients
	by                      backup.SigningKeys
	trust                   backup.Trust
}

func newKey(t *testing.T) (k keyed) {
	t.Helper()
	text, public, private, err := backup.NewKey("", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	k.public, k.private = public, private
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if k.to, err = backup.ParseRecipients(public); err != nil {
		t.Fatal(err)
	}
	if k.by, err = backup.ParseSigningKeys(private, k.to); err != nil {
		t.Fatal(err)
	}
	if k.trust.Keys, err = backup.ReadKey(file, nil); err != nil {
		t.Fatal(err)
	}
	_, signers, err := k.trust.Keys.SigningKeys()
	if err != nil {
		t.Fatal(err)
	}
	k.signer = signers[0]
	return k
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

var contents = map[string]string{
	"ingot.db":          strings.Repeat("page of a database ", 20_000),
	"secrets/key":       "secret",
	"empty":             "",
	"blobs/packages/p1": strings.Repeat("zip", 100),
}

// archive returns an archive of contents.
func archive(t *testing.T, to backup.Recipients, by backup.SigningKeys, id string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := backup.NewWriter(&b, to, by, backup.Header{ID: id, Ingot: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	stream := func(text string) {
		t.Helper()
		if _, err := w.Stream("ingot.db", 0o600,
			func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	blob := backup.Blob{Kind: "packages", Key: "p1", Size: int64(len(contents["blobs/packages/p1"])),
		SHA256: sum(contents["blobs/packages/p1"])}
	if err := w.Blob(blob, strings.NewReader(contents["blobs/packages/p1"])); err != nil {
		t.Fatal(err)
	}
	stream("an earlier snapshot, which does not count")
	stream(contents["ingot.db"])
	for _, name := range []string{"secrets/key", "empty"} {
		if _, err := w.File(name, 0o600, int64(len(contents[name])), strings.NewReader(contents[name])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close("", nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read reads an archive.
func read(r io.Reader, trust backup.Trust) (map[string]string, *backup.Manifest, error) {
	got := map[string]string{}
	m, err := backup.Read(r, trust, backup.Visitor{
		Header: func(backup.Header) error { return nil },
		File: func(name string, _ fs.FileMode, r io.Reader) error {
			text, err := io.ReadAll(r)
			got[name] = string(text)
			return err
		},
	})
	return got, m, err
}

func TestArchive(t *testing.T) {
	t.Parallel()
	k := newKey(t)
	text := archive(t, k.to, k.by, "id")
	got, m, err := read(bytes.NewReader(text), k.trust)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, contents) {
		t.Errorf("read %v, want what was written", slices.Collect(maps.Keys(got)))
	}
	if m.ID != "id" || m.Ingot != "1.2.3" || len(m.Files) != 3 || len(m.Blobs) != 1 {
		t.Errorf("the manifest is %+v", m)
	}
	if bytes.Contains(text, []byte("secret")) || bytes.Contains(text, []byte("ingot.db")) {
		t.Error("the archive is not encrypted")
	}

	if _, _, err := read(bytes.NewReader(text), newKey(t).trust); !errors.Is(err, backup.ErrWrongKey) {
		t.Errorf("with another key: %v, want %v", err, backup.ErrWrongKey)
	}
}

// TestSoakDamaged cuts an archive off at every byte, and changes every byte: no part of it
// counts then.
func TestSoakDamaged(t *testing.T) {
	t.Parallel()
	k := newKey(t)
	text := archive(t, k.to, k.by, "id")
	broken := func(what string, text []byte) {
		t.Helper()
		_, _, err := read(bytes.NewReader(text), k.trust)
		var damaged *backup.DamagedError
		if !errors.As(err, &damaged) && !errors.Is(err, backup.ErrWrongKey) {
			t.Fatalf("%s of %d bytes: %v, want that it is damaged", what, len(text), err)
		}
	}
	for n := range text {
		// All of them take a while; the beginning has the most forms.
		if os.Getenv("INGOT_SOAK") == "" && n > 300 && n < len(text)-50 && n%29 != 0 {
			continue
		}
		broken(fmt.Sprintf("cut off after %d", n), text[:n])
		changed := slices.Clone(text)
		changed[n] ^= 0x20
		broken(fmt.Sprintf("byte %d changed", n), changed)
	}
	broken("more at the end", append(slices.Clone(text), 'x'))
}

func TestNewer(t *testing.T) {
	t.Parallel()
	k := newKey(t)
	text := archive(t, k.to, k.by, "id")
	_, err := backup.Read(bytes.NewReader(text), k.trust, backup.Visitor{Header: func(h backup.Header) error {
		return &backup.NewerError{Wrote: h.Ingot, What: "format 9"}
	}})
	want := "the backup was made by ingot 1.2.3, which is newer than this program (format 9): use that version"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	text, public, private, err := backup.NewKey("open sesame", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("AGE-SECRET-KEY")) {
		t.Error("a key with a passphrase is not encrypted")
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(word string) func() (string, error) { return func() (string, error) { return word, nil } }
	if _, err := backup.ReadKey(file, says("wrong")); err == nil ||
		!strings.Contains(err.Error(), "the passphrase is wrong") {
		t.Errorf("wrong passphrase: %v", err)
	}
	keys, err := backup.ReadKey(file, says("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	to, err := backup.ParseRecipients("# comment, with words\n" + public + ", " + public)
	if err != nil {
		t.Fatal(err)
	}
	by, err := backup.ParseSigningKeys(private, to)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(bytes.NewReader(archive(t, to, by, "id")), backup.Trust{Keys: keys}); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o644); err != nil { //nolint:gosec // that is what is tested
		t.Fatal(err)
	}
	if _, err := backup.ReadKey(file, nil); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
	for in, want := range map[string]string{"": "no recipient", "x": "public key, age1",
		"AGE-SECRET-KEY-1X": "must not be on the server"} {
		if _, err := backup.ParseRecipients(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("recipient %q: %v, want %q", in, err, want)
		}
	}
}

// TestDiskFull: what cannot be written completely does not exist.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "backup")
	full := &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
	err := backup.WriteFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, full)
	})
	if err == nil || !strings.Contains(err.Error(), "the disk of "+dir+" is full, nothing was kept") {
		t.Errorf("got %v, want that the disk is full", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	// What a killed process left is replaced; one that runs is not.
	if err := os.WriteFile(filepath.Join(dir, ".backup.partial"), []byte("a long rest of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = backup.WriteFile(path, func(w io.Writer) error {
		if err := backup.WriteFile(path, func(io.Writer) error { return nil }); !errors.Is(err, backup.ErrBusy) {
			t.Errorf("a second one: %v, want %v", err, backup.ErrBusy)
		}
		_, err := io.WriteString(w, "whole")
		return err
	})
	text, _ := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err != nil || statErr != nil || string(text) != "whole" || info.Mode().Perm() != 0o600 {
		t.Errorf("got %q, %v, %v, want the whole file with mode 0600", text, err, info)
	}
}

// TestFolder tests a repository in a directory.
func TestFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "backups")
	f, err := backup.NewFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	backuptest.Run(t, f, 300_000)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v, %v", path, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSwapped: an object in the place of another is noticed.
func TestSwapped(t *testing.T) {
	t.Parallel()
	k := newKey(t)
	to, keys := k.to, k.trust.Keys
	f, err := backup.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if _, err := to.PutSealed(t.Context(), f, to.BlobObject(sum(text)), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{"one": "", "two": "is another one: its SHA-256 is " + sum("one")} {
		object, err := f.Open(t.Context(), to.BlobObject(sum("one")))
		if err != nil {
			t.Fatal(err)
		}
		content, err := backup.ReadBlob(object, keys, backup.Blob{Kind: "packages", Key: "k", Size: 3, SHA256: sum(text)})
		if err == nil {
			_, err = io.ReadAll(content)
		}
		if err := object.Close(); err != nil {
			t.Error(err)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("blob %s: %v, want %q", text, err, want)
		}
	}
}
