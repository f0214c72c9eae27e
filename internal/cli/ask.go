package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// confirm asks for confirmation of a destructive action. Without a terminal it
// fails, because the question cannot be answered.
func (s *session) confirm(ctx context.Context, question string) error {
	if !s.w.InTerminal {
		return &problem{What: "Nothing was done.", Why: "confirmation is required, and this is not running in a terminal", Try: "use -f to skip the confirmation"}
	}
	fmt.Fprintf(s.w.Err, "%s? [y/N] ", question)
	line, _ := await(ctx, func() (string, error) { return bufio.NewReader(s.w.In).ReadString('\n') }) // an empty answer is a no
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

// ask prompts for a line.
func (s *session) ask(ctx context.Context, in *bufio.Reader, what string) (string, error) {
	fmt.Fprintf(s.w.Err, "%s: ", what)
	line, err := await(ctx, func() (string, error) { return in.ReadString('\n') })
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		if err == nil || errors.Is(err, io.EOF) {
			err = &problem{What: what + " is required.", Why: "nothing was entered", Try: "pass it as a flag (see --help)"}
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

// secret prompts for a value that is not shown on a terminal.
func (s *session) secret(ctx context.Context, in *bufio.Reader, what string) (string, error) {
	if !s.w.InTerminal || s.w.Password == nil {
		return s.ask(ctx, in, what)
	}
	fmt.Fprintf(s.w.Err, "%s: ", what)
	text, err := s.w.Password(ctx)
	fmt.Fprintln(s.w.Err)
	return text, err
}

// askOptional prompts for a line, which may be empty.
func (s *session) askOptional(ctx context.Context, in *bufio.Reader, what string) (string, error) {
	fmt.Fprintf(s.w.Err, "%s: ", what)
	line, err := await(ctx, func() (string, error) { return in.ReadString('\n') })
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(s.w.Err)
		err = nil
	}
	return strings.TrimSpace(line), err
}
