package core

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Confirm asks for confirmation of a destructive action, unless it is forced. Without a
// terminal it fails, because the question cannot be answered.
func (s *Session) Confirm(ctx context.Context, force bool, question string) error {
	if force {
		return nil
	}
	if !s.Env.InTerminal {
		return &Problem{What: "Nothing was done.",
			Why: "confirmation is required, and this is not running in a terminal", Try: "use -f to skip the confirmation"}
	}
	fmt.Fprintf(s.Env.Err, "%s? [y/N] ", question)
	// an empty answer is a no
	line, _ := await(ctx, func() (string, error) { return bufio.NewReader(s.Env.In).ReadString('\n') })
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return ErrDeclined
}

// Ask prompts for a line.
func (s *Session) Ask(ctx context.Context, in *bufio.Reader, what string) (string, error) {
	fmt.Fprintf(s.Env.Err, "%s: ", what)
	line, err := await(ctx, func() (string, error) { return in.ReadString('\n') })
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		if err == nil || errors.Is(err, io.EOF) {
			err = &Problem{What: what + " is required.", Why: "nothing was entered", Try: "pass it as a flag (see --help)"}
		}
		return "", err
	}
	return line, nil
}

// await waits for an answer or for ctx. A read from a terminal cannot be
// canceled; the goroutine ends with the process.
func await(ctx context.Context, read func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		text, err := read()
		got <- answer{text, err}
	}()
	select {
	case a := <-got:
		return a.text, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Secret prompts for a value that is not shown on a terminal.
func (s *Session) Secret(ctx context.Context, in *bufio.Reader, what string) (string, error) {
	if !s.Env.InTerminal || s.Env.Password == nil {
		return s.Ask(ctx, in, what)
	}
	fmt.Fprintf(s.Env.Err, "%s: ", what)
	text, err := s.Env.Password(ctx)
	fmt.Fprintln(s.Env.Err)
	return text, err
}

// AskOptional prompts for a line, which may be empty.
func (s *Session) AskOptional(ctx context.Context, in *bufio.Reader, what string) (string, error) {
	fmt.Fprintf(s.Env.Err, "%s: ", what)
	line, err := await(ctx, func() (string, error) { return in.ReadString('\n') })
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(s.Env.Err)
		err = nil
	}
	return strings.TrimSpace(line), err
}
