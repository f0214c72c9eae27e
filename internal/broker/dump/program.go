package dump

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// What a program says about errors is cut to this.
const maxProgramError = 2000

// Pipe runs a program, with its standard input and output; nil means none.
func Pipe(cmd *exec.Cmd, in io.Reader, out io.Writer) error {
	var said tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(said)))
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	if extra := len(*t) - maxProgramError; extra > 0 {
		*t = append((*t)[:0], (*t)[extra:]...)
	}
	return len(p), nil
}

// head keeps the beginning of what is written to it.
type head []byte

const maxHead = 64 << 10

func (h *head) Write(p []byte) (int, error) {
	*h = append(*h, p[:min(len(p), maxHead-len(*h))]...)
	return len(p), nil
}
