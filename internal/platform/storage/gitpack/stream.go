package gitpack

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zlib"
)

// maxPassed limits what one step of a stream holds: unpacking a few kilobytes takes little more than that many
// compressed ones, unless the compressed data is made of empty blocks.
const maxPassed = 1 << 20

// Stream returns a reader that ends where the pack ends with which in begins. A connection that
// stays open has no other sign of the end: the sizes of compressed objects are not in a pack.
// It may read ahead of the pack. An error means that the end cannot be found.
func Stream(in io.Reader, l Limits) io.Reader {
	return &stream{limits: l.withDefaults(), in: recorder{in: bufio.NewReaderSize(in, 64<<10)}}
}

// recorder keeps the bytes that are read.
type recorder struct {
	in     *bufio.Reader
	passed []byte
}

// ReadByte implements io.ByteReader, with which zlib reads no byte too many.
func (r *recorder) ReadByte() (byte, error) {
	if len(r.passed) >= maxPassed {
		return 0, damaged("an object has too many compressed bytes")
	}
	b, err := r.in.ReadByte()
	if err == nil {
		r.passed = append(r.passed, b)
	}
	return b, err
}

// Read implements io.Reader.
func (r *recorder) Read(p []byte) (int, error) {
	if len(r.passed) >= maxPassed {
		return 0, damaged("an object has too many compressed bytes")
	}
	n, err := r.in.Read(p)
	r.passed = append(r.passed, p[:n]...)
	return n, err
}

// stream passes a pack while it looks for its end.
type stream struct {
	limits Limits
	in     recorder
	given  int // bytes of in.passed that were read
	step   func() error
	err    error

	objects uint32 // that have not begun
	zip     io.ReadCloser
	left    int64 // bytes of the object that are still to come
	work    int64 // bytes that were unpacked
	scratch []byte
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for s.given == len(s.in.passed) && s.err == nil && len(p) > 0 {
		s.in.passed, s.given = s.in.passed[:0], 0
		if s.step == nil {
			s.step, s.scratch = s.header, make([]byte, 4<<10)
		}
		s.err = s.step()
	}
	n := copy(p, s.in.passed[s.given:])
	if s.given += n; n > 0 {
		return n, nil
	}
	return 0, s.err
}

func (s *stream) header() error {
	if _, err := io.ReadFull(&s.in, s.scratch[:headerSize]); err != nil {
		return ended(err)
	}
	s.objects = binary.BigEndian.Uint32(s.scratch[8:])
	s.step = s.entry
	if string(s.scratch[:4]) != "PACK" {
		return damaged("it is no pack")
	}
	return nil
}

// entry reads the beginning of an object, or the end of the pack.
func (s *stream) entry() error {
	if s.objects == 0 {
		if _, err := io.ReadFull(&s.in, s.scratch[:trailerSize]); err != nil {
			return ended(err)
		}
		return io.EOF
	}
	s.objects--
	k, size, err := readHead(&s.in)
	if err != nil {
		return err
	}
	if s.work += size; size > s.limits.Bytes || s.work > maxWork*s.limits.Bytes {
		return tooLarge(s.limits.Bytes)
	}
	switch k {
	case ofsDelta:
		_, err = baseDistance(&s.in)
	case refDelta:
		_, err = io.ReadFull(&s.in, s.scratch[:len(Hash{})])
	}
	if err != nil {
		return ended(err)
	}
	if s.zip == nil {
		s.zip, err = zlib.NewReader(&s.in)
	} else {
		err = s.zip.(zlib.Resetter).Reset(&s.in, nil)
	}
	if err != nil {
		return damaged("an object cannot be read: %v", err)
	}
	s.left, s.step = size, s.content
	return nil
}

// content reads a part of an object.
func (s *stream) content() error {
	n, err := s.zip.Read(s.scratch)
	s.left -= int64(n)
	switch {
	case s.left < 0, errors.Is(err, io.EOF) && s.left > 0:
		return damaged("an object has not the size that it claims")
	case errors.Is(err, io.EOF):
		s.step = s.entry
	case err != nil:
		return damaged("an object cannot be read: %v", err)
	}
	return nil
}
