package api_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/platform/api"
)

// endless is a multipart body with a file of a size. It counts what was read.
type endless struct {
	io.Reader
	read int64
}

func (e *endless) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	e.read += int64(n)
	return n, err
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func bodyOf(size int64) *endless {
	return &endless{Reader: io.MultiReader(
		strings.NewReader("--limit\r\nContent-Disposition: form-data; name=\"bits\"; filename=\"app.zip\"\r\n\r\n"),
		io.LimitReader(zeroes{}, size), strings.NewReader("\r\n--limit--\r\n"))}
}

// TestUploadTooLarge sends more than is taken, announced or not. The client is
// told so, after it could send everything, and nothing of it is left.
func TestUploadTooLarge(t *testing.T) {
	t.Parallel()
	const limit = 2 << 20
	scratch := t.TempDir()
	f := setupOptions(t, db.SQLite, func(o *api.Options) { o.MaxUpload, o.Scratch = limit, scratch })
	admin := f.admin()
	app := f.app(f.space(f.org("o"), "s"), "big")
	pkg := f.want(f.call(admin, "POST", "/v3/packages", map[string]any{"type": "bits", "relationships": rel("app", app)}),
		201).guid()
	for name, length := range map[string]int64{"announced": 0, "not announced": -1} {
		body := bodyOf(5 * limit)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v3/packages/"+pkg+"/upload", body)
		r.Header.Set("Content-Type", "multipart/form-data; boundary=limit")
		if r.ContentLength = length; length == 0 {
			r.ContentLength = 5*limit + 200
		}
		a := f.send(admin, r)
		if a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.detail(), "larger than the limit of 2 MB") ||
			!strings.Contains(a.detail(), ".cfignore") {
			t.Errorf("%s: answer is %d %s, want 413 with the limit and .cfignore", name, a.status, a.body)
		}
		if body.read < 5*limit {
			t.Errorf("%s: answered after %d bytes, so that cf would not see why", name, body.read)
		}
		if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
			t.Errorf("%s: left are %v, %v", name, left, err)
		}
	}
	if got := f.want(f.call(admin, "GET", "/v3/packages/"+pkg, nil), 200); got.at("state") != "AWAITING_UPLOAD" {
		t.Errorf("the package: %s", got.body)
	}
	// Who waits for a word is told before sending anything.
	body := bodyOf(5 * limit)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v3/packages/"+pkg+"/upload", body)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=limit")
	r.Header.Set("Expect", "100-continue")
	r.ContentLength = 5 * limit
	if a := f.send(admin, r); a.status != http.StatusRequestEntityTooLarge || body.read > 0 {
		t.Errorf("asked before: %d after %d bytes", a.status, body.read)
	}
	// What breaks off is no upload either.
	r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v3/packages/"+pkg+"/upload",
		io.MultiReader(io.LimitReader(bodyOf(limit), limit/2), broken{}))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=limit")
	if a := f.send(admin, r); a.status != http.StatusBadRequest {
		t.Errorf("broken off: %d %s", a.status, a.body)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// broken is a connection that ends.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.Join(io.ErrUnexpectedEOF) }
