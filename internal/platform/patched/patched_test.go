package patched_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"strconv"
	"testing"

	"ingot/internal/platform/archive"
	"ingot/internal/platform/patched"
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
		var d patched.Droplets
		one := layer(t, size)
		for i := range 100 {
			d.Add(strconv.Itoa(i), patched.Base{GUID: "base"}, one)
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
