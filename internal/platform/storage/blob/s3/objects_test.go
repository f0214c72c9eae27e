package s3

import (
	"bytes"
	"net/http"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/blob/s3/s3test"
)

// TestObjects: objects are shared by servers, checked, apart from blobs, and requests are
// repeated.
func TestObjects(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	ctx := t.Context()
	one, two := b.open().Objects("logs"), b.open().Objects("logs")
	data := bytes.Repeat([]byte("line "), 50_000)
	b.Fail(first(2, s3test.Away))
	if err := one.Put(ctx, "app/1-x", data); err != nil {
		t.Fatal(err)
	}
	b.Fail(nil)
	if got, err := two.Get(ctx, "app/1-x"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(data))
	}
	if _, err := two.store.Sweep(ctx, blob.Packages, func(keys []string) ([]string, error) { return keys, nil },
		0); err != nil {
		t.Fatal(err)
	}
	b.Fail(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	if _, err := two.Get(ctx, "app/1-x"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v, want %s", err, fault.Unavailable)
	}
	b.Fail(nil)
	for range 2 { // the second finds none
		if err := one.Delete(ctx, "app/1-x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := two.Get(ctx, "app/1-x"); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want %s", err, fault.NotFound)
	}
}
