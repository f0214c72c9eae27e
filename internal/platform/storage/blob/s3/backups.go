package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"ingot/internal/base/background"
)

// Backups keeps the objects of backups in a bucket. Objects are sent while they are made, in
// parts, without a file on the local disk.
type Backups struct {
	*Store
	busy error // that another process has the lock
	// stale is the age from which on a lock counts as left by a process that was killed.
	// The holder renews it several times in between.
	stale time.Duration
}

// Backups returns the objects of backups below the prefix of the store. busy is the error if
// another process has locked them.
func (s *Store) Backups(busy error) *Backups { return &Backups{s, busy, 5 * time.Minute} }

func (b *Backups) String() string { return b.config.String() }

// Put stores all of r as an object, or nothing.
func (b *Backups) Put(ctx context.Context, name string, r io.Reader) (size int64, err error) {
	part := make([]byte, b.part)
	n, err := io.ReadFull(r, part)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return int64(n), b.failed(b.putSmall(ctx, name, part[:n], minio.PutObjectOptions{}), "write", name)
	}
	if err != nil {
		return 0, err
	}
	id, err := b.client.NewMultipartUpload(ctx, b.config.bucket, b.config.prefix+name, minio.PutObjectOptions{})
	if err != nil {
		return 0, b.failed(err, "write", name)
	}
	size, err = b.putStream(ctx, name, id, part, r)
	if err != nil {
		// The bucket shows no object until the last request; Purge, or a rule of the
		// bucket, removes what this cannot.
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.request)
		defer cancel()
		_ = b.client.AbortMultipartUpload(rest, b.config.bucket, b.config.prefix+name, id)
	}
	return size, err
}

func (b *Backups) putSmall(ctx context.Context, name string, data []byte, o minio.PutObjectOptions) error {
	o.DisableContentSha256 = true
	return b.repeat(ctx, b.stall, func(ctx context.Context, moved func()) error {
		r, md5, sha, err := section(bytes.NewReader(data), 0, int64(len(data)), moved)
		if err == nil {
			_, err = b.client.PutObject(ctx, b.config.bucket, b.config.prefix+name, r, int64(len(data)), md5, sha, o)
		}
		return err
	})
}

// maxParts is how many parts an object can have.
const maxParts = 10_000

// putStream uploads the first part, and the rest of r, as parts.
func (b *Backups) putStream(ctx context.Context, name, id string, part []byte, r io.Reader) (size int64, err error) {
	var parts []minio.CompletePart
	for n := len(part); n > 0; {
		number := len(parts) + 1
		if number > maxParts {
			return size, fmt.Errorf("%s has more than %d parts of %d MiB, which no bucket takes: write the backup to a file",
				name, maxParts, b.part>>20)
		}
		err := b.repeat(ctx, b.stall, func(ctx context.Context, moved func()) error {
			body, md5, sha, err := section(bytes.NewReader(part[:n]), 0, int64(n), moved)
			if err != nil {
				return err
			}
			sent, err := b.client.PutObjectPart(ctx, b.config.bucket, b.config.prefix+name, id, number, body, int64(n),
				minio.PutObjectPartOptions{Md5Base64: md5, Sha256Hex: sha, DisableContentSha256: true})
			if err == nil {
				parts = append(parts, minio.CompletePart{PartNumber: number, ETag: sent.ETag})
			}
			return err
		})
		if err != nil {
			return size, b.failed(err, "write", name)
		}
		size += int64(n)
		n, err = io.ReadFull(r, part)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return size, err
		}
	}
	_, err = b.client.CompleteMultipartUpload(ctx, b.config.bucket, b.config.prefix+name, id, parts,
		minio.PutObjectOptions{})
	return size, b.failed(err, "write", name)
}

// Open opens an object; fs.ErrNotExist means that there is none. A download that breaks off is continued.
func (b *Backups) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	d := &download{b: b, ctx: ctx, name: name}
	if err := d.begin(); err != nil {
		return nil, b.failed(err, "read", name)
	}
	return d, nil
}

// download reads an object from its beginning to its end.
type download struct {
	b      *Backups
	ctx    context.Context //nolint:containedctx // it lives as long as the object is read
	name   string
	etag   string
	at     int64
	tries  int
	body   io.ReadCloser
	moved  func()
	stop   func()
	closed bool
}

func (d *download) begin() error {
	var o minio.GetObjectOptions
	if d.at > 0 {
		if err := errors.Join(o.SetRange(d.at, 0), o.SetMatchETag(d.etag)); err != nil {
			return err
		}
	}
	watched, moved, stop := watch(d.ctx, d.b.stall)
	body, object, _, err := d.b.client.GetObject(watched, d.b.config.bucket, d.b.config.prefix+d.name, o)
	if err != nil {
		err = cause(watched, err)
		stop()
		return err
	}
	d.body, d.moved, d.stop, d.etag = body, moved, stop, object.ETag
	return nil
}

func (d *download) Read(p []byte) (int, error) {
	for {
		n, err := d.body.Read(p)
		d.moved()
		d.at += int64(n)
		if n > 0 || err == nil || errors.Is(err, io.EOF) {
			if n > 0 && !errors.Is(err, io.EOF) {
				err = nil // it comes again
			}
			return n, err
		}
		if d.ctx.Err() != nil {
			return 0, context.Cause(d.ctx)
		}
		if d.tries++; d.tries == attempts {
			return 0, d.b.failed(err, "read", d.name)
		}
		d.release()
		if err := d.begin(); err != nil {
			d.closed = true
			return 0, d.b.failed(err, "read", d.name)
		}
	}
}

func (d *download) release() {
	_ = d.body.Close() // only read from
	d.stop()
}

func (d *download) Close() error {
	if !d.closed {
		d.closed = true
		d.release()
	}
	return nil
}

// List calls each with the objects whose names begin with a prefix.
func (b *Backups) List(ctx context.Context, prefix string, each func(name string, size int64) error) error {
	watched, moved, stop := watch(ctx, b.request)
	defer stop()
	for object := range b.client.ListObjectsIter(watched, b.config.bucket,
		minio.ListObjectsOptions{Prefix: b.config.prefix + prefix, Recursive: true}) {
		if object.Err != nil {
			return b.failed(cause(watched, object.Err), "list", prefix)
		}
		moved()
		if err := each(strings.TrimPrefix(object.Key, b.config.prefix), object.Size); err != nil {
			return err
		}
	}
	if watched.Err() != nil {
		return b.failed(context.Cause(watched), "list", prefix)
	}
	return nil
}

// Delete deletes an object, if there is one.
func (b *Backups) Delete(ctx context.Context, name string) error {
	short, cancel := context.WithTimeout(ctx, b.request)
	defer cancel()
	return b.failed(b.client.RemoveObject(short, b.config.bucket, b.config.prefix+name, minio.RemoveObjectOptions{}),
		"delete", name)
}

func (b *Backups) failed(err error, doing, name string) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case hasCode(err, minio.NoSuchKey, "NotFound"):
		return fmt.Errorf("%s at %s: %w", name, b, fs.ErrNotExist)
	}
	return fmt.Errorf("%s %s at %s: %w", doing, name, b, err)
}

const lockObject = "lock"

// holder is the content of the lock.
type holder struct {
	Token string `json:"token"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`
}

// Lock makes sure that no other process writes or removes backups until the function is called, with
// an object that is renewed while it is held. The context ends if the lock is lost.
func (b *Backups) Lock(ctx context.Context) (context.Context, func(), error) {
	host, _ := os.Hostname() // only for the message of another process
	me := holder{Token: uuid.NewString(), Host: host, PID: os.Getpid()}
	text, err := json.Marshal(me)
	if err != nil {
		return nil, nil, err
	}
	if err := b.takeLock(ctx, text); err != nil {
		return nil, nil, err
	}
	locked, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	background.Go("lock of backups", func() {
		defer close(done)
		for range background.Ticks(locked, b.stale/5, nil) {
			held, err := b.lockHolder(locked)
			if err == nil && held.Token != me.Token {
				cancel(fmt.Errorf("the lock of %s was taken by the process %d on %s, because it was not renewed for %v", b,
					held.PID, held.Host, b.stale))
				return
			}
			if err == nil {
				err = b.putSmall(locked, lockObject, text, minio.PutObjectOptions{})
			}
			if err != nil && locked.Err() == nil {
				b.log.Warn("the lock of the backups could not be renewed; this is tried again", "error", err)
			}
		}
	})
	return locked, func() {
		cancel(nil)
		<-done
		rest, stop := context.WithTimeout(context.WithoutCancel(ctx), b.request)
		defer stop()
		if held, err := b.lockHolder(rest); err == nil && held.Token == me.Token {
			_ = b.Delete(rest, lockObject) // otherwise it becomes stale
		}
	}, nil
}

// takeLock creates the lock, or takes one that is stale.
func (b *Backups) takeLock(ctx context.Context, text []byte) error {
	for range attempts {
		object, err := b.client.StatObject(ctx, b.config.bucket, b.config.prefix+lockObject, minio.StatObjectOptions{})
		switch {
		case err == nil && b.clock.now().Sub(object.LastModified) < b.stale:
			held, _ := b.lockHolder(ctx) // only for the message
			return fmt.Errorf("%w (process %d on %s, last seen %s); if it was killed, try again in %v", b.busy, held.PID,
				held.Host, object.LastModified.UTC().Format(time.RFC3339), b.stale)
		case err == nil:
			if err := b.Delete(ctx, lockObject); err != nil {
				return err
			}
		case !hasCode(err, minio.NoSuchKey, "NotFound"):
			return b.failed(err, "read", lockObject)
		}
		var o minio.PutObjectOptions
		if b.conditional {
			o.SetMatchETagExcept("*")
		}
		err = b.putSmall(ctx, lockObject, text, o)
		if !hasCode(err, minio.PreconditionFailed, "ConditionalRequestConflict") {
			return b.failed(err, "write", lockObject)
		}
		// Another process was first, or this one, with a request whose answer was lost.
		if held, err := b.lockHolder(ctx); err == nil && bytes.Contains(text, []byte(held.Token)) {
			return nil
		}
	}
	return b.busy
}

func (b *Backups) lockHolder(ctx context.Context) (h holder, err error) {
	r, err := b.Open(ctx, lockObject)
	if err != nil {
		return h, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, 4096)) // a part is no valid JSON
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	return h, err
}
