package gitpack

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // git identifies objects by it; see the package comment
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/zlib"

	"ingot/internal/base/fault"
)

// keptChain is how many differences follow each other in packs that are written, as in git:
// each of them has to be read for the last.
const keptChain = 50

// WritePack writes a pack of what a commit needs. What is compressed already is copied.
func (o *Objects) WritePack(w io.Writer, c *Closure) error {
	sum := sha1.New() //nolint:gosec // as above
	buffered := bufio.NewWriterSize(w, 64<<10)
	out := io.MultiWriter(buffered, sum)
	header := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(c.objects)))
	if _, err := out.Write(header); err != nil {
		return err
	}
	within := make([]bool, len(o.list))
	for _, i := range c.objects {
		within[i] = true
	}
	for _, i := range c.objects {
		of := &o.list[i]
		var err error
		switch {
		case of.base == none:
			err = o.copyEntry(out, of, of.kind, of.size, nil)
		case within[of.base] && of.chain <= keptChain:
			err = o.copyDelta(out, of)
		default:
			err = o.writeWhole(out, of)
		}
		if err != nil {
			return err
		}
	}
	if _, err := buffered.Write(sum.Sum(nil)); err != nil {
		return err
	}
	return buffered.Flush()
}

func entryHead(k kind, size int64) []byte {
	b := byte(k)<<4 | byte(size&15)
	size >>= 4
	var out []byte
	for size > 0 {
		out = append(out, b|0x80)
		b = byte(size & 0x7f)
		size >>= 7
	}
	return append(out, b)
}

// copyEntry writes an entry with the compressed data that the object has.
func (o *Objects) copyEntry(w io.Writer, of *object, k kind, size int64, base []byte) error {
	if _, err := w.Write(append(entryHead(k, size), base...)); err != nil {
		return err
	}
	_, err := io.Copy(w, o.packs.section(of.packed, of.packedSize))
	return err
}

// copyDelta writes an object as its difference from an object that is in the pack, too.
func (o *Objects) copyDelta(w io.Writer, of *object) error {
	base := o.list[of.base].hash
	return o.copyEntry(w, of, refDelta, of.delta, base[:])
}

func (o *Objects) writeWhole(w io.Writer, of *object) error {
	if _, err := w.Write(entryHead(of.kind, of.size)); err != nil {
		return err
	}
	z := zlib.NewWriter(w)
	if _, err := io.Copy(z, o.spill.section(of.at, of.size)); err != nil {
		return err
	}
	return z.Close()
}

// Bounded returns a writer that fails when more than left bytes are written; limit is named in the error.
func Bounded(w io.Writer, left, limit int64) io.Writer { return &bounded{w, left, limit} }

type bounded struct {
	w     io.Writer
	left  int64
	limit int64
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fault.New(fault.TooLarge, "the repository with its history and the app's files are larger than the limit "+
			"of %d MB: list files that the app does not need in a .cfignore file", b.limit>>20)
	}
	return b.w.Write(p)
}
