package blob_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/blob"
)

var _ interface {
	io.ReadSeekCloser
	io.ReaderAt
} = (*blob.Blob)(nil)

const guid = "3f1c6d1e-0f8e-4b0a-9f57-2d8e0c5e7a10"

type bundle struct {
	dir   string
	store *blob.Store
	ctx   context.Context
}

func setup(t *testing.T, options ...blob.Option) bundle {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	s, err := blob.Open(dir, options...)
	if err != nil {
		t.Fatal(err)
	}
	return bundle{dir, s, t.Context()}
}

func (b bundle) put(t *testing.T, key, content string) blob.Info {
	t.Helper()
	info, err := b.store.Put(b.ctx, blob.Packages, key, strings.NewReader(content), blob.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func (b bundle) get(t *testing.T, key string) string {
	t.Helper()
	r, err := b.store.Open(b.ctx, blob.Packages, key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// files are the names of all files in the store.
func (b bundle) files(t *testing.T) []string {
	t.Helper()
	return filesIn(t, b.dir)
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i], _ = filepath.Rel(dir, all[i])
	}
	return all
}

func TestPutAndOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, content := range []string{"hello", "", "another", strings.Repeat("0123456789", 100_000)} {
		info := b.put(t, guid, content)
		want := blob.Info{
			Size:     int64(len(content)),
			SHA256:   fmt.Sprintf("%x", sha256.Sum256([]byte(content))),
			SHA1:     fmt.Sprintf("%x", sha1.Sum([]byte(content))),
			Modified: info.Modified,
		}
		if info != want {
			t.Errorf("put: %+v, want %+v", info, want)
		}
		stat, err := b.store.Stat(b.ctx, blob.Packages, guid)
		want.Modified = stat.Modified
		if err != nil || stat != want {
			t.Errorf("stat: %+v, %v", stat, err)
		}
		if got := b.get(t, guid); got != content {
			t.Errorf("got %d bytes, want %d", len(got), len(content))
		}
	}
	if got := b.files(t); !slices.Equal(got, []string{"packages/" + guid}) {
		t.Errorf("files: %v", got)
	}
	if _, err := b.store.Open(b.ctx, blob.Droplets, guid); !fault.Is(err, fault.NotFound) {
		t.Errorf("another kind: %v", err)
	}

	r, err := b.store.Open(b.ctx, blob.Packages, guid)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if end, err := r.Seek(0, io.SeekEnd); err != nil || end != 1_000_000 || r.Size() != 1_000_000 {
		t.Errorf("end at %d, %v, size %d", end, err, r.Size())
	}
	five := make([]byte, 10)
	if n, err := r.ReadAt(five, 999_995); n != 5 || !errors.Is(err, io.EOF) {
		t.Errorf("read over the end: %q, %v", five[:n], err)
	}

	// A reader keeps what it has.
	b.put(t, guid, "new")
	if err := b.store.Delete(b.ctx, blob.Packages, guid); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if content, err := io.ReadAll(r); len(content) != 1_000_000 || err != nil {
		t.Errorf("after the delete: %d bytes, %v", len(content), err)
	}
	if _, err := b.store.Open(b.ctx, blob.Packages, guid); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted, but %v", err)
	}
	if err := b.store.Delete(b.ctx, blob.Packages, guid); err != nil {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, key := range []string{"", ".", "..", "../x", "a/b", "/etc", "A", "a.b", "a\x00", "ä", "a b", strings.Repeat("a", 129), `a\b`} {
		if _, err := b.store.Put(b.ctx, blob.Packages, key, strings.NewReader("x"), blob.PutOptions{}); !fault.Is(err, fault.Unprocessable) {
			t.Errorf("put %q: %v", key, err)
		}
		if _, err := b.store.Open(b.ctx, blob.Packages, key); !fault.Is(err, fault.NotFound) {
			t.Errorf("open %q: %v", key, err)
		}
		if err := b.store.Delete(b.ctx, blob.Packages, key); err != nil {
			t.Errorf("delete %q: %v", key, err)
		}
	}
	for _, key := range []string{"a", guid, guid + "-cflinuxfs4", strings.Repeat("a", 128), "0_-"} {
		b.put(t, key, key)
	}
	for _, kind := range []blob.Kind{0, 99, blob.Resources} {
		if _, err := b.store.Put(b.ctx, kind, "a", strings.NewReader("x"), blob.PutOptions{}); err == nil {
			t.Errorf("kind %d was accepted", kind)
		}
	}
	if got := b.files(t); len(got) != 5 {
		t.Errorf("files: %v", got)
	}
}

func TestMaxSize(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := blob.PutOptions{MaxSize: 1 << 20}
	if _, err := b.store.Put(b.ctx, blob.Droplets, "a", bytes.NewReader(make([]byte, 1<<20)), o); err != nil {
		t.Errorf("as large as allowed: %v", err)
	}
	_, err := b.store.Put(b.ctx, blob.Droplets, "a", bytes.NewReader(make([]byte, 1<<20+1)), o)
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != fault.TooLarge || e.Message != "The droplet is larger than the limit of 1 MiB" {
		t.Errorf("too large: %v", err)
	}
	if info, err := b.store.Stat(b.ctx, blob.Droplets, "a"); err != nil || info.Size != 1<<20 {
		t.Errorf("the old one: %+v, %v", info, err)
	}
	if got := b.files(t); !slices.Equal(got, []string{"droplets/a"}) {
		t.Errorf("files: %v", got)
	}
}

func TestAnUploadThatBreaksOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "a", "old")
	gone := errors.New("the client is gone")
	r := io.MultiReader(strings.NewReader(strings.Repeat("x", 500_000)), iotest.ErrReader(gone))
	if _, err := b.store.Put(b.ctx, blob.Packages, "a", r, blob.PutOptions{}); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	r = io.MultiReader(strings.NewReader("x"), readerFunc(func(p []byte) (int, error) { cancel(); return 1, nil }))
	if _, err := b.store.Put(ctx, blob.Packages, "a", r, blob.PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := b.get(t, "a"); got != "old" {
		t.Errorf("got %q", got)
	}
	if got := b.files(t); !slices.Equal(got, []string{"packages/a"}) {
		t.Errorf("files: %v", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestAfterACrash: what a killed process leaves in tmp is never seen, and goes.
func TestAfterACrash(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "a", "whole")
	old, recent := filepath.Join(b.dir, "tmp", "put-1"), filepath.Join(b.dir, "tmp", "put-2")
	for _, name := range []string{old, recent} {
		if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	s, err := blob.Open(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.files(t), []string{"packages/a", "tmp/put-2"}; !slices.Equal(got, want) {
		t.Errorf("files: %v, want %v", got, want)
	}
	if err := os.Chtimes(recent, past, past); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(b.ctx, blob.Packages, func(string) bool { return true }, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := b.files(t), []string{"packages/a"}; !slices.Equal(got, want) {
		t.Errorf("files: %v, want %v", got, want)
	}
}

func TestDamagedBlob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "a", "hello, world")
	name := filepath.Join(b.dir, "packages", "a")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for what, content := range map[string][]byte{
		"empty": nil, "short": whole[:10], "cut": whole[:len(whole)-1], "longer": append(bytes.Clone(whole), 'x'),
		"shifted": whole[1:], "changed": append(append(bytes.Clone(whole[:len(whole)-20]), whole[len(whole)-20]+1), whole[len(whole)-19:]...),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := b.store.Open(b.ctx, blob.Packages, "a"); !fault.Is(err, fault.Internal) {
			t.Errorf("opening what is %s: error is %v, want %s", what, err, fault.Internal)
		}
	}
}

// TestSameKeyAtTheSameTime: readers see one of the blobs, and all of it.
func TestSameKeyAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, err := blob.Open(b.dir) // as another process would
	if err != nil {
		t.Fatal(err)
	}
	b.put(t, "a", strings.Repeat("0", 50_000))
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			s := []*blob.Store{b.store, other}[i%2]
			content := bytes.Repeat([]byte{byte('a' + i)}, 50_000)
			for range 5 {
				if _, err := s.Put(b.ctx, blob.Packages, "a", bytes.NewReader(content), blob.PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 20 {
				r, err := b.store.Open(b.ctx, blob.Packages, "a")
				if err != nil {
					t.Error(err)
					return
				}
				content, err := io.ReadAll(r)
				if err != nil || len(content) != 50_000 || len(bytes.Trim(content, string(content[:1]))) > 0 ||
					fmt.Sprintf("%x", sha256.Sum256(content)) != r.SHA256 {
					t.Errorf("a mixed blob of %d bytes, %v", len(content), err)
				}
				r.Close()
			}
		})
	}
	group.Wait()
	if got := b.files(t); !slices.Equal(got, []string{"packages/a"}) {
		t.Errorf("files: %v", got)
	}
}

func TestListSizeAndSweep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 600 {
		b.put(t, fmt.Sprintf("key-%03d", i), "12345")
	}
	if err := os.WriteFile(filepath.Join(b.dir, "packages", "NOT.ours"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	keys := func() []string {
		var all []string
		for item, err := range b.store.List(blob.Packages) {
			if err != nil || item.Size != 5 || time.Since(item.Modified) > time.Hour*3 {
				t.Fatalf("item is %v, %v, want a recent one of 5 bytes", item, err)
			}
			all = append(all, item.Key)
		}
		slices.Sort(all)
		return all
	}
	if got := keys(); len(got) != 600 || got[0] != "key-000" || got[599] != "key-599" {
		t.Errorf("%d keys: %v", len(got), got)
	}
	for range b.store.List(blob.Packages) {
		break
	}
	if size, err := b.store.Size(b.ctx, blob.Packages); err != nil || size != 3000 {
		t.Errorf("size %d, %v", size, err)
	}
	// Only what is old enough goes.
	past := time.Now().Add(-2 * time.Hour)
	for i := range 500 {
		if err := os.Chtimes(filepath.Join(b.dir, "packages", fmt.Sprintf("key-%03d", i)), past, past); err != nil {
			t.Fatal(err)
		}
	}
	swept, err := b.store.Sweep(b.ctx, blob.Packages, func(key string) bool { return key == "key-007" }, time.Hour)
	if err != nil || swept != (blob.Swept{Blobs: 499, Size: 499 * 5}) {
		t.Errorf("swept %+v, %v", swept, err)
	}
	if got := keys(); len(got) != 101 || got[0] != "key-007" || got[1] != "key-500" {
		t.Errorf("%d keys: %v", len(got), got)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := b.store.Sweep(ctx, blob.Packages, func(string) bool { return false }, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestKindString(t *testing.T) {
	t.Parallel()
	for kind, want := range map[blob.Kind]string{
		blob.Packages: "package", blob.Droplets: "droplet", blob.Buildpacks: "buildpack",
		blob.BuildCache: "build cache", blob.Resources: "file", 0: "blob of kind 0",
	} {
		if got := kind.String(); got != want {
			t.Errorf("%d: %q, want %q", int(kind), got, want)
		}
	}
}
