package gitfetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	flushLine = "0000"
	delimLine = "0001"
	// maxLine is the largest line of the protocol, with its length.
	maxLine = 65520
	// Bands of a pack.
	bandData, bandProgress = 1, 2
)

var (
	errProtocol = errors.New("not git's protocol")
	errServer   = errors.New("the git server reports an error")
	errTooLong  = errors.New("the answer of the git server is too long")
)

// pkt returns a line of the protocol.
func pkt(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

type lineKind int

const (
	data lineKind = iota
	flush
	delim
)

// line is a line of an answer; its bytes are valid until the next one.
type line struct {
	kind  lineKind
	bytes []byte
}

func (l line) text() string { return string(bytes.TrimSuffix(l.bytes, []byte("\n"))) }

// reader reads lines.
type reader struct {
	in     io.Reader
	buffer [maxLine]byte
}

func (r *reader) next() (line, error) {
	head := r.buffer[:4]
	if _, err := io.ReadFull(r.in, head); err != nil {
		return line{}, err
	}
	n, err := strconv.ParseUint(string(head), 16, 16)
	switch {
	case err != nil || n > maxLine || n == 3:
		return line{}, errProtocol
	case n == 0:
		return line{kind: flush}, nil
	case n < 4:
		return line{kind: delim}, nil
	}
	b := r.buffer[:n-4]
	if _, err := io.ReadFull(r.in, b); err != nil {
		return line{}, errors.Join(errProtocol, err)
	}
	if bytes.HasPrefix(b, []byte("ERR ")) {
		return line{}, errServer
	}
	return line{data, b}, nil
}

// pack is the data of the lines after "packfile".
type pack struct {
	lines *reader
	rest  []byte
	done  bool
}

// Read implements io.Reader.
func (p *pack) Read(to []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.done {
			return 0, io.EOF
		}
		l, err := p.lines.next()
		if err != nil {
			return 0, err
		}
		switch {
		case l.kind == flush:
			p.done = true
		case l.kind == delim || len(l.bytes) == 0:
			return 0, errProtocol
		case l.bytes[0] == bandData:
			p.rest = l.bytes[1:]
		case l.bytes[0] != bandProgress:
			return 0, errServer
		}
	}
	n := copy(to, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// limited fails beyond a number of bytes.
type limited struct {
	in   io.Reader
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.in.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
