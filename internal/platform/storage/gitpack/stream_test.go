package gitpack_test

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/gitpack"
)

// TestStream reads packs from a connection that stays open behind them.
func TestStream(t *testing.T) {
	t.Parallel()
	all := &packer{}
	file := all.add(blobType, strings.Repeat("a file that is larger than a buffer. ", 9000))
	tree := all.tree("100644 a", file, "100644 b", all.add(blobType, ""))
	all.commit(tree)
	at := all.at[file]
	all.raw(slices.Concat(head(ofsType, 3), distance(12+all.size-at), deflated([]byte("abc"))))
	all.raw(slices.Concat(head(refType, 3), file[:], deflated([]byte("abc"))))
	for name, pack := range map[string][]byte{"objects": all.pack(), "empty": (&packer{}).pack()} {
		for by, change := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
		} {
			far, near := io.Pipe()
			go func() { _, _ = near.Write(pack) }() // and nothing more
			got, err := io.ReadAll(gitpack.Stream(change(far), gitpack.Limits{}))
			if err != nil || !bytes.Equal(got, pack) {
				t.Errorf("%s by %s: %d bytes, %v, want %d", name, by, len(got), err, len(pack))
			}
			far.Close()
		}
	}
}

// TestHostileStreams have no end that can be found, or one that is too far away.
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	one := func(entry ...byte) []byte {
		p := &packer{}
		p.raw(entry)
		return p.pack()
	}
	empties := slices.Concat(head(blobType, 3), []byte{0x78, 0x9c}, bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 1<<20))
	many := &packer{}
	for range 9 {
		many.raw(slices.Concat(head(blobType, 1000), deflated(make([]byte, 1000))))
	}
	for name, c := range map[string]struct {
		pack []byte
		want fault.Code
	}{
		"no pack":             {[]byte(strings.Repeat("x", 100)), fault.Unprocessable},
		"nothing":             {nil, fault.Unprocessable},
		"cut":                 {one(slices.Concat(head(blobType, 3), deflated([]byte("abc")))...)[:24], fault.Unprocessable},
		"no zlib":             {one(0x33, 1, 2, 3), fault.Unprocessable},
		"longer than it says": {one(slices.Concat(head(blobType, 1), deflated([]byte("abc")))...), fault.Unprocessable},
		"shorter":             {one(slices.Concat(head(blobType, 4), deflated([]byte("abc")))...), fault.Unprocessable},
		"huge":                {one(head(blobType, 5000)...), fault.TooLarge},
		"much in all":         {many.pack(), fault.TooLarge},
		"empty blocks":        {one(empties...), fault.Unprocessable},
		"endless size":        {one(bytes.Repeat([]byte{0xff}, 40)...), fault.Unprocessable},
	} {
		n, err := io.Copy(io.Discard, gitpack.Stream(bytes.NewReader(c.pack), gitpack.Limits{Bytes: 2000}))
		if !fault.Is(err, c.want) || n > 3<<20 {
			t.Errorf("%s: %d bytes, %v, want %v", name, n, err, c.want)
		}
	}
}
