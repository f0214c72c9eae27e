package engine

import (
	"context"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// Fetcher is implemented by engines that can prepare an image before its first instance.
type Fetcher interface {
	// Fetch unpacks the layers of an image that the engine does not have, which may have at
	// most limit bytes, or reads of them what it needs to know. Problems of the image are of
	// code fault.Unprocessable.
	Fetch(ctx context.Context, i Image, limit int64) (Fetched, error)
}

// Fetched is what is known of an image after Fetch.
type Fetched struct {
	// Size is that of the image on the disk; 0 if the engine does not unpack it.
	Size int64
	// Account is for the Account of the Image; nil if the engine does not need it.
	Account *platform.ImageAccount
}

// Fetch calls e.Fetch if the engine has it, also through Watched.
func Fetch(ctx context.Context, e Engine, i Image, limit int64) (Fetched, error) {
	if why := e.Describe().NoImages; why != "" {
		return Fetched{}, NoImages(why)
	}
	f, ok := e.(Fetcher)
	if !ok {
		return Fetched{}, nil
	}
	return f.Fetch(ctx, i, limit)
}

// Fetch implements Fetcher if the engine does.
func (w watched) Fetch(ctx context.Context, i Image, limit int64) (Fetched, error) {
	f, ok := w.Engine.(Fetcher)
	if !ok {
		return Fetched{}, nil
	}
	return ask(ctx, w, "fetch", collectTime, func(ctx context.Context) (Fetched, error) { return f.Fetch(ctx, i, limit) })
}

// NoImages returns the error of an engine that runs no images, for the reason why.
func NoImages(why string) error { return fault.New(fault.Unprocessable, "%s", why) }

// NoShell returns the error of an instance of an image in which a shell cannot be run.
func NoShell() error {
	return fault.New(fault.Unprocessable,
		"the image has no /bin/sh, which is needed to run something in its instances: add a shell to the image")
}
