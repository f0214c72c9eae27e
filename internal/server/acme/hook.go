package acme

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

const (
	// hookTime is how long the operator's program may take. It returns when name servers
	// have the record, which can take minutes.
	hookTime = 5 * time.Minute
	// hookOutput is how much of its output is in the log.
	hookOutput = 2 << 10
)

// hook solves DNS challenges with a program of the operator.
type hook struct {
	program string
	log     *slog.Logger
}

// Present creates a TXT record.
func (h hook) Present(ctx context.Context, c acme.Challenge) error {
	return h.run(ctx, "present", c.DNS01TXTRecordName(), c.DNS01KeyAuthorization())
}

// CleanUp removes the record, even if the order was canceled.
func (h hook) CleanUp(ctx context.Context, c acme.Challenge) error {
	return h.run(context.WithoutCancel(ctx), "cleanup", c.DNS01TXTRecordName(), c.DNS01KeyAuthorization())
}

func (h hook) run(ctx context.Context, action, name, value string) error {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	command := exec.CommandContext(ctx, h.program, action, name, value) //nolint:gosec // the operator names the program
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	out = bytes.TrimSpace(out[max(0, len(out)-hookOutput):])
	if err != nil {
		return fmt.Errorf("%s %s %s: %w: %s", h.program, action, name, err, out)
	}
	h.log.Debug("the program for DNS records succeeded", "action", action, "name", name, "output", string(out))
	return nil
}
