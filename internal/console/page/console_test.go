package page

import (
	"context"
	"net/http"
	"testing"
	"time"
)

func TestLocalPath(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/console": "/console", "/console/apps?q=x&page=2": "/console/apps?q=x&page=2",
		"/console?said=stop": "/console?said=stop",
		"":                   "/console", "/": "/console", "/consolex": "/console", "//evil.example/console": "/console",
		"https://evil.example/console/": "/console",
		"/console/\\evil":               "/console", "/console/\nx": "/console", "javascript:alert(1)": "/console",
	} {
		if got := localPath(to); got != want {
			t.Errorf("localPath(%q) = %q, want %q", to, got, want)
		}
	}
}

func TestCSRF(t *testing.T) {
	t.Parallel()
	s, other := &Session{Secrets: Secrets{CSRF: RandomText()}}, &Session{Secrets: Secrets{CSRF: RandomText()}}
	a, b := s.csrfToken(), s.csrfToken()
	if a == b {
		t.Error("two pages have the same token")
	}
	if !s.checkCSRF(a) || !s.checkCSRF(b) {
		t.Error("a token of the session is refused")
	}
	none := &Session{}
	for _, text := range []string{"", "x", a[1:], other.csrfToken(), none.csrfToken(), s.Secrets.CSRF} {
		if s.checkCSRF(text) || none.checkCSRF(text) {
			t.Errorf("the token %q is accepted", text)
		}
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"cf", "restart", "web"}, "cf restart web"},
		{[]string{"cf", "restart", "a b"}, "cf restart 'a b'"},
		{[]string{"cf", "restart", `it's $(rm)`}, `cf restart 'it'\''s $(rm)'`},
		{[]string{"cf", "restart", ""}, "cf restart ''"},
	} {
		if got := Command(test.words...); got != test.want {
			t.Errorf("command(%q) = %s, want %s", test.words, got, test.want)
		}
	}
}

// TestAwait checks that a live page does not wait for its next turn when something happened.
func TestAwait(t *testing.T) {
	t.Parallel()
	w := &lineSignal{header: http.Header{}, lines: make(chan struct{}, 1)}
	for _, text := range []string{":connected\n\n", ":\n\n"} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil || len(w.lines) > 0 {
			t.Errorf("after the comment %q: %d, %v, %d signals", text, n, err, len(w.lines))
		}
	}
	for range 2 { // the second one does not block
		if _, err := w.Write([]byte("id: 1\ndata: {}\n\n")); err != nil {
			t.Fatal(err)
		}
	}
	if !await(t.Context(), time.Hour, w.lines) {
		t.Error("the stream ends after a line")
	}
	if !await(t.Context(), time.Nanosecond, nil) {
		t.Error("the stream ends after its pause")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if await(ended, time.Hour, nil) {
		t.Error("the stream goes on after its end")
	}
}
