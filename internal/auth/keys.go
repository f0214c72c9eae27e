package auth

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"

	"ingot/internal/base/token"
)

// keyring holds the signing keys. The newest signs; the others only verify
// until the last token they signed has expired.
type keyring struct {
	store Store
	now   func() time.Time
	// settle is the minimum age of a key that signs: other server processes
	// need time to load it.
	settle time.Duration

	mu      sync.RWMutex
	signer  jose.Signer
	signing *loadedKey
	active  []*loadedKey // newest first
	loaded  time.Time
}

type loadedKey struct {
	id        string
	private   crypto.Signer
	algorithm jose.SignatureAlgorithm
	created   time.Time
}

// reloadAfter limits how often an unknown kid causes a read of the store.
const reloadAfter = time.Second

// keySettle is longer than the interval at which other servers load keys.
const keySettle = 3 * sharedInterval

func newKeyring(store Store, now func() time.Time, shared bool) *keyring {
	k := &keyring{store: store, now: now}
	if shared {
		k.settle = keySettle
	}
	return k
}

// load reads the keys, and creates the first one if there is none.
func (k *keyring) load(ctx context.Context) error {
	keys, err := k.store.Keys(ctx)
	if err != nil {
		return fmt.Errorf("read the signing keys: %w", err)
	}
	if len(keys) == 0 {
		if err := k.add(ctx, jose.RS256, true); err != nil {
			return err
		}
		if keys, err = k.store.Keys(ctx); err != nil {
			return fmt.Errorf("read the signing keys: %w", err)
		}
	}
	return k.use(keys)
}

func (k *keyring) use(keys []*Key) error {
	active := make([]*loadedKey, 0, len(keys))
	for _, key := range keys {
		parsed, err := x509.ParsePKCS8PrivateKey(key.Private)
		if err != nil {
			return fmt.Errorf("signing key %s cannot be read: %w", key.ID, err)
		}
		loaded := &loadedKey{id: key.ID, created: key.Created}
		switch private := parsed.(type) {
		case *rsa.PrivateKey:
			loaded.private, loaded.algorithm = private, jose.RS256
		case *ecdsa.PrivateKey:
			loaded.private, loaded.algorithm = private, jose.ES256
		default:
			return fmt.Errorf("signing key %s is a %T, which cannot sign tokens", key.ID, parsed)
		}
		active = append(active, loaded)
	}
	if len(active) == 0 {
		return errors.New("no signing key")
	}
	signing := active[0]
	for _, key := range active {
		if k.now().Sub(key.created) >= k.settle {
			signing = key
			break
		}
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: signing.algorithm, Key: jose.JSONWebKey{Key: signing.private, KeyID: signing.id}},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.signer, k.signing, k.active, k.loaded = signer, signing, active, k.now()
	return nil
}

// newSigningKey creates a key for an algorithm. RS256 is what every client of a UAA can verify. ES256 takes a thirtieth
// of the processor time, and not every client knows it.
func newSigningKey(algorithm jose.SignatureAlgorithm) (crypto.Signer, error) {
	switch algorithm {
	case jose.RS256:
		return rsa.GenerateKey(rand.Reader, 2048)
	case jose.ES256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	return nil, oauthError("invalid_request", "The algorithm %q is not supported. Use RS256 or ES256.", algorithm)
}

func (k *keyring) add(ctx context.Context, algorithm jose.SignatureAlgorithm, onlyIfNone bool) error {
	private, err := newSigningKey(algorithm)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	return k.store.AddKey(ctx, &Key{ID: "key-" + uuid.NewString()[:8], Private: der, Created: k.now()}, onlyIfNone)
}

// rotate creates a new signing key and deletes those whose tokens have all
// expired: keep is the longest lifetime of a token. Without an algorithm the new
// key has that of the newest.
func (k *keyring) rotate(ctx context.Context, algorithm jose.SignatureAlgorithm, keep time.Duration) error {
	k.mu.RLock()
	algorithm = cmp.Or(algorithm, k.active[0].algorithm)
	k.mu.RUnlock()
	if err := k.add(ctx, algorithm, false); err != nil {
		return err
	}
	keys, err := k.store.Keys(ctx)
	if err != nil {
		return err
	}
	// keys[i-1] replaced keys[i]: from then on keys[i] signed nothing.
	for i := len(keys) - 1; i >= 2; i-- {
		if k.now().Sub(keys[i-1].Created) > keep {
			if err := k.store.DeleteKey(ctx, keys[i].ID); err != nil {
				return err
			}
		}
	}
	return k.load(ctx)
}

// Key implements token.KeySource. An unknown kid may be that of a key which
// another server process just created.
func (k *keyring) Key(ctx context.Context, kid string) (any, error) {
	if key := k.find(kid); key != nil {
		return key.private.Public(), nil
	}
	k.mu.RLock()
	fresh := k.now().Sub(k.loaded) < reloadAfter
	k.mu.RUnlock()
	if !fresh {
		if err := k.load(ctx); err != nil {
			return nil, err
		}
		if key := k.find(kid); key != nil {
			return key.private.Public(), nil
		}
	}
	return nil, fmt.Errorf("%w %q", token.ErrUnknownKey, kid)
}

func (k *keyring) find(kid string) *loadedKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, key := range k.active {
		if key.id == kid {
			return key
		}
	}
	return nil
}

func (k *keyring) current() jose.Signer {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.signer
}

// public returns the public keys, the signing one first.
func (k *keyring) public() ([]map[string]any, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	out := make([]map[string]any, 0, len(k.active))
	for _, key := range k.active {
		shown, err := showKey(key)
		if err != nil {
			return nil, err
		}
		if key == k.signing {
			out = slices.Insert(out, 0, shown)
			continue
		}
		out = append(out, shown)
	}
	return out, nil
}

// algorithms returns the algorithms of the keys that may sign tokens.
func (k *keyring) algorithms() (all []string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, key := range k.active {
		if name := string(key.algorithm); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// showKey returns a key as listed by /token_keys: a JWK with UAA's PEM.
func showKey(key *loadedKey) (map[string]any, error) {
	jwk, err := json.Marshal(jose.JSONWebKey{Key: key.private.Public(), KeyID: key.id, Algorithm: string(key.algorithm),
		Use: "sig"})
	if err != nil {
		return nil, err
	}
	shown := map[string]any{}
	if err := json.Unmarshal(jwk, &shown); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.private.Public())
	if err != nil {
		return nil, err
	}
	shown["value"] = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	return shown, nil
}
