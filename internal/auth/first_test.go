package auth_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"ingot/internal/auth"
)

// Until the first users and keys exist, requests wait for them.
func TestRequestsWaitForTheFirstUsers(t *testing.T) {
	t.Parallel()
	created, asked := make(chan struct{}), make(chan struct{}, 10)
	f := setup(t, func(o *auth.Options) {
		o.First = func(ctx context.Context) error {
			asked <- struct{}{}
			select {
			case <-created:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	answers := make(chan int, 1)
	go func() {
		res, err := (&http.Client{}).Get(f.url + "/token_keys") //nolint:noctx // ends with the server
		if err != nil {
			answers <- 0
			return
		}
		defer res.Body.Close()
		answers <- res.StatusCode
	}()
	<-asked
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.server.LoginLink(cancelled, "/"); !errors.Is(err, context.Canceled) {
		t.Errorf("a login link before there are users: %v", err)
	}
	select {
	case status := <-answers:
		t.Fatalf("status %d before there is a key", status)
	default:
	}
	close(created)
	if status := <-answers; status != http.StatusOK {
		t.Errorf("status %d, want %d", status, http.StatusOK)
	}
	if _, err := f.server.LoginLink(t.Context(), "/"); err != nil {
		t.Errorf("login link: %v", err)
	}
}

// If they cannot be created, requests are told to try again: the server is about to stop.
func TestFirstUsersFail(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *auth.Options) {
		o.First = func(context.Context) error { return errors.New("the disk is full") }
	})
	f.want(f.call(http.MethodGet, "/token_keys", nil), http.StatusServiceUnavailable)
}
