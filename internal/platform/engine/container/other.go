//go:build !linux

package container

import (
	"context"
	"errors"
	"net/netip"

	"ingot/internal/platform/engine"
)

var errLinux = errors.New("containers need Linux")

// Engine does not exist on this system.
type Engine struct{ engine.Engine }

// New returns an error, because containers need Linux.
func New(context.Context, Options) (*Engine, error) { return nil, errLinux }

// Open returns an error, because containers need Linux.
func Open(context.Context, Options) (*Engine, error) { return nil, errLinux }

// Reopen returns an error, because containers need Linux.
func Reopen(context.Context, Options, func(error)) (*Engine, error) { return nil, errLinux }

// Left returns nil.
func (e *Engine) Left() error { return nil }

// Check returns an error, because containers need Linux.
func (e *Engine) Check(context.Context) error { return errLinux }

// Tried returns an error, because containers need Linux.
func (e *Engine) Tried(context.Context) error { return errLinux }

// Probe returns an error, because containers need Linux.
func Probe(context.Context, Options) error { return errLinux }

// RuncVersion returns an error, because containers need Linux.
func RuncVersion(context.Context) (name, problem string, err error) { return "", "", errLinux }

// Gateway returns the zero address.
func (e *Engine) Gateway() netip.Addr { return netip.Addr{} }

// Subnet returns the zero prefix.
func (e *Engine) Subnet() netip.Prefix { return netip.Prefix{} }

// Allow returns an error, because containers need Linux.
func (e *Engine) Allow(context.Context, []Endpoint, []Endpoint) error { return errLinux }

// Labels returns nil.
func (e *Engine) Labels(netip.Addr) map[string]string { return nil }

// Complete does nothing.
func (e *Engine) Complete(func(map[string]string) []Endpoint, func(map[string]string) (engine.Zone, string)) error {
	return nil
}

// Enforce returns an error, because containers need Linux.
func (e *Engine) Enforce(context.Context, engine.Rules) error { return errLinux }

// UseResolver does nothing.
func (e *Engine) UseResolver(netip.Addr) {}
