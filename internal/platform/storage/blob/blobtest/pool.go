package blobtest

import (
	"archive/zip"
	"bytes"
	"crypto/sha1"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/storage/blob"
)

func content(char string, size int) []byte { return bytes.Repeat([]byte(char), size) }

func resource(content []byte) blob.Resource {
	return blob.Resource{SHA1: fmt.Sprintf("%x", sha1.Sum(content)), Size: int64(len(content))}
}

func files(contents ...[]byte) fs.FS {
	out := fstest.MapFS{}
	for i, c := range contents {
		out[fmt.Sprintf("dir/%d", i)] = &fstest.MapFile{Data: c}
	}
	return out
}

func add(t *testing.T, s blob.Store, scope string, fsys fs.FS, want int) {
	t.Helper()
	if got, err := s.AddResources(t.Context(), scope, fsys); err != nil || got != want {
		t.Fatalf("added %d, %v, want %d", got, err, want)
	}
}

func matched(t *testing.T, s blob.Store, scope string, all ...blob.Resource) []blob.Resource {
	t.Helper()
	got, err := s.Match(t.Context(), scope, all)
	testkit.Must(t, err)
	return got
}

func match(t *testing.T, s Subject) {
	one, two, three := content("a", 100_000), content("b", 70_000), content("c", 80_000)
	add(t, s, "me", files(one, two, content("x", 10)), 2)
	add(t, s, "me", files(one, two), 0)
	add(t, s, "me", files(one, three), 1)
	all := []blob.Resource{resource(three), resource(content("n", 90_000)), resource(one),
		{SHA1: resource(two).SHA1, Size: 70_001}, {SHA1: "junk", Size: 70_000}, resource(content("x", 10))}
	all[2].SHA1 = strings.ToUpper(all[2].SHA1)
	want := []blob.Resource{all[0], all[2]}
	for _, store := range []blob.Store{s, s.Other()} {
		if got := matched(t, store, "me", all...); !slices.Equal(got, want) {
			t.Errorf("matched %v, want %v", got, want)
		}
		r, err := store.OpenResource(t.Context(), "me", all[2])
		testkit.Must(t, err)
		if got, err := io.ReadAll(r); !bytes.Equal(got, one) || err != nil {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, len(one))
		}
		r.Close()
		for _, missing := range []blob.Resource{all[1], all[3], all[4]} {
			if _, err := store.OpenResource(t.Context(), "me", missing); !fault.Is(err, fault.NotFound) {
				t.Errorf("opening %v: %v, want %s", missing, err, fault.NotFound)
			}
		}
	}
}

func scopes(t *testing.T, s Subject) {
	one := content("a", 100_000)
	add(t, s, "me", files(one), 1)
	for _, scope := range []string{"you", "", "me ", "ME"} {
		if got := matched(t, s, scope, resource(one)); got != nil {
			t.Errorf("scope %q matched %v, want none", scope, got)
		}
		if _, err := s.OpenResource(t.Context(), scope, resource(one)); !fault.Is(err, fault.NotFound) {
			t.Errorf("scope %q: %v, want %s", scope, err, fault.NotFound)
		}
	}
	if _, err := s.AddResources(t.Context(), "", files(one)); err == nil {
		t.Error("added without a scope")
	}
	add(t, s, "you", files(one), 1)
}

func resourcesOfAZip(t *testing.T, s Subject) {
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	f, err := w.Create("dir/file")
	testkit.Must(t, err)
	if _, err := f.Write(content("z", 99_999)); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, w.Close())
	r, err := zip.NewReader(bytes.NewReader(z.Bytes()), int64(z.Len()))
	testkit.Must(t, err)
	add(t, s, "me", r, 1)
	if got := matched(t, s, "me", resource(content("z", 99_999))); len(got) != 1 {
		t.Errorf("matched %v, want the file", got)
	}
}

// unusedResources: what is matched stays, and counts as used.
func unusedResources(t *testing.T, s Subject) {
	one := content("a", 100_000)
	add(t, s, "me", files(one), 1)
	for range 3 {
		s.Age(20 * 24 * time.Hour)
		if got := matched(t, s, "me", resource(one)); len(got) != 1 {
			t.Fatalf("matched %v, want the file", got)
		}
		// Within a day a client comes back with its upload.
		s.Age(23 * time.Hour)
		testkit.Must(t, s.Tidy(t.Context()))
		r, err := s.OpenResource(t.Context(), "me", resource(one))
		testkit.Must(t, err)
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, one) {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, len(one))
		}
		r.Close()
	}
}

func poolAtTheSameTime(t *testing.T, s Subject) {
	other := s.Other()
	var group sync.WaitGroup
	for i := range 4 {
		store := []blob.Store{s, other}[i%2]
		group.Go(func() {
			for j := range 4 {
				data := content(string(rune('a'+(i+j)%5)), 70_000+j)
				if _, err := store.AddResources(t.Context(), "me", files(data)); err != nil {
					t.Error(err)
				}
				if got, err := store.Match(t.Context(), "me", []blob.Resource{resource(data)}); err != nil || len(got) != 1 {
					t.Errorf("matched %v, %v, want the file", got, err)
				}
				r, err := store.OpenResource(t.Context(), "me", resource(data))
				if err != nil {
					t.Error(err)
					continue
				}
				if got, err := io.ReadAll(r); !bytes.Equal(got, data) || err != nil {
					t.Errorf("got %d bytes, %v, want %d", len(got), err, len(data))
				}
				r.Close()
			}
		})
	}
	group.Wait()
}
