package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/blob"
)

const (
	// workers is how many uploads and how many downloads run at the same time.
	workers = 8
	// sweepInterval is how often the bucket is listed, and sweepAge how long an
	// object is kept that nothing refers to.
	sweepInterval = time.Hour
	sweepAge      = 24 * time.Hour
	// signedFor is how long a signed URL can be used.
	signedFor = 5 * time.Minute
)

// Store keeps blobs in a bucket. It has to be closed.
type Store struct {
	config    Config
	client    client
	transport *http.Transport
	clock     *clock
	cache     *blob.Files
	limits    blob.PoolLimits
	log       *slog.Logger
	// conditional says that the store knows If-None-Match.
	conditional bool
	// multipart is the size from which on content is uploaded in parts.
	multipart, part int64
	// stall is how long an upload or download may pause, and request how long any
	// other request may take.
	stall, request time.Duration

	uploads, downloads chan struct{} // slots

	open    context.Context // ends when the store is closed
	close   context.CancelFunc
	flights background.WaitGroup
	mu      sync.Mutex
	flying  map[string]*flight // downloads, by object
	swept   map[blob.Kind]time.Time
	tidied  time.Time
}

var (
	_ blob.Store  = (*Store)(nil)
	_ blob.Purger = (*Store)(nil)
)

// newStore returns a store without checking it.
func newStore(c Config, dir string, log *slog.Logger) (*Store, error) {
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	clock := &clock{next: transport}
	client, err := newClient(c, clock)
	if err != nil {
		return nil, err
	}
	cache, err := blob.OpenCache(dir, c.cacheSize)
	if err != nil {
		return nil, fmt.Errorf("cache of the blob store: %w", err)
	}
	s := &Store{
		config: c, client: client, transport: transport, clock: clock, cache: cache, log: log,
		limits:      blob.PoolLimits{MinFile: 64 << 10}.WithDefaults(),
		conditional: true, multipart: 64 << 20, part: 16 << 20, stall: 45 * time.Second, request: 30 * time.Second,
		uploads: make(chan struct{}, workers), downloads: make(chan struct{}, workers),
		flying: map[string]*flight{}, swept: map[blob.Kind]time.Time{},
	}
	s.open, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Close ends the downloads that are running.
func (s *Store) Close() {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.flights.Wait()
	s.transport.CloseIdleConnections()
}

// clock learns the time of the store from its answers.
type clock struct {
	next   http.RoundTripper
	offset atomic.Int64
}

func (c *clock) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err == nil {
		if at, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			c.offset.Store(int64(time.Until(at)))
		}
	}
	return response, err
}

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// name is the name of the object of a blob.
func (s *Store) name(kind blob.Kind, key string) string {
	return s.config.prefix + kind.Dir() + "/" + key
}

// The names of user metadata, as the library returns them.
const (
	metaSHA256 = "Ingot-Sha256"
	metaSHA1   = "Ingot-Sha1"
	metaSize   = "Ingot-Size"
)

func metadata(i blob.Info) map[string]string {
	return map[string]string{metaSHA256: i.SHA256, metaSHA1: i.SHA1, metaSize: strconv.FormatInt(i.Size, 10)}
}

// infoOf returns what an object says about itself.
func infoOf(o minio.ObjectInfo) (blob.Info, error) {
	i := blob.Info{Size: o.Size, SHA256: o.UserMetadata[metaSHA256], SHA1: o.UserMetadata[metaSHA1]}
	if len(i.SHA256) != 64 || len(i.SHA1) != 40 || o.UserMetadata[metaSize] != strconv.FormatInt(o.Size, 10) {
		return i, fmt.Errorf("%w: %s was cut off, or not written by Ingot", errDamaged, o.Key)
	}
	return i, nil
}

// failed gives an error of the library its meaning for the caller, whose context
// is ctx.
func failed(ctx context.Context, err error, doing string, kind blob.Kind) error {
	var known *fault.Error
	switch {
	case err == nil || errors.As(err, &known) || errors.Is(err, errDamaged):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case hasCode(err, minio.NoSuchKey, "NotFound"):
		return blob.NotFound(kind)
	}
	return fault.Wrap(err, fault.Unavailable,
		"The blob store of the platform does not work at the moment (%s the %s). Nothing was changed; try again later.",
		doing, kind).After(time.Minute)
}

func hasCode(err error, codes ...string) bool {
	var response minio.ErrorResponse
	if !errors.As(err, &response) {
		return false
	}
	return slices.Contains(codes, response.Code)
}

// slot waits for one of the slots.
func slot(ctx context.Context, slots chan struct{}) (release func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, kind blob.Kind, key string) (blob.Info, error) {
	if blob.CheckKey(kind, key) != nil {
		return blob.Info{}, blob.NotFound(kind)
	}
	short, cancel := context.WithTimeout(ctx, s.request)
	defer cancel()
	object, err := s.client.StatObject(short, s.config.bucket, s.name(kind, key), minio.StatObjectOptions{})
	if err != nil {
		return blob.Info{}, failed(ctx, err, "looking for", kind)
	}
	return infoOf(object)
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, kind blob.Kind, key string) error {
	if blob.CheckKey(kind, key) != nil {
		return nil // nothing can have such a key
	}
	short, cancel := context.WithTimeout(ctx, s.request)
	defer cancel()
	if err := s.client.RemoveObject(short, s.config.bucket, s.name(kind, key), minio.RemoveObjectOptions{}); err != nil {
		return failed(ctx, err, "deleting", kind)
	}
	return s.cache.Delete(ctx, kind, key)
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, kind blob.Kind) iter.Seq2[blob.Item, error] {
	return func(yield func(blob.Item, error) bool) {
		prefix := s.name(kind, "")
		watched, moved, stop := watch(ctx, s.request)
		defer stop()
		for object := range s.client.ListObjectsIter(watched, s.config.bucket,
			minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if object.Err != nil {
				yield(blob.Item{}, failed(ctx, cause(watched, object.Err), "listing", kind))
				return
			}
			moved()
			key := strings.TrimPrefix(object.Key, prefix)
			if blob.CheckKey(kind, key) != nil {
				continue // not ours
			}
			if !yield(blob.Item{Key: key, Size: object.Size, Modified: object.LastModified}, nil) {
				return
			}
		}
		if watched.Err() != nil {
			yield(blob.Item{}, failed(ctx, context.Cause(watched), "listing", kind))
		}
	}
}

// Sweep implements blob.Store. It lists the bucket at most once an hour, and keeps
// every object for a day.
func (s *Store) Sweep(ctx context.Context, kind blob.Kind, unused func([]string) ([]string, error),
	olderThan time.Duration) (blob.Swept, error) {
	s.mu.Lock()
	recently := time.Since(s.swept[kind]) < sweepInterval
	s.mu.Unlock()
	if recently {
		return blob.Swept{}, nil
	}
	swept, err := blob.SweepBefore(ctx, s, kind, unused, s.clock.now().Add(-max(olderThan, sweepAge)))
	if err == nil {
		s.mu.Lock()
		s.swept[kind] = time.Now()
		s.mu.Unlock()
	}
	return swept, err
}

// Tidy implements blob.Store.
func (s *Store) Tidy(ctx context.Context) error { return s.cache.Tidy(ctx) }

// Purge implements blob.Purger. It removes uploads that were not completed within a day,
// and resources that were not used for long, at most once an hour.
func (s *Store) Purge(ctx context.Context) error {
	s.mu.Lock()
	recently := time.Since(s.tidied) < sweepInterval
	s.mu.Unlock()
	if recently {
		return nil
	}
	if err := s.abortUploads(ctx); err != nil {
		return err
	}
	all := func(keys []string) ([]string, error) { return keys, nil }
	if _, err := blob.SweepBefore(ctx, s, blob.Resources, all, s.clock.now().Add(-resourceAge)); err != nil {
		return err
	}
	s.mu.Lock()
	s.tidied = time.Now()
	s.mu.Unlock()
	return nil
}

// SignedURL is a blob.Signer.
func (s *Store) SignedURL(ctx context.Context, kind blob.Kind, key, disposition, contentType string) (string, error) {
	if _, err := s.Stat(ctx, kind, key); err != nil {
		return "", err
	}
	u, err := s.client.PresignedGetObject(ctx, s.config.bucket, s.name(kind, key), signedFor, url.Values{
		"response-content-disposition": {disposition}, "response-content-type": {contentType},
	})
	if err != nil {
		return "", failed(ctx, err, "signing a URL of", kind)
	}
	return u.String(), nil
}

// moving calls moved whenever something was read.
type moving struct {
	io.Reader
	moved func()
}

func (m moving) Read(p []byte) (int, error) {
	m.moved()
	return m.Reader.Read(p)
}

// errStalled is the cause of a context of watch.
var errStalled = errors.New("the transfer stopped moving")

// watch returns a context that ends when moved is not called for a while.
func watch(ctx context.Context, d time.Duration) (watched context.Context, moved, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := background.AfterFunc("stalled transfer", d, func() { cancel(errStalled) })
	return ctx, func() { timer.Reset(d) }, func() {
		timer.Stop()
		cancel(nil)
	}
}
