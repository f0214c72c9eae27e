package token

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// RemoteKeys reads the keys of a UAA-compatible authorization server from
// /token_keys and caches them. An unknown kid triggers another request, but
// rarely, so that rotated keys are found immediately and forged kids cannot
// flood the server.
type RemoteKeys struct {
	url    string
	client *http.Client
	now    func() time.Time

	mu      sync.RWMutex
	keys    map[string]any
	fetched time.Time
	// fetching is held while keys are read, so that a slow server delays only
	// callers that need a key that is not cached.
	fetching sync.Mutex
}

const (
	keysMaxAge     = 5 * time.Minute
	keysMinRefetch = 2 * time.Second
	keysBodyLimit  = 1 << 20
)

// NewRemoteKeys returns the keys of the authorization server at base.
func NewRemoteKeys(base string, client *http.Client) *RemoteKeys {
	return &RemoteKeys{url: strings.TrimRight(base, "/") + "/token_keys", client: client, now: time.Now}
}

// Key implements KeySource. While the authorization server is unreachable,
// cached keys stay valid.
func (r *RemoteKeys) Key(ctx context.Context, kid string) (any, error) {
	if key, _ := r.lookup(kid); key != nil {
		return key, nil
	}
	r.fetching.Lock()
	defer r.fetching.Unlock()
	key, mayFetch := r.lookup(kid)
	if key != nil {
		return key, nil
	}
	if !mayFetch {
		return nil, fmt.Errorf("%w %q", ErrUnknownKey, kid)
	}
	keys, err := r.fetch(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if old, ok := r.keys[kid]; ok {
			return old, nil
		}
		return nil, fmt.Errorf("read %s: %w", r.url, err)
	}
	r.keys, r.fetched = keys, r.now()
	if key, ok := keys[kid]; ok {
		return key, nil
	}
	return nil, fmt.Errorf("%w %q", ErrUnknownKey, kid)
}

// lookup returns a key that is cached and fresh, or whether to fetch the keys
// now.
func (r *RemoteKeys) lookup(kid string) (key any, mayFetch bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	age := r.now().Sub(r.fetched)
	if age < keysMaxAge {
		key = r.keys[kid]
	}
	return key, r.keys == nil || age >= keysMinRefetch
}

func (r *RemoteKeys) fetch(ctx context.Context) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", res.Status)
	}
	var body struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, keysBodyLimit)).Decode(&body); err != nil {
		return nil, err
	}
	keys := make(map[string]any, len(body.Keys))
	for _, raw := range body.Keys {
		// Ignore keys of other types.
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) == nil && k.KeyID != "" && k.IsPublic() {
			keys[k.KeyID] = k.Key
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("no usable key listed")
	}
	return keys, nil
}
