package auth

import (
	"context"
	"net/http"
	"sync"

	"ingot/internal/base/fault"
)

// first is what a server waits for on its first start: Bootstrap hashes passwords and generates a key for a good
// part of a second, and everything but the authorization server works meanwhile.
type first struct {
	wait func(context.Context) error // see Options.First; nil if there is nothing to wait for
	keys *keyring

	mu     sync.Mutex
	loaded bool
}

// await waits until the first users, clients and keys exist, and loads the keys.
func (f *first) await(ctx context.Context) error {
	if f.wait == nil {
		return nil
	}
	if err := f.wait(ctx); err != nil {
		return fault.Wrap(err, fault.Unavailable, "The authorization server is not ready. Try again.")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded {
		return nil
	}
	err := f.keys.load(ctx)
	f.loaded = err == nil
	return err
}

func (f *first) awaitRequest(r *http.Request) error { return f.await(r.Context()) }

// Key implements token.KeySource.
func (f *first) Key(ctx context.Context, kid string) (any, error) {
	if err := f.await(ctx); err != nil {
		return nil, err
	}
	return f.keys.Key(ctx, kid)
}
