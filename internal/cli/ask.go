package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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

// errDeclined means that the user answered no, which is not a failure.
var errDeclined = errors.New("canceled")

func isNotFound(err error) bool { return errors.Is(err, errNotFound) }
