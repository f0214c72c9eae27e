package gitpush

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"

	"ingot/internal/base/fault"
)

// counted counts what is read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// TestLongLines: what is kept of a request does not depend on the length of its lines, of which a small compressed
// request can have many. Either the first long one is refused, or only a part of it is kept.
//
//nolint:paralleltest // it measures the memory of the process
func TestLongLines(t *testing.T) {
	const lines = 600
	id := hash(1).String()
	fill := func(text string) string { return text + strings.Repeat("x", maxLine-4-len(text)) }
	wants := func(r io.Reader) (any, error) { return readWants(r, func() error { return nil }) }
	commands := func(r io.Reader) (any, error) {
		p := &push{}
		capabilities, err := p.readCommands(r)
		return []any{p.commands, capabilities}, err
	}
	for name, c := range map[string]struct {
		first, line string
		read        func(io.Reader) (any, error)
		kept        bool // the lines are valid
	}{
		"want":              {"", fill("want "), wants, false},
		"want with an id":   {"want " + id, fill("want " + id), wants, false},
		"want with more":    {"want " + id, fill("want " + id + " "), wants, false},
		"have":              {"want " + id, fill("have "), wants, false},
		"have with more":    {"want " + id, fill("have " + id + " "), wants, false},
		"have with an id":   {"want " + id, fill("have " + id), wants, false},
		"shallow":           {"", fill("shallow "), commands, false},
		"old":               {"", fill(""), commands, false},
		"new":               {"", fill(id + " "), commands, false},
		"name":              {"", fill(id + " " + id + " "), commands, false},
		"capabilities":      {"", fill(id + " " + id + " refs/heads/main\x00"), commands, true},
		"shallow with more": {"", fill("shallow " + id + "\x00"), commands, true},
	} {
		var text []byte
		if c.first != "" {
			text = appendLine(text, c.first)
		}
		in := &counted{Reader: io.MultiReader(bytes.NewReader(text), &repeated{appendLine(nil, c.line), nil, lines},
			strings.NewReader(flushLine))}
		before := heap()
		got, err := c.read(in)
		held := int64(heap()) - int64(before) //nolint:gosec // far below 2^63
		runtime.KeepAlive(got)
		switch {
		case c.kept && (err != nil || held > 4<<20):
			t.Errorf("%s: %v and %d bytes are held of %d read, want them read and little held", name, err, held, in.n)
		case !c.kept && (!fault.Is(err, fault.BadRequest) || len(err.Error()) > 200 || in.n > len(text)+maxLine):
			t.Errorf("%s: %.200v after %d bytes, want the first line refused", name, err, in.n)
		}
	}
}

// heap returns the bytes in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// repeated has a line several times.
type repeated struct {
	line, rest []byte
	n          int
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.n == 0 {
			return 0, io.EOF
		}
		r.n--
		r.rest = r.line
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
