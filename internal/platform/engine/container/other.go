//go:build !linux

package container

import (
	"context"
	"errors"
	"net/netip"

	"ingot/internal/platform/engine"
)

var errLinux = errors.New("containers need Linux")

// Engine does not exist here.
type Engine struct{ engine.Engine }

// New says that there is no such engine here.
func New(context.Context, Options) (*Engine, error) { return nil, errLinux }

// Open says that there is no such engine here.
func Open(context.Context, Options) (*Engine, error) { return nil, errLinux }

// Reopen says that there is no such engine here.
func Reopen(context.Context, Options) (*Engine, error) { return nil, errLinux }

// Check says that there is no such engine here.
func (e *Engine) Check(context.Context) error { return errLinux }

// Probe says that there is no such engine here.
func Probe(context.Context, Options) error { return errLinux }

// RuncVersion says that there is no such engine here.
func RuncVersion(context.Context) (name, problem string, err error) { return "", "", errLinux }

// Gateway is no address.
func (e *Engine) Gateway() netip.Addr { return netip.Addr{} }

// Subnet is no network.
func (e *Engine) Subnet() netip.Prefix { return netip.Prefix{} }

// Allow has nobody to allow anything.
func (e *Engine) Allow(context.Context, []Endpoint, []Endpoint) error { return errLinux }

// Labels knows no instance.
func (e *Engine) Labels(netip.Addr) map[string]string { return nil }

// Complete has nothing to complete.
func (e *Engine) Complete(func(map[string]string) []Endpoint) error { return nil }

// UseResolver has nobody who would ask.
func (e *Engine) UseResolver(netip.Addr) {}
