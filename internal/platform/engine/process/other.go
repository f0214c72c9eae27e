//go:build !linux

package process

import (
	"errors"
	"log/slog"

	"ingot/internal/platform/engine"
)

// Options configure an engine.
type Options struct {
	Root, Cache, Init, Host string
	Overcommit              int
	Leaving                 bool
	Log                     *slog.Logger
}

// Engine does not exist on this system.
type Engine struct{ engine.Engine }

// Left returns nil.
func (e *Engine) Left() error { return nil }

// New returns an error, because the engine needs Linux.
func New(Options) (*Engine, error) {
	return nil, errors.New("the process engine needs Linux")
}
