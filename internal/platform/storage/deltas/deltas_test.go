package deltas_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"strconv"
	"strings"
	"testing"

	"ingot/internal/platform/storage/archive"
	"ingot/internal/platform/storage/deltas"
)

// layer returns a layer with one file of a size.
func layer(t *testing.T, size int) *archive.Overlay {
	t.Helper()
	var old, bits bytes.Buffer
	compressed := gzip.NewWriter(&old)
	empty, files := tar.NewWriter(compressed), zip.NewWriter(&bits)
	file, err := files.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []io.Closer{empty, compressed, files} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p, err := archive.Patch{Bits: bytes.NewReader(bits.Bytes()), Size: int64(bits.Len())}.Check()
	if err != nil {
		t.Fatal(err)
	}
	made, err := p.Tar(io.Discard, &old, "app")
	if err != nil || made == nil {
		t.Fatalf("layer %v, %v", made, err)
	}
	return made
}

// What is remembered has a bound, in number and in size: the oldest are forgotten.
func TestBounds(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{1: 64, 3 << 20: 10} {
		var d deltas.Droplets
		one := layer(t, size)
		for i := range 100 {
			d.Add(strconv.Itoa(i), deltas.Base{GUID: "base"}, one)
		}
		found := 0
		for i := range 100 {
			if _, _, ok := d.Find(strconv.Itoa(i)); ok {
				found++
			}
		}
		if _, _, newest := d.Find("99"); found != want || !newest {
			t.Errorf("layers of %d bytes: %d are remembered, the newest: %t; want %d", size, found, newest, want)
		}
	}
}

// stored returns a droplet's comparison after it was stored.
func stored(t *testing.T, d *deltas.Droplets, app string, files ...string) *deltas.Comparison {
	t.Helper()
	c := d.Compare(app, func(string) bool { return true })
	for _, name := range files {
		name, content, _ := strings.Cut(name, "=")
		c.Next(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))})
		if _, err := c.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Built droplets are layers over the last one that is not: one without a file that was there,
// and one whose base is gone, are the base of the next.
func TestBuilt(t *testing.T) {
	t.Parallel()
	var d deltas.Droplets
	build := func(guid string, files ...string) {
		d.Built(deltas.Base{GUID: guid, Checksum: "of " + guid}, stored(t, &d, "app", files...))
	}
	build("1", "a=1", "b=1")
	build("2", "a=2", "b=1")
	build("3", "a=2", "b=3")
	build("4", "a=2")
	build("5", "a=5")
	for guid, want := range map[string]string{"1": "", "2": "1", "3": "1", "4": "", "5": "4"} {
		base, layer, ok := d.Find(guid)
		if base.GUID != want || ok != (want != "") || ok && (layer == nil || base.Checksum != "of "+want) {
			t.Errorf("%s is over %v, want %q", guid, base, want)
		}
	}
	gone := d.Compare("app", func(string) bool { return false })
	gone.Next(&tar.Header{Typeflag: tar.TypeReg, Name: "a"})
	d.Built(deltas.Base{GUID: "6"}, gone)
	if base, _, ok := d.Find("6"); ok {
		t.Errorf("6 is over %v, which is gone", base)
	}
	build("7", "a=7")
	if base, _, _ := d.Find("7"); base.GUID != "6" {
		t.Errorf("7 is over %v", base)
	}
	d.Built(deltas.Base{GUID: "other"}, stored(t, &d, "other app", "a=7"))
	if base, _, ok := d.Find("other"); ok {
		t.Errorf("the droplet of another app is over %v", base)
	}
}

// The droplets that new ones are compared with have a bound too, in number and in entries.
func TestBuiltBounds(t *testing.T) {
	t.Parallel()
	for entries, want := range map[int]int{1: 64, 10_000: 10} {
		var d deltas.Droplets
		var files []string
		for i := range entries {
			files = append(files, strconv.Itoa(i))
		}
		for app := range 70 {
			d.Built(deltas.Base{GUID: "first"}, stored(t, &d, strconv.Itoa(app), files...))
		}
		known := 0
		for app := range 70 {
			d.Compare(strconv.Itoa(app), func(string) bool { known++; return true })
		}
		if known != want {
			t.Errorf("with %d entries: %d are known, want %d", entries, known, want)
		}
	}
}
