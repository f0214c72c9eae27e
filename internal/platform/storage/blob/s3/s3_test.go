package s3

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/blob/blobtest"
	"ingot/internal/platform/storage/blob/s3/s3test"
)

// bucket is a bucket under test.
type bucket struct {
	*s3test.Bucket
	t *testing.T
}

func newBucket(t *testing.T) bucket {
	t.Helper()
	return bucket{s3test.New(t), t}
}

// open returns a server's store, which uploads in parts from 1 MiB on.
func (b bucket) open() *Store { return b.openAt(b.t.TempDir()) }

func (b bucket) openAt(dir string) *Store {
	b.t.Helper()
	c, err := ParseURL(b.BlobURL())
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := Open(b.t.Context(), c, dir, slog.New(slog.NewTextHandler(b.t.Output(), nil)))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(s.Close)
	s.multipart, s.part = 1<<20, 1<<19
	return s
}

func TestS3(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blobtest.Subject {
		t.Helper()
		b := newBucket(t)
		s := b.open()
		return blobtest.Subject{
			Store: s,
			Age:   b.Age,
			Other: func() blob.Store { return b.open() },
			Left: func() []string {
				all := []string{}
				for object := range s.client.ListObjectsIter(t.Context(), "blobs", listAll) {
					all = append(all, strings.TrimPrefix(object.Key, "pre/fix/"))
				}
				return all
			},
		}
	})
}

func put(t *testing.T, s blob.Store, kind blob.Kind, key, content string) {
	t.Helper()
	if _, err := s.Put(t.Context(), kind, key, strings.NewReader(content), blob.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func get(ctx context.Context, s blob.Store, kind blob.Kind, key string) (string, error) {
	r, err := s.Open(ctx, kind, key)
	if err != nil {
		return "", err
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	return string(content), err
}

// Packages and droplets are opened without a request, also after a restart, and one
// download is enough for many readers.
func TestCache(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dir := t.TempDir()
	put(t, b.openAt(dir), blob.Droplets, "a", "content")
	other := b.open()
	b.Seen("")
	if got, err := get(t.Context(), b.openAt(dir), blob.Droplets, "a"); got != "content" || err != nil {
		t.Errorf("after a restart got %q, %v, want content", got, err)
	}
	if got := b.Seen("GET /blobs/pre/fix/droplets"); len(got) > 0 {
		t.Errorf("from the cache came %v, want no request", got)
	}
	var group sync.WaitGroup
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	b.Fail(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		arrived <- struct{}{}
		<-release
		return false
	})
	for range 10 {
		group.Go(func() {
			if got, err := get(t.Context(), other, blob.Droplets, "a"); got != "content" || err != nil {
				t.Errorf("got %q, %v, want content", got, err)
			}
		})
	}
	<-arrived
	// One that does not want to wait leaves; the others get it.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := other.Open(ctx, blob.Droplets, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	close(release)
	group.Wait()
	if got := b.Seen("GET /blobs/pre/fix/droplets"); len(got) != 1 {
		t.Errorf("10 readers made %d requests, want 1", len(got))
	}
}

// A damaged file in the cache is loaded again.
func TestDamagedCache(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dir := t.TempDir()
	s := b.openAt(dir)
	put(t, s, blob.Droplets, "a", "content")
	if err := os.Truncate(filepath.Join(dir, "droplets", "a"), 9); err != nil {
		t.Fatal(err)
	}
	if got, err := get(t.Context(), s, blob.Droplets, "a"); got != "content" || err != nil {
		t.Errorf("got %q, %v, want content", got, err)
	}
}

func TestBrokenDownloads(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("0123456789", 20_000)
	for name, test := range map[string]struct {
		// spoil changes the answer with the object.
		spoil func(w http.ResponseWriter, r *http.Request, header http.Header, body []byte)
		times int
		want  fault.Code
	}{
		"cut once":            {cut, 1, ""},
		"always cut":          {cut, 100, fault.Unavailable},
		"changed once":        {changed, 1, ""},
		"always changed":      {changed, 100, fault.Internal},
		"503 twice":           {busy, 2, ""},
		"always 503":          {busy, 100, fault.Unavailable},
		"hanging":             {hanging, 100, fault.Unavailable},
		"hanging in between":  {hangingLater, 100, fault.Unavailable},
		"without checksum":    {unmarked, 100, fault.Internal},
		"shorter than marked": {short, 100, fault.Internal},
		"access denied":       {denied, 100, fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			put(t, b.open(), blob.Packages, "a", content)
			s := b.open()
			if strings.HasPrefix(name, "hanging") {
				s.stall = 300 * time.Millisecond
			}
			var times atomic.Int64
			b.Fail(func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
				if r.Method != http.MethodGet || times.Add(1) > int64(test.times) {
					return false
				}
				record := httptest.NewRecorder()
				next.ServeHTTP(record, r)
				test.spoil(w, r, record.Header(), record.Body.Bytes())
				return true
			})
			got, err := get(t.Context(), s, blob.Packages, "a")
			if fault.CodeOf(err) != test.want || err == nil && got != content {
				t.Errorf("got %d bytes, %v, want %q", len(got), err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), s3test.Secret) {
				t.Errorf("the error has the key: %v", err)
			}
			if left, err := os.ReadDir(filepath.Join(s.cache.Dir(), "tmp")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			// It works again when the store does.
			b.Fail(nil)
			s.stall = time.Minute
			if got, err := get(t.Context(), s, blob.Packages, "a"); got != content || err != nil {
				t.Errorf("afterwards got %d bytes, %v, want %d", len(got), err, len(content))
			}
		})
	}
}

func answer(w http.ResponseWriter, header http.Header, body []byte) {
	for name, values := range header {
		w.Header()[name] = values
	}
	_, _ = w.Write(body) // the client may be gone
}

func cut(w http.ResponseWriter, _ *http.Request, header http.Header, body []byte) {
	answer(w, header, body[:len(body)/2])
	panic(http.ErrAbortHandler)
}

func changed(w http.ResponseWriter, _ *http.Request, header http.Header, body []byte) {
	body[1000]++
	answer(w, header, body)
}

func short(w http.ResponseWriter, _ *http.Request, header http.Header, body []byte) {
	header.Set("Content-Length", "1000")
	answer(w, header, body[:1000])
}

func unmarked(w http.ResponseWriter, _ *http.Request, header http.Header, body []byte) {
	header.Del("X-Amz-Meta-" + metaSHA256)
	answer(w, header, body)
}

func busy(w http.ResponseWriter, _ *http.Request, _ http.Header, _ []byte) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

func denied(w http.ResponseWriter, _ *http.Request, _ http.Header, _ []byte) {
	w.WriteHeader(http.StatusForbidden)
}

// A server that hangs does so until the client gives up.
func hanging(_ http.ResponseWriter, r *http.Request, _ http.Header, _ []byte) { <-r.Context().Done() }

func hangingLater(w http.ResponseWriter, r *http.Request, header http.Header, body []byte) {
	answer(w, header, body[:1000])
	_ = http.NewResponseController(w).Flush() // the client may be gone
	<-r.Context().Done()
}
