package blobtest

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/storage/blob"
)

// Subject is a store under test.
type Subject struct {
	blob.Store
	// Age makes all blobs older.
	Age func(time.Duration)
	// Other returns another store with the same blobs, as another server has.
	Other func() blob.Store
	// Left returns what is stored, by name, without List: also what the store forgot
	// to remove.
	Left func() []string
}

// Run tests a store. Setup returns an empty one.
func Run(t *testing.T, setup func(t *testing.T) Subject) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, s Subject){
		"put and open": putAndOpen, "large": large, "once": once, "keys": keys, "max size": maxSize,
		"an upload that breaks off": breaksOff, "same key at the same time": sameKey, "one blob for many": oneForMany,
		"list and sweep": listAndSweep, "another server": anotherServer, "canceled": canceled, "copy": copyTo,
		"match": match, "scopes": scopes, "resources of a zip": resourcesOfAZip, "unused resources": unusedResources,
		"pool at the same time": poolAtTheSameTime,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, setup(t))
		})
	}
}

const guid = "3f1c6d1e-0f8e-4b0a-9f57-2d8e0c5e7a10"

func put(t *testing.T, s blob.Store, kind blob.Kind, key, content string) blob.Info {
	t.Helper()
	info, err := s.Put(t.Context(), kind, key, strings.NewReader(content), blob.PutOptions{})
	testkit.Must(t, err)
	return info
}

func get(t *testing.T, s blob.Store, kind blob.Kind, key string) string {
	t.Helper()
	r, err := s.Open(t.Context(), kind, key)
	testkit.Must(t, err)
	defer r.Close()
	content, err := io.ReadAll(r)
	testkit.Must(t, err)
	return string(content)
}

func infoOf(content string) blob.Info {
	return blob.Info{
		Size:   int64(len(content)),
		SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(content))),
		SHA1:   fmt.Sprintf("%x", sha1.Sum([]byte(content))),
	}
}

func putAndOpen(t *testing.T, s Subject) {
	for _, kind := range []blob.Kind{blob.Packages, blob.Droplets, blob.Buildpacks, blob.BuildCache, blob.Repositories} {
		for _, content := range []string{"hello", "", "another", strings.Repeat("0123456789", 100_000)} {
			want := infoOf(content)
			if info := put(t, s, kind, guid, content); info != want {
				t.Errorf("put %+v, want %+v", info, want)
			}
			if stat, err := s.Stat(t.Context(), kind, guid); err != nil || stat != want {
				t.Errorf("stat is %+v, %v, want %+v", stat, err, want)
			}
			if got := get(t, s, kind, guid); got != content {
				t.Errorf("got %d bytes, want %d", len(got), len(content))
			}
		}
	}
	testkit.Must(t, s.Delete(t.Context(), blob.Droplets, guid))
	if b, err := s.Open(t.Context(), blob.Droplets, guid); !fault.Is(err, fault.NotFound) {
		t.Errorf("of another kind, %v was opened, %v, want %s", b, err, fault.NotFound)
	}
	if got, want := s.Left(), []string{"buildcache/" + guid, "buildpacks/" + guid,
		"packages/" + guid, "repositories/" + guid}; !slices.Equal(got, want) {
		t.Errorf("stored are %v, want %v", got, want)
	}

	r, err := s.Open(t.Context(), blob.Packages, guid)
	testkit.Must(t, err)
	defer r.Close()
	if end, err := r.Seek(0, io.SeekEnd); err != nil || end != 1_000_000 || r.Size() != 1_000_000 {
		t.Errorf("the end is at %d, %v, the size %d, want 1000000", end, err, r.Size())
	}
	five := make([]byte, 10)
	if n, err := r.ReadAt(five, 999_995); n != 5 || !errors.Is(err, io.EOF) {
		t.Errorf("read over the end %q, %v, want 5 bytes and %v", five[:n], err, io.EOF)
	}

	// A reader keeps what it has.
	put(t, s, blob.Packages, guid, "new")
	testkit.Must(t, s.Delete(t.Context(), blob.Packages, guid))
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if content, err := io.ReadAll(r); len(content) != 1_000_000 || err != nil {
		t.Errorf("after the delete %d bytes, %v, want 1000000", len(content), err)
	}
	if _, err := s.Open(t.Context(), blob.Packages, guid); !fault.Is(err, fault.NotFound) {
		t.Errorf("opening a deleted blob: %v, want %s", err, fault.NotFound)
	}
	if _, err := s.Stat(t.Context(), blob.Packages, guid); !fault.Is(err, fault.NotFound) {
		t.Errorf("stat of a deleted blob: %v, want %s", err, fault.NotFound)
	}
	if err := s.Delete(t.Context(), blob.Packages, guid); err != nil {
		t.Errorf("deleted twice: %v", err)
	}
}

// random is content that a mistake in putting parts together would change.
func random(size int) string {
	out := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = r.Read(out) // never fails
	return string(out)
}

func large(t *testing.T, s Subject) {
	content := random(3<<20 + 77)
	want := infoOf(content)
	if info := put(t, s, blob.Packages, guid, content); info != want {
		t.Errorf("put %+v, want %+v", info, want)
	}
	for what, store := range map[string]blob.Store{"the server": s, "another one": s.Other()} {
		r, err := store.Open(t.Context(), blob.Packages, guid)
		testkit.Must(t, err)
		got, err := io.ReadAll(r)
		if err != nil || string(got) != content || r.Info != want {
			t.Errorf("%s got %d bytes with %+v, %v, want %+v", what, len(got), r.Info, err, want)
		}
		r.Close()
	}
}

func once(t *testing.T, s Subject) {
	for _, content := range []string{"first", random(3 << 20)} {
		only := blob.PutOptions{Once: true}
		key := fmt.Sprintf("key-%d", len(content))
		for _, store := range []blob.Store{s, s.Other(), s} {
			info, err := store.Put(t.Context(), blob.Droplets, key, strings.NewReader(content), only)
			if err != nil || info != infoOf(content) {
				t.Errorf("put once: %+v, %v, want %+v", info, err, infoOf(content))
			}
		}
		for _, other := range []string{"second", random(3<<20 + 1)} {
			if info, err := s.Other().Put(t.Context(), blob.Droplets, key, strings.NewReader(other),
				only); !fault.Is(err, fault.Conflict) {
				t.Errorf("other content: %+v, %v, want %s", info, err, fault.Conflict)
			}
		}
		if got := get(t, s.Other(), blob.Droplets, key); got != content {
			t.Errorf("stored are %d bytes, want the first %d", len(got), len(content))
		}
		put(t, s, blob.Droplets, key, "third")
		if got := get(t, s, blob.Droplets, key); got != "third" {
			t.Errorf("put without Once, but got %d bytes, want third", len(got))
		}
	}
}

func keys(t *testing.T, s Subject) {
	for _, key := range []string{"", ".", "..", "../x", "a/b", "/etc", "A", "a.b", "a\x00", "ä", "a b",
		strings.Repeat("a", 129), `a\b`} {
		if _, err := s.Put(t.Context(), blob.Packages, key, strings.NewReader("x"),
			blob.PutOptions{}); !fault.Is(err, fault.Unprocessable) {
			t.Errorf("put %q: %v, want %s", key, err, fault.Unprocessable)
		}
		if _, err := s.Open(t.Context(), blob.Packages, key); !fault.Is(err, fault.NotFound) {
			t.Errorf("open %q: %v, want %s", key, err, fault.NotFound)
		}
		if err := s.Delete(t.Context(), blob.Packages, key); err != nil {
			t.Errorf("delete %q: %v", key, err)
		}
	}
	for _, key := range []string{"a", guid, guid + "-cflinuxfs4", strings.Repeat("a", 128), "0_-"} {
		put(t, s, blob.Packages, key, key)
	}
	for _, kind := range []blob.Kind{0, 99, blob.Resources} {
		if _, err := s.Put(t.Context(), kind, "a", strings.NewReader("x"), blob.PutOptions{}); err == nil {
			t.Errorf("kind %d was accepted", kind)
		}
	}
	if got := s.Left(); len(got) != 5 {
		t.Errorf("stored are %v, want 5", got)
	}
}

func maxSize(t *testing.T, s Subject) {
	o := blob.PutOptions{MaxSize: 1 << 20}
	if _, err := s.Put(t.Context(), blob.Droplets, "a", bytes.NewReader(make([]byte, 1<<20)), o); err != nil {
		t.Errorf("as large as allowed: %v", err)
	}
	_, err := s.Put(t.Context(), blob.Droplets, "a", bytes.NewReader(make([]byte, 1<<20+1)), o)
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != fault.TooLarge || e.Message != "The droplet is larger than the limit of 1 MiB" {
		t.Errorf("too large: %v", err)
	}
	if info, err := s.Stat(t.Context(), blob.Droplets, "a"); err != nil || info.Size != 1<<20 {
		t.Errorf("the old one is %+v, %v, want it unchanged", info, err)
	}
	if got := s.Left(); !slices.Equal(got, []string{"droplets/a"}) {
		t.Errorf("stored are %v, want droplets/a", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func breaksOff(t *testing.T, s Subject) {
	put(t, s, blob.Packages, "a", "old")
	gone := errors.New("the client is gone")
	r := io.MultiReader(strings.NewReader(strings.Repeat("x", 500_000)), iotest.ErrReader(gone))
	if _, err := s.Put(t.Context(), blob.Packages, "a", r, blob.PutOptions{}); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r = io.MultiReader(strings.NewReader("x"), readerFunc(func([]byte) (int, error) { cancel(); return 1, nil }))
	if _, err := s.Put(ctx, blob.Packages, "a", r, blob.PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := get(t, s, blob.Packages, "a"); got != "old" {
		t.Errorf("got %q, want old", got)
	}
	if got := s.Left(); !slices.Equal(got, []string{"packages/a"}) {
		t.Errorf("stored are %v, want packages/a", got)
	}
}

// sameKey: readers see one of the blobs, and all of it.
func sameKey(t *testing.T, s Subject) {
	stores := []blob.Store{s, s.Other()}
	put(t, s, blob.Buildpacks, "a", strings.Repeat("0", 50_000))
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			content := bytes.Repeat([]byte{byte('a' + i)}, 50_000)
			for range 3 {
				if _, err := stores[i%2].Put(t.Context(), blob.Buildpacks, "a", bytes.NewReader(content),
					blob.PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 6 {
				r, err := stores[i%2].Open(t.Context(), blob.Buildpacks, "a")
				if fault.Is(err, fault.Unavailable) {
					continue // replaced again and again
				}
				if err != nil {
					t.Error(err)
					return
				}
				content, err := io.ReadAll(r)
				if err != nil || len(content) != 50_000 || len(bytes.Trim(content, string(content[:1]))) > 0 ||
					infoOf(string(content)) != r.Info {
					t.Errorf("a mixed blob of %d bytes, %v", len(content), err)
				}
				r.Close()
			}
		})
	}
	group.Wait()
	if got := s.Left(); !slices.Equal(got, []string{"buildpacks/a"}) {
		t.Errorf("stored are %v, want buildpacks/a", got)
	}
}

func oneForMany(t *testing.T, s Subject) {
	content := random(200_000)
	put(t, s, blob.Droplets, "a", content)
	other := s.Other()
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			r, err := other.Open(t.Context(), blob.Droplets, "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			if got, err := io.ReadAll(r); err != nil || string(got) != content {
				t.Errorf("got %d bytes, %v, want %d", len(got), err, len(content))
			}
		})
	}
	group.Wait()
}

func listed(t *testing.T, s blob.Store, kind blob.Kind) []string {
	t.Helper()
	var all []string
	for item, err := range s.List(t.Context(), kind) {
		if err != nil || item.Size != 5 || item.Modified.IsZero() {
			t.Fatalf("item is %v, %v, want one of 5 bytes with its time", item, err)
		}
		all = append(all, item.Key)
	}
	slices.Sort(all)
	return all
}

func listAndSweep(t *testing.T, s Subject) {
	for i := range 20 {
		put(t, s, blob.Packages, fmt.Sprintf("key-%02d", i), "12345")
	}
	put(t, s, blob.Droplets, "another", "12345")
	if got := listed(t, s, blob.Packages); len(got) != 20 || got[0] != "key-00" || got[19] != "key-19" {
		t.Errorf("listed %v, want key-00 to key-19", got)
	}
	for range s.List(t.Context(), blob.Packages) {
		break
	}
	s.Age(50 * time.Hour)
	for i := range 5 {
		put(t, s, blob.Packages, fmt.Sprintf("new-%02d", i), "12345")
	}
	// Only what is old enough goes.
	asked := 0
	swept, err := s.Sweep(t.Context(), blob.Packages, func(keys []string) ([]string, error) {
		asked += len(keys)
		return slices.DeleteFunc(keys, func(key string) bool { return key == "key-07" }), nil
	}, time.Hour)
	if err != nil || swept != (blob.Swept{Blobs: 19, Size: 19 * 5}) || asked != 20 {
		t.Errorf("swept %+v of %d, %v, want 19 of 20", swept, asked, err)
	}
	if got, want := listed(t, s, blob.Packages), []string{"key-07", "new-00", "new-01", "new-02", "new-03",
		"new-04"}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	broken := errors.New("the database is away")
	if _, err := s.Sweep(t.Context(), blob.Droplets, func([]string) ([]string, error) { return nil, broken },
		time.Hour); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if got := listed(t, s, blob.Droplets); !slices.Equal(got, []string{"another"}) {
		t.Errorf("left are %v, want another", got)
	}
	if err := s.Tidy(t.Context()); err != nil {
		t.Error(err)
	}
}

// anotherServer sees what this one changes, also in what it has opened before.
func anotherServer(t *testing.T, s Subject) {
	other := s.Other()
	put(t, s, blob.Buildpacks, "a", "one")
	put(t, s, blob.BuildCache, "a", "one")
	for _, content := range []string{"one", "two", "three"} {
		for _, kind := range []blob.Kind{blob.Buildpacks, blob.BuildCache, blob.Repositories} {
			put(t, s, kind, "a", content)
			if got := get(t, other, kind, "a"); got != content {
				t.Errorf("the other got %q, want %q", got, content)
			}
		}
	}
	testkit.Must(t, s.Delete(t.Context(), blob.BuildCache, "a"))
	if _, err := other.Open(t.Context(), blob.BuildCache, "a"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the other got %v, want %s", err, fault.NotFound)
	}
}

func canceled(t *testing.T, s Subject) {
	put(t, s, blob.Packages, "a", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"open":   second(s.Open(ctx, blob.Packages, "a")),
		"stat":   second(s.Stat(ctx, blob.Packages, "a")),
		"delete": s.Delete(ctx, blob.Packages, "a"),
		"sweep": second(s.Sweep(ctx, blob.Packages, func([]string) ([]string, error) {
			return nil, errors.New("called")
		}, 0)),
		"match": second(s.Match(ctx, "me", []blob.Resource{resource(content("a", 100_000))})),
		"add":   second(s.AddResources(ctx, "me", files(content("a", 100_000)))),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", what, err, context.Canceled)
		}
	}
	if got := get(t, s, blob.Packages, "a"); got != "x" {
		t.Errorf("got %q, want x", got)
	}
}

func second[T any](_ T, err error) error { return err }

func copyTo(t *testing.T, s Subject) {
	to, err := blob.Open(t.TempDir())
	testkit.Must(t, err)
	for i := range 7 {
		put(t, s, blob.Packages, fmt.Sprint(i), random(1000+i))
	}
	put(t, s, blob.Buildpacks, "b", "buildpack")
	run := func(from, to blob.Store) (copied, skipped int) {
		t.Helper()
		if err := blob.Copy(t.Context(), from, to, func(_ blob.Kind, c blob.Copied) {
			copied, skipped = copied+c.Blobs, skipped+c.Skipped
		}); err != nil {
			t.Fatal(err)
		}
		return copied, skipped
	}
	if copied, skipped := run(s, to); copied != 8 || skipped != 0 {
		t.Errorf("copied %d, skipped %d, want 8 and 0", copied, skipped)
	}
	// Half done, and one is different.
	put(t, to, blob.Packages, "3", "broken")
	testkit.Must(t, to.Delete(t.Context(), blob.Packages, "4"))
	if copied, skipped := run(s, to); copied != 2 || skipped != 6 {
		t.Errorf("copied %d, skipped %d, want 2 and 6", copied, skipped)
	}
	for i := range 7 {
		if got, want := get(t, to, blob.Packages, fmt.Sprint(i)), random(1000+i); got != want {
			t.Errorf("package %d has %d other bytes, want %d", i, len(got), len(want))
		}
	}
	// And back.
	testkit.Must(t, s.Delete(t.Context(), blob.Buildpacks, "b"))
	if copied, skipped := run(to, s); copied != 1 || skipped != 7 {
		t.Errorf("copied back %d, skipped %d, want 1 and 7", copied, skipped)
	}
	if got := get(t, s.Other(), blob.Buildpacks, "b"); got != "buildpack" {
		t.Errorf("copied back is %q, want buildpack", got)
	}
}
