package engine

import (
	"context"

	"ingot/internal/base/fault"
)

// Fetcher is implemented by engines that can prepare an image before its first instance.
type Fetcher interface {
	// Fetch unpacks the layers of an image that the engine does not have, and returns the
	// size of the image on the disk, which may be at most limit. Problems of the image are
	// of code fault.Unprocessable.
	Fetch(ctx context.Context, i Image, limit int64) (size int64, err error)
}

// Fetch calls e.Fetch if the engine has it, also through Watched.
func Fetch(ctx context.Context, e Engine, i Image, limit int64) (size int64, err error) {
	if why := e.Describe().NoImages; why != "" {
		return 0, NoImages(why)
	}
	f, ok := e.(Fetcher)
	if !ok {
		return 0, nil
	}
	return f.Fetch(ctx, i, limit)
}

// Fetch implements Fetcher if the engine does.
func (w watched) Fetch(ctx context.Context, i Image, limit int64) (int64, error) {
	f, ok := w.Engine.(Fetcher)
	if !ok {
		return 0, nil
	}
	return ask(ctx, w, "fetch", collectTime, func(ctx context.Context) (int64, error) { return f.Fetch(ctx, i, limit) })
}

// NoImages returns the error of an engine that runs no images, for the reason why.
func NoImages(why string) error { return fault.New(fault.Unprocessable, "%s", why) }
