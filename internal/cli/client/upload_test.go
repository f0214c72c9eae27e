package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ingot/internal/cli/client"
)

// What goes wrong with an upload on this machine is reported as that, and what the server
// says of it otherwise.
func TestFailedUploads(t *testing.T) {
	t.Parallel()
	unreadable := errors.New("push.log changed")
	reads := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"guid":"p"}`)
	}
	refuses := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"errors":[{"detail":"no more packages"}]}`)
	}
	huge := strings.Repeat("x", 8<<20)
	for name, tc := range map[string]struct {
		server http.HandlerFunc
		write  func(io.Writer) error
		length int64
		local  bool
		says   string
	}{
		"all is well": {reads, func(w io.Writer) error { _, err := io.WriteString(w, "12345"); return err },
			5, false, ""},
		"fails at once": {reads, func(io.Writer) error { return unreadable }, 5, true, ""},
		"fails in between": {reads, func(w io.Writer) error { _, _ = io.WriteString(w, "12"); return unreadable },
			5, true, ""},
		"fails at the end": {reads, func(w io.Writer) error { _, _ = io.WriteString(w, huge); return unreadable },
			int64(len(huge)) + 1, true, ""},
		"the server refuses": {refuses, func(w io.Writer) error { _, err := io.WriteString(w, huge); return err },
			int64(len(huge)), false, "no more packages"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tc.server)
			t.Cleanup(server.Close)
			c := client.New(server.URL, client.Trust{}, client.Tokens{})
			t.Cleanup(c.Close)
			_, err := c.Upload(t.Context(), "p", nil, &client.Bits{Length: tc.length, Write: tc.write}, nil)
			var local *client.LocalError
			switch {
			case errors.As(err, &local) != tc.local || tc.local && !errors.Is(err, unreadable):
				t.Errorf("error %v, want a local one: %v", err, tc.local)
			case tc.says != "" && err != nil && !client.Says(err, tc.says):
				// The connection may break before the response is read.
				var unreachable *client.Unreachable
				if !errors.As(err, &unreachable) {
					t.Errorf("error %v, want %q", err, tc.says)
				}
			case tc.says == "" && !tc.local && err != nil:
				t.Error(err)
			}
		})
	}
}
