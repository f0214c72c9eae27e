package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/blob/s3/s3test"
)

// count counts the objects and the unfinished uploads of a bucket.
func (b bucket) count(s *Store) (objects, uploads int) {
	b.t.Helper()
	for object := range s.client.ListObjectsIter(b.t.Context(), "blobs", listAll) {
		if object.Err != nil {
			b.t.Fatal(object.Err)
		}
		objects++
	}
	list, err := s.client.ListMultipartUploads(b.t.Context(), "blobs", "", "", "", "", 1000)
	if err != nil && !hasCode(err, minio.NoSuchUpload) {
		b.t.Fatal(err)
	}
	return objects, len(list.Uploads)
}

// first fails the first n PUT requests.
func first(n int64, f s3test.Failure) s3test.Failure {
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		return r.Method == http.MethodPut && seen.Add(1) <= n && f(w, r, next)
	}
}

func TestBrokenUploads(t *testing.T) {
	t.Parallel()
	corrupt := func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		content[len(content)/2]++
		r.Body = io.NopCloser(bytes.NewReader(content))
		next.ServeHTTP(w, r)
		return true
	}
	answerLost := func(_ http.ResponseWriter, r *http.Request, next http.Handler) bool {
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	cutOff := func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		_, _ = io.CopyN(io.Discard, r.Body, 1000) // whatever there is
		panic(http.ErrAbortHandler)
	}
	hang := func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the client leave
		<-r.Context().Done()
		return true
	}
	for name, test := range map[string]struct {
		fail s3test.Failure
		want fault.Code
	}{
		"503 twice":     {first(2, s3test.Away), ""},
		"always 503":    {first(1000, s3test.Away), fault.Unavailable},
		"cut off once":  {first(1, cutOff), ""},
		"always cut":    {first(1000, cutOff), fault.Unavailable},
		"answer lost":   {first(1, answerLost), ""},
		"hanging":       {first(1000, hang), fault.Unavailable},
		"corrupted":     {first(1000, corrupt), fault.Unavailable},
		"access denied": {s3test.Denied(http.MethodPut, "pre/fix"), fault.Unavailable},
	} {
		for size, content := range map[string]string{"small": strings.Repeat("x", 200_000),
			"large": strings.Repeat("y", 3<<20)} {
			t.Run(name+"/"+size, func(t *testing.T) {
				t.Parallel()
				b := newBucket(t)
				s := b.open()
				if name == "hanging" {
					s.stall = 500 * time.Millisecond
				}
				b.Fail(test.fail)
				_, err := s.Put(t.Context(), blob.Packages, "a", strings.NewReader(content), blob.PutOptions{Once: true})
				b.Fail(nil)
				if fault.CodeOf(err) != test.want {
					t.Errorf("got %v, want %q", err, test.want)
				}
				var e *fault.Error
				if errors.As(err, &e) &&
					e.Message != "The blob store of the platform does not work at the moment (storing the package). Nothing was "+
						"changed; try again later." {
					t.Errorf("the message is %q", e.Message)
				}
				want := 1
				if err != nil {
					want = 0
				}
				if objects, uploads := b.count(s); objects != want || uploads != 0 {
					t.Errorf("%d objects and %d unfinished uploads, want %d and none", objects, uploads, want)
				}
				if got, err := get(t.Context(), b.open(), blob.Packages, "a"); want == 1 && (got != content || err != nil) {
					t.Errorf("another server got %d bytes, %v, want %d", len(got), err, len(content))
				}
				if _, err := s.cache.Stat(t.Context(), blob.Packages, "a"); want == 0 && !fault.Is(err, fault.NotFound) {
					t.Errorf("the cache has what is not stored: %v", err)
				}
			})
		}
	}
}

// What is in the cache can be used while the store is away.
func TestAway(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	s := b.open()
	put(t, s, blob.Droplets, "a", "content")
	b.Fail(s3test.Away)
	if got, err := get(t.Context(), s, blob.Droplets, "a"); got != "content" || err != nil {
		t.Errorf("got %q, %v, want content", got, err)
	}
	ctx := t.Context()
	_, open := s.Open(ctx, blob.Droplets, "b")
	_, stat := s.Stat(ctx, blob.Droplets, "b")
	_, match := s.Match(ctx, "me", []blob.Resource{{SHA1: strings.Repeat("a", 40), Size: 100_000}})
	_, sign := s.SignedURL(ctx, blob.Droplets, "a", "", "")
	_, sweep := s.Sweep(ctx, blob.Packages, nil, 0)
	for what, err := range map[string]error{"open": open, "stat": stat, "match": match, "sign": sign, "sweep": sweep,
		"delete": s.Delete(ctx, blob.Droplets, "a"), "purge": s.Purge(ctx)} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v, want %s", what, err, fault.Unavailable)
		}
	}
}

// A hanging store does not keep a caller longer than its own limit, and not the
// others.
func TestHanging(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	s := b.open()
	put(t, s, blob.Droplets, "a", "content")
	s.request = 200 * time.Millisecond
	b.Fail(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		<-r.Context().Done()
		return true
	})
	if _, err := s.Stat(t.Context(), blob.Packages, "b"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("stat: %v, want %s", err, fault.Unavailable)
	}
	if _, err := s.Sweep(t.Context(), blob.Packages, nil, 0); !fault.Is(err, fault.Unavailable) {
		t.Errorf("sweep: %v, want %s", err, fault.Unavailable)
	}
	if err := s.Purge(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("purge: %v, want %s", err, fault.Unavailable)
	}
	// All slots are taken.
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2*workers)
	for i := range 2 * workers {
		go func() {
			_, err := s.Open(ctx, blob.Packages, string(rune('a'+i)))
			results <- err
		}()
	}
	if got, err := get(t.Context(), s, blob.Droplets, "a"); got != "content" || err != nil {
		t.Errorf("got %q, %v, want content", got, err)
	}
	cancel()
	for range 2 * workers {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	}
}

// Uploads that a crash left are removed after a day, by the clock of the store.
func TestAbortedUploads(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	s := b.open()
	begin := func() {
		t.Helper()
		if _, err := s.client.NewMultipartUpload(t.Context(), "blobs", "pre/fix/packages/a",
			minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	b.Age(23 * time.Hour)
	begin()
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, uploads := b.count(s); uploads != 2 {
		t.Errorf("%d uploads, want 2", uploads)
	}
	b.Age(2 * time.Hour)
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, uploads := b.count(s); uploads != 2 {
		t.Errorf("%d uploads, want 2: the bucket is not listed twice in an hour", uploads)
	}
	other := b.open()
	if err := other.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, uploads := b.count(s); uploads != 1 {
		t.Errorf("%d uploads, want 1", uploads)
	}
}

// A resource that was not used for 30 days is removed; a match renews it.
func TestResourcesExpire(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	one, two := strings.Repeat("1", 100_000), strings.Repeat("2", 100_000)
	for _, content := range []string{one, two} {
		if _, err := b.open().putResourceOf("me", content); err != nil {
			t.Fatal(err)
		}
	}
	b.Age(20 * 24 * time.Hour)
	s := b.open()
	used := resourceOf(one)
	for range 2 { // the second finds it fresh
		if got, err := s.Match(t.Context(), "me", []blob.Resource{used}); err != nil || len(got) != 1 {
			t.Fatalf("matched %v, %v, want the file", got, err)
		}
	}
	if got := b.Seen("PUT /blobs/pre/fix/resources/"); len(got) != 3 {
		t.Errorf("2 uploads and 2 matches made the requests %v, want 3", got)
	}
	b.Age(11 * 24 * time.Hour)
	if err := b.open().Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := b.open()
	if got, err := other.Match(t.Context(), "me", []blob.Resource{resourceOf(two), used}); err != nil || len(got) != 1 ||
		got[0] != used {
		t.Errorf("matched %v, %v, want the used one", got, err)
	}
	if r, err := other.OpenResource(t.Context(), "me", used); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
}

// An older store ignores or refuses the condition of a request.
func TestWithoutConditions(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]s3test.Failure{
		"ignored": func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
			r.Header.Del("If-None-Match")
			return false
		},
		"refused": func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if r.Header.Get("If-None-Match") == "" {
				return false
			}
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = io.WriteString(w, "<Error><Code>NotImplemented</Code></Error>")
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			b.Fail(fail)
			s := b.open()
			only := blob.PutOptions{Once: true}
			for range 2 {
				if _, err := s.Put(t.Context(), blob.Packages, "a", strings.NewReader("one"), only); err != nil {
					t.Errorf("the same content: %v", err)
				}
			}
			if _, err := s.Put(t.Context(), blob.Packages, "a", strings.NewReader("other"),
				only); !fault.Is(err, fault.Conflict) {
				t.Errorf("other content: %v, want %s", err, fault.Conflict)
			}
		})
	}
}

func TestSignedURL(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	s := b.open()
	put(t, s, blob.Droplets, "a", "content")
	text, err := s.SignedURL(t.Context(), blob.Droplets, "a", `attachment; filename="x.tgz"`, "application/gzip")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if q.Get("X-Amz-Expires") != "300" || q.Get("X-Amz-Signature") == "" ||
		q.Get("response-content-type") != "application/gzip" || strings.Contains(text, s3test.Secret) {
		t.Errorf("the URL is %s, want one that is signed for 300 seconds", text)
	}
	response, err := b.Client().Get(text)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); string(got) != "content" || err != nil {
		t.Errorf("got %q, %v, want content", got, err)
	}
	if _, err := s.SignedURL(t.Context(), blob.Droplets, "none", "", ""); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want %s", err, fault.NotFound)
	}
}

// The log has no secrets, whatever happens.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	var log bytes.Buffer
	c, err := ParseURL(b.BlobURL())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), c, t.TempDir(),
		slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, b.open(), blob.Packages, "a", "content")
	b.Fail(func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		if r.Method == http.MethodGet {
			panic(http.ErrAbortHandler)
		}
		return s3test.Away(w, r, next)
	})
	_, err = s.Open(t.Context(), blob.Packages, "a")
	_, putErr := s.Put(t.Context(), blob.Packages, "b", strings.NewReader("x"), blob.PutOptions{})
	for _, text := range []string{log.String(), errors.Join(err, putErr).Error()} {
		for _, secret := range []string{s3test.Secret, "Signature", "AKIDEXAMPLE"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in %s", secret, text)
			}
		}
	}
}
