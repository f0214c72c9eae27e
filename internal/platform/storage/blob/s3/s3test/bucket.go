package s3test

import (
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"ingot/internal/base/testkit"
)

// Secret is the secret key of the bucket, which must never be seen.
const Secret = "topsecret"

// Bucket is an S3 server with one bucket, called blobs.
type Bucket struct {
	*httptest.Server

	t     *testing.T
	dir   string       // its certificate, and keys
	ahead atomic.Int64 // by how much its clock is ahead

	mu       sync.Mutex
	requests []string
	fail     Failure
}

// Failure answers a request wrongly. It returns false for requests that do not
// fail, and has the server that answers correctly.
type Failure func(w http.ResponseWriter, r *http.Request, next http.Handler) bool

// New returns a bucket, which is closed with the test.
func New(t *testing.T) *Bucket {
	t.Helper()
	b := &Bucket{t: t, dir: t.TempDir()}
	backend := s3mem.New(s3mem.WithTimeSource(clock{b}))
	testkit.Must(t, backend.CreateBucket("blobs"))
	fake := gofakes3.New(backend, gofakes3.WithTimeSource(clock{b}), gofakes3.WithTimeSkewLimit(0),
		gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.requests = append(b.requests, r.Method+" "+r.URL.RequestURI())
		fail := b.fail
		b.mu.Unlock()
		w.Header().Set("Date", clock{b}.Now().UTC().Format(http.TimeFormat))
		if fail == nil || !fail(w, r, fake) {
			fake.ServeHTTP(w, r)
		}
	}))
	b.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	b.StartTLS()
	t.Cleanup(b.Server.Close)
	b.Write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw})))
	b.Write("keys", "[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = "+Secret+"\n")
	return b
}

// clock is the clock of a bucket.
type clock struct{ b *Bucket }

func (c clock) Now() time.Time                  { return time.Now().Add(time.Duration(c.b.ahead.Load())) }
func (c clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Write writes one of the files that BlobURL names: ca.pem, keys.
func (b *Bucket) Write(name, content string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// BlobURL is what a user configures.
func (b *Bucket) BlobURL() string {
	return fmt.Sprintf("s3://blobs/pre/fix?endpoint=%s&path-style=true&ca-file=%s&credentials-file=%s", b.URL,
		filepath.Join(b.dir, "ca.pem"), filepath.Join(b.dir, "keys"))
}

// Fail sets what happens to requests from now on; nil is nothing.
func (b *Bucket) Fail(f Failure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = f
}

// Age makes all objects older.
func (b *Bucket) Age(d time.Duration) { b.ahead.Add(int64(d)) }

// Seen returns the requests since the last call that begin with prefix.
func (b *Bucket) Seen(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.requests
	b.requests = nil
	return slices.DeleteFunc(all, func(r string) bool { return !strings.HasPrefix(r, prefix) })
}

// Away is a Failure of all requests.
func Away(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
	w.WriteHeader(http.StatusServiceUnavailable)
	return true
}

// Denied is a Failure of the requests with a method and something in their URL.
func Denied(method, in string) Failure {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if r.Method != method || !strings.Contains(r.URL.RequestURI(), in) {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>")
		return true
	}
}
