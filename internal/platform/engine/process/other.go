//go:build !linux

package process

import (
	"errors"
	"log/slog"

	"ingot/internal/platform/engine"
)

// Options say where an engine keeps its things.
type Options struct {
	Root, Cache, Init, Host string
	Overcommit              int
	Log                     *slog.Logger
}

// New says that there is no such engine here.
func New(Options) (engine.Engine, error) {
	return nil, errors.New("the process engine needs Linux")
}
