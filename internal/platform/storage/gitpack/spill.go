package gitpack

import (
	"io"
	"os"
)

// flushAt is how many bytes are collected before they are written.
const flushAt = 256 << 10

// spill is a temporary file that is written at its end and read anywhere. It shares a limit
// with another one.
type spill struct {
	file    *os.File
	pending []byte // not yet written
	written int64
	used    *int64
	limit   int64
}

func (s *spill) size() int64 { return s.written + int64(len(s.pending)) }

// Write appends, and fails beyond the limit.
func (s *spill) Write(p []byte) (int, error) {
	if *s.used += int64(len(p)); *s.used > s.limit {
		return 0, tooLarge(s.limit)
	}
	s.pending = append(s.pending, p...)
	if len(s.pending) < flushAt {
		return len(p), nil
	}
	return len(p), s.flush()
}

func (s *spill) flush() error {
	n, err := s.file.WriteAt(s.pending, s.written)
	s.written += int64(n)
	s.pending = s.pending[:0]
	return err
}

// ReadAt implements io.ReaderAt.
func (s *spill) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > s.written && len(s.pending) > 0 {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	return s.file.ReadAt(p, off)
}

// truncate drops what was appended after a position.
func (s *spill) truncate(to int64) error {
	if err := s.flush(); err != nil {
		return err
	}
	*s.used -= s.written - to
	s.written = to
	return s.file.Truncate(to)
}

func (s *spill) section(at, size int64) *io.SectionReader { return io.NewSectionReader(s, at, size) }

// content returns the content of a small object; the slice is valid until the next call
// with the same buffer.
func (s *spill) content(o *object, buffer []byte) ([]byte, error) {
	if int64(cap(buffer)) < o.size {
		buffer = make([]byte, o.size)
	}
	buffer = buffer[:o.size]
	n, err := s.ReadAt(buffer, o.at)
	if n == len(buffer) {
		return buffer, nil // also at the end of the file
	}
	return buffer, err
}
