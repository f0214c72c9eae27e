package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/outbound"
)

// TestSlowFailure has a token service that fails after a long time: those that come next do not call it at once.
func TestSlowFailure(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Unix(1_900_000_000, 0))
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		clock.Advance(30 * time.Second)
		w.WriteHeader(http.StatusGatewayTimeout)
	}))
	defer server.Close()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &Compiled{grant: &notify.AccessGrant{URL: server.URL}, signer: signer, hidden: func() []string { return nil }}
	client, a := outbound.New(outbound.Options{Private: true}), &access{}
	for range 3 {
		if _, err := a.get(t.Context(), c, client, clock.Now); err == nil {
			t.Error("got a token")
		}
	}
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
	clock.Advance(calm)
	if _, err := a.get(t.Context(), c, client, clock.Now); err == nil || calls != 2 {
		t.Errorf("after the pause: %v, %d calls, want 2", err, calls)
	}
}
