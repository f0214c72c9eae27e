package bits

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// ReadError is a file of the upload that cannot be read.
type ReadError struct {
	Path string
	Err  error
}

func (e *ReadError) Error() string {
	if errors.Is(e.Err, ErrChanged) {
		return e.Path + " changed during the upload"
	}
	return e.Path + " cannot be read: " + e.Err.Error()
}

func (e *ReadError) Unwrap() error { return e.Err }

// ErrChanged is the cause of a ReadError of a file whose content is no longer the
// one whose checksum and length were announced.
var ErrChanged = errors.New("it changed during the upload")

// readError returns a ReadError whose cause does not repeat the path.
func readError(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return &ReadError{path, err}
}

// Copy writes a file whose length was announced, and fails if it has another one.
func Copy(w io.Writer, path string, length int64) error {
	f, err := os.Open(path)
	if err != nil {
		return readError(path, err)
	}
	defer f.Close()
	return copyExactly(w, f, path, length)
}

// copyExactly copies length bytes of a file. Only errors of reading it are
// ReadErrors.
func copyExactly(w io.Writer, f *os.File, path string, length int64) error {
	in := &reader{from: io.LimitReader(f, length+1)}
	n, err := io.Copy(&limited{w, length}, in)
	switch {
	case in.err != nil:
		return readError(path, in.err)
	case errors.Is(err, ErrChanged) || err == nil && n != length:
		return &ReadError{path, ErrChanged}
	}
	return err
}

// reader keeps the error of reading, which io.Copy does not tell from one of writing.
type reader struct {
	from io.Reader
	err  error
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// limited writes no more than was announced.
type limited struct {
	io.Writer
	left int64
}

func (l *limited) Write(b []byte) (int, error) {
	if int64(len(b)) > l.left {
		return 0, ErrChanged
	}
	l.left -= int64(len(b))
	return l.Writer.Write(b)
}
