package blob_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/blob/blobtest"
)

var _ interface {
	io.ReadSeekCloser
	io.ReaderAt
} = (*blob.Blob)(nil)

func TestFiles(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blobtest.Subject {
		t.Helper()
		b := setup(t, blob.PoolLimits{})
		return blobtest.Subject{
			Store: b.store,
			Age: func(d time.Duration) {
				for _, name := range b.files(t) {
					name = filepath.Join(b.dir, name)
					info, err := os.Stat(name)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.Chtimes(name, info.ModTime().Add(-d), info.ModTime().Add(-d)); err != nil {
						t.Fatal(err)
					}
				}
			},
			Other: func() blob.Store {
				other, err := blob.Open(b.dir)
				if err != nil {
					t.Fatal(err)
				}
				return other
			},
			Left: func() []string { return b.files(t) },
		}
	})
}

type bundle struct {
	dir   string
	store *blob.Files
	ctx   context.Context
}

func setup(t *testing.T, limits blob.PoolLimits) bundle {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	s, err := blob.OpenWith(dir, limits)
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

// TestAfterACrash: what a killed process leaves in tmp is never seen, and goes.
func TestAfterACrash(t *testing.T) {
	t.Parallel()
	b := setup(t, blob.PoolLimits{})
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
	if err := s.Tidy(b.ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := b.files(t), []string{"packages/a"}; !slices.Equal(got, want) {
		t.Errorf("files: %v, want %v", got, want)
	}
}

func TestDamagedBlob(t *testing.T) {
	t.Parallel()
	b := setup(t, blob.PoolLimits{})
	b.put(t, "a", "hello, world")
	name := filepath.Join(b.dir, "packages", "a")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for what, content := range map[string][]byte{
		"empty": nil, "short": whole[:10], "cut": whole[:len(whole)-1], "longer": append(bytes.Clone(whole), 'x'),
		"shifted": whole[1:], "changed": append(append(bytes.Clone(whole[:len(whole)-20]), whole[len(whole)-20]+1),
			whole[len(whole)-19:]...),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := b.store.Open(b.ctx, blob.Packages, "a"); !fault.Is(err, fault.Internal) {
			t.Errorf("opening what is %s: error is %v, want %s", what, err, fault.Internal)
		}
	}
}

func TestListOfMany(t *testing.T) {
	t.Parallel()
	b := setup(t, blob.PoolLimits{})
	for i := range 600 {
		b.put(t, fmt.Sprintf("key-%03d", i), "12345")
	}
	if err := os.WriteFile(filepath.Join(b.dir, "packages", "NOT.ours"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var all []string
	for item, err := range b.store.List(b.ctx, blob.Packages) {
		if err != nil || item.Size != 5 || time.Since(item.Modified) > time.Hour {
			t.Fatalf("item is %v, %v, want a recent one of 5 bytes", item, err)
		}
		all = append(all, item.Key)
	}
	slices.Sort(all)
	if len(all) != 600 || all[0] != "key-000" || all[599] != "key-599" {
		t.Errorf("%d keys, %v, want key-000 to key-599", len(all), all)
	}
}

func TestKindString(t *testing.T) {
	t.Parallel()
	for kind, want := range map[blob.Kind]string{
		blob.Packages: "package", blob.Droplets: "droplet", blob.Buildpacks: "buildpack",
		blob.BuildCache: "build cache", blob.Resources: "file", blob.Repositories: "repository", 0: "blob of kind 0",
	} {
		if got := kind.String(); got != want {
			t.Errorf("%d: %q, want %q", int(kind), got, want)
		}
	}
}
