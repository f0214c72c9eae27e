package s3

import (
	"context"
	"crypto/sha1"
	"fmt"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/minio/minio-go/v7"

	"ingot/internal/platform/storage/blob"
)

// TestMain makes the pauses between attempts short.
func TestMain(m *testing.M) {
	minio.DefaultRetryUnit = time.Millisecond
	os.Exit(m.Run())
}

var listAll = minio.ListObjectsOptions{Prefix: "pre/fix/", Recursive: true}

func resourceOf(content string) blob.Resource {
	return blob.Resource{SHA1: fmt.Sprintf("%x", sha1.Sum([]byte(content))), Size: int64(len(content))}
}

func (s *Store) putResourceOf(scope, content string) (int, error) {
	return s.AddResources(context.Background(), scope, fstest.MapFS{"f": {Data: []byte(content)}})
}
