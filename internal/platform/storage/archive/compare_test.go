package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ingot/internal/platform/storage/archive"
)

// compared compares a tar with a base, as a build does that stores it.
func compared(t testing.TB, base *archive.Listing, compressed []byte) (*archive.Listing, *archive.Overlay) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	c := archive.NewComparison(base)
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return c.Finish()
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			t.Fatal(err)
		}
		c.Next(h)
		if _, err := io.Copy(c, in); err != nil {
			t.Fatal(err)
		}
	}
}

// TestComparison: what is found to differ, over the droplet before, is the new droplet; and
// it is found whenever nothing was removed.
func TestComparison(t *testing.T) {
	t.Parallel()
	overlays := 0
	rapid.Check(t, func(rt *rapid.T) {
		before, after := droplet(t, drawFiles(rt, "before")), droplet(t, drawFiles(rt, "after"))
		listing, _ := compared(t, nil, before)
		old, want := listGzip(t, before), listGzip(t, after)
		if listing == nil || listing.Len() != len(old) {
			rt.Fatalf("listing %v of %d entries", listing, len(old))
		}
		removed := false
		for name, was := range old {
			removed = removed || want[name] == "" || want[name][0] != was[0]
		}
		next, overlay := compared(t, listing, after)
		if next == nil || (overlay == nil) != removed {
			rt.Fatalf("listing %v, overlay %v; something was removed: %t", next, overlay, removed)
		}
		if overlay == nil {
			return
		}
		overlays++
		files, err := overlay.Tar()
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(want, listTar(t, bytes.NewReader(files), listGzip(t, before))); d != "" {
			rt.Fatalf("overlay (-want +got):\n%s", d)
		}
	})
	if overlays == 0 {
		t.Error("no change was an overlay")
	}
}

// TestComparisonHolds: an overlay has the files that differ, their directories, and no others.
func TestComparisonHolds(t *testing.T) {
	t.Parallel()
	before := files{"a": file("a", "0"), "d/b": file("d/b", "0"), "d/c": file("d/c", "0")}
	after := files{"a": file("a", "0"), "d/b": file("d/b", "1"), "d/c": file("d/c", "0")}
	listing, _ := compared(t, nil, droplet(t, before))
	_, overlay := compared(t, listing, droplet(t, after))
	if overlay == nil {
		t.Fatal("no overlay")
	}
	text, err := overlay.Tar()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"app": `5 755 "" ""`, "app/d": `5 755 "" ""`, "app/d/b": `0 644 "" "1"`}
	if d := cmp.Diff(want, listTar(t, bytes.NewReader(text), map[string]string{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestNotComparable: droplets of which an overlay cannot be told, or would be too large.
func TestNotComparable(t *testing.T) {
	t.Parallel()
	base, _ := compared(t, nil, gzipped(t, buildTar(t, file("a", "1"))))
	many := make([]item, 20_001)
	for i := range many {
		many[i] = file(strconv.Itoa(i), "")
	}
	for name, test := range map[string]struct {
		items  []item
		listed bool
	}{
		"a hard link": {[]item{file("a", "2"), hardlink("b", "a")}, false},
		"many files":  {many, false},
		"a long name": {[]item{file("a", "1"), dir(strings.Repeat("d", 200) + "/" + strings.Repeat("e", 200) + "/" +
			strings.Repeat("f", 200) + "/")}, false},
		"a large file":     {[]item{file("a", strings.Repeat("x", 17<<20))}, true},
		"two large files":  {[]item{file("a", strings.Repeat("x", 9<<20)), file("b", strings.Repeat("x", 9<<20))}, true},
		"a file is gone":   {[]item{file("b", "1")}, true},
		"another kind":     {[]item{symlink("a", "b")}, true},
		"a directory then": {[]item{dir("a/"), file("a/b", "1")}, true},
	} {
		listing, overlay := compared(t, base, gzipped(t, buildTar(t, test.items...)))
		if overlay != nil || (listing != nil) != test.listed {
			t.Errorf("%s: listing %v, overlay %v", name, listing, overlay)
		}
	}
}
