package apitest_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Phones implements notify.Directory.
func (d phones) Phones(_ context.Context, ids []string) (map[string]string, error) {
	found := map[string]string{}
	for _, id := range ids {
		found[id] = thePhone
	}
	return found, nil
}

// browser is one that has subscribed, with its push service.
type browser struct {
	*httptest.Server
	key  *ecdh.PrivateKey
	auth []byte

	mu       sync.Mutex
	payloads []called
	problems []error
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{key: key, auth: make([]byte, 16)}
	_, _ = rand.Read(b.auth)
	b.Server = httptest.NewTLSServer(b)
	t.Cleanup(b.Close)
	return b
}

// keys are what the page sends to subscribe.
func (b *browser) keys() (p256dh, auth string) {
	return base64.RawURLEncoding.EncodeToString(b.key.PublicKey().Bytes()), base64.RawURLEncoding.EncodeToString(b.auth)
}

func (b *browser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sealed, _ := io.ReadAll(r.Body)
	plain, err := b.open(sealed)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.problems = append(b.problems, err)
	}
	b.payloads = append(b.payloads, called{r.URL.Path, r.Header, plain})
	w.WriteHeader(http.StatusCreated)
}

func (b *browser) received() ([]called, []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.payloads, b.problems
}

// open decrypts a message of RFC 8291.
func (b *browser) open(body []byte) ([]byte, error) {
	if len(body) < 21+65 || body[20] != 65 {
		return nil, errors.New("no header with a key")
	}
	salt, sender, sealed := body[:16], body[21:86], body[86:]
	public, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return nil, err
	}
	shared, err := b.key.ECDH(public)
	if err != nil {
		return nil, err
	}
	derive := func(input, salt []byte, info string, n int) []byte {
		key, err := hkdf.Key(sha256.New, input, salt, info, n)
		if err != nil {
			panic(err)
		}
		return key
	}
	input := derive(shared, b.auth, "WebPush: info\x00"+string(b.key.PublicKey().Bytes())+string(sender), 32)
	block, err := aes.NewCipher(derive(input, salt, "Content-Encoding: aes128gcm\x00", 16))
	if err != nil {
		return nil, err
	}
	opener, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	plain, err := opener.Open(nil, derive(input, salt, "Content-Encoding: nonce\x00", 12), sealed, nil)
	for len(plain) > 0 && plain[len(plain)-1] == 0 {
		plain = plain[:len(plain)-1]
	}
	if err != nil || len(plain) == 0 {
		return nil, errors.Join(err, errors.New("nothing was decrypted"))
	}
	return plain[:len(plain)-1], nil
}
