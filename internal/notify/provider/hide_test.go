package provider

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"ingot/internal/notify"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/outbound"
)

// TestHiddenBeforeCut has each kind of value that must not be shown, in each place where a reason is made, across the
// place where that is cut: no part of it is left.
func TestHiddenBeforeCut(t *testing.T) {
	t.Parallel()
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(body))
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
	client, channel := outbound.New(outbound.Options{Private: true}), NewChannel(notify.Push, Options{})
	conclude := func(ctx context.Context, c *Compiled, j job, a *answer, err error) string {
		call, _ := failover.NewBreaker(failover.Options{}).Try(time.Now())
		return channel.concluded(ctx, route{Compiled: c, line: &line{}}, j, call, a, &trial{}, err).Reason
	}
	places := map[string]struct {
		most int
		made func(c *Compiled, j job, said string) string
	}{
		"answer": {maxSaid, func(c *Compiled, j job, said string) string {
			return conclude(t.Context(), c, j, &answer{Answer: outbound.Answer{Status: 400}, body: []byte(said)}, nil)
		}},
		"error": {maxWhy, func(c *Compiled, j job, said string) string {
			return conclude(t.Context(), c, j, &answer{}, errors.New(said))
		}},
		"exchange": {maxSaid, func(c *Compiled, j job, said string) string {
			body = said
			_, err := (&access{}).get(t.Context(), c, client, time.Now, j.private()...)
			return conclude(t.Context(), c, j, &answer{}, err)
		}},
	}
	const value, phone = "Zq9/Zq9+Zq9&Zq9é", "4915112345678"
	note := &Note{Token: "another"}
	for kind, of := range map[string]struct {
		value string
		have  job
		named []string
	}{
		"secret":       {value, job{Outgoing: &notify.Outgoing{}, note: note}, forms(value)},
		"access token": {value, job{Outgoing: &notify.Outgoing{}, note: note, access: value}, nil},
		"device token": {value, job{Outgoing: &notify.Outgoing{}, note: &Note{Token: value}}, nil},
		"within another": {"x" + value + "y", job{Outgoing: &notify.Outgoing{}, note: &Note{Token: "x" + value + "y"}},
			forms("q9")},
		"phone number": {phone, job{Outgoing: &notify.Outgoing{To: "+" + phone}}, nil},
	} {
		c := &Compiled{signer: signer, grant: &notify.AccessGrant{URL: server.URL},
			success: notify.AnswerRule{Status: []notify.StatusRange{{From: 200, To: 299}}},
			hidden:  func() []string { return of.named }}
		for place, p := range places {
			for _, form := range forms(of.value) {
				for n := p.most - len(form) - 1; n <= p.most; n++ {
					got := p.made(c, of.have, strings.Repeat(".", n)+form)
					if got == "" || strings.ContainsAny(got, "Z8") || strings.Contains(got, "9") {
						t.Fatalf("%s in %s after %d: %q", kind, place, n, got)
					}
				}
			}
		}
		long := strings.Repeat(of.value, outbound.MaxAnswer)[:outbound.MaxAnswer]
		if got := c.hiding(of.have.private()...).line(long, outbound.MaxAnswer); strings.ContainsAny(got, "Z89") {
			t.Errorf("%s at the end of what is read: %.100q", kind, got)
		}
	}
}
