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
	Log                     *slog.Logger
}

// New returns an error, because the engine needs Linux.
func New(Options) (engine.Engine, error) {
	return nil, errors.New("the process engine needs Linux")
}
