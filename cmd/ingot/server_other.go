//go:build !linux

package main

import (
	"context"
	"fmt"
	"strings"

	"ingot/internal/cli/core"
)

// serverOptions has no commands: parse rejects serverCommands.
type serverOptions struct{}

func (*serverOptions) arguments(_ string, rest []string) []string { return rest }

func serverDefaults() map[string]string { return nil }

func (p *process) begin() (status int, done bool) { return 0, false }

func (p *process) serverCommand(_ *options, command string) error {
	return fmt.Errorf("unknown command %q", command)
}

// machine says that this machine can be a client only.
func (p *process) machine(context.Context, core.DoctorOptions) []core.Finding {
	return []core.Finding{
		{Name: "ingot", State: core.FindingOK, Found: strings.TrimSpace(versionText())},
		{
			Name: "server", State: core.FindingNote, Found: "client only",
			Get: "a server runs on Linux: log in to one with 'ingot login -a URL'",
		},
	}
}
