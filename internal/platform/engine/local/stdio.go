//go:build linux

package local

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/term"

	"ingot/internal/platform/engine"
)

// Owner is a user and a group of this machine.
type Owner struct{ User, Group int }

// Stdio is the input and output of a process that Exec starts: three pipes, or a terminal.
type Stdio struct {
	// Theirs are the ends for the process: input, output and errors, or three times the
	// terminal.
	Theirs [3]*os.File
	ours   []*os.File

	in        io.WriteCloser
	out, errs io.Reader
	master    *os.File // of a terminal
}

// NewStdio creates a terminal if one is wanted, pipes otherwise. They belong to the owner,
// if there is one, because a process that opens /dev/stdout opens them again by name.
func NewStdio(t *engine.Terminal, owner *Owner) (s *Stdio, err error) {
	if t != nil {
		s, err = newTerminal(t)
	} else {
		s, err = newPipes()
	}
	if err != nil {
		return nil, err
	}
	for _, f := range s.Theirs {
		if owner != nil {
			err = errors.Join(err, f.Chown(owner.User, owner.Group))
		}
	}
	if err != nil {
		s.CloseTheirs()
		s.CloseOurs()
		return nil, err
	}
	return s, nil
}

func newPipes() (*Stdio, error) {
	var r, w [3]*os.File
	for i := range r {
		var err error
		if r[i], w[i], err = os.Pipe(); err != nil {
			closeAll(r[:i])
			closeAll(w[:i])
			return nil, err
		}
	}
	return &Stdio{
		Theirs: [3]*os.File{r[0], w[1], w[2]}, ours: []*os.File{w[0], r[1], r[2]},
		in: w[0], out: r[1], errs: r[2],
	}, nil
}

func newTerminal(t *engine.Terminal) (*Stdio, error) {
	master, tty, err := pty.Open()
	if err != nil {
		return nil, err
	}
	s := &Stdio{
		Theirs: [3]*os.File{tty, tty, tty}, ours: []*os.File{master},
		in: keyboard{master}, out: screen{master}, master: master,
	}
	if t.Columns > 0 && t.Rows > 0 {
		if err := s.Resize(t.Columns, t.Rows); err != nil {
			closeAll([]*os.File{master, tty})
			return nil, err
		}
	}
	return s, nil
}

// Raw makes the terminal pass on everything unchanged: there is another one behind it.
func (s *Stdio) Raw() error {
	_, err := term.MakeRaw(int(s.Theirs[0].Fd()))
	return err
}

// CloseTheirs closes the ends of the process; it has its own copies.
func (s *Stdio) CloseTheirs() { closeAll(s.Theirs[:]) }

// CloseOurs closes the other ends.
func (s *Stdio) CloseOurs() { closeAll(s.ours) }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // pipes and terminals have no buffered data
	}
}

// Stdin returns the input of the process.
func (s *Stdio) Stdin() io.WriteCloser { return s.in }

// Stdout returns the output of the process.
func (s *Stdio) Stdout() io.Reader { return s.out }

// Stderr returns its error output; nil with a terminal.
func (s *Stdio) Stderr() io.Reader { return s.errs }

// Resize changes the size of the terminal.
func (s *Stdio) Resize(columns, rows int) error {
	if s.master == nil {
		return errors.New("no terminal")
	}
	return pty.Setsize(s.master, WindowSize(columns, rows))
}

// WindowSize returns a terminal size in the kernel's form.
func WindowSize(columns, rows int) *pty.Winsize {
	return &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)} //nolint:gosec // a terminal is not that large
}

// screen is the output of a terminal. When no process has the terminal open any more, the
// kernel returns an error, which becomes io.EOF.
type screen struct{ master *os.File }

func (s screen) Read(b []byte) (int, error) {
	n, err := s.master.Read(b)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

// keyboard is the input of a terminal; closing it sends control-D.
type keyboard struct{ master *os.File }

func (k keyboard) Write(b []byte) (int, error) { return k.master.Write(b) }

func (k keyboard) Close() error {
	_, err := k.master.Write([]byte{4})
	return err
}
