package s3

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/blob/s3/s3test"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Config{
		"s3://bucket": {bucket: "bucket", endpoint: amazon, cacheSize: 10 << 30},
		"s3://bucket/a/b/?endpoint=https://s3.example.com:9000&region=eu-1": {
			bucket: "bucket", prefix: "a/b/", endpoint: "s3.example.com:9000", region: "eu-1", cacheSize: 10 << 30,
		},
		"s3://bucket?endpoint=http://127.0.0.1:9000&insecure=true&path-style=true&cache=500MiB": {
			bucket: "bucket", endpoint: "127.0.0.1:9000", insecure: true, region: "us-east-1", lookup: minio.BucketLookupPath,
			cacheSize: 500 << 20,
		},
		"s3://bucket?region=eu-1&path-style=false&ca-file=/a/b&credentials-file=/c/d&cache=2GB": {
			bucket: "bucket", endpoint: amazon, region: "eu-1", lookup: minio.BucketLookupDNS, caFile: "/a/b", keyFile: "/c/d",
			cacheSize: 2e9,
		},
	} {
		if got, err := ParseURL(text); err != nil || got != want {
			t.Errorf("%s is %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                   "it must be s3://BUCKET",
		"https://s3.example.com/bucket":      "it must be s3://BUCKET",
		"s3:bucket":                          "it must be s3://BUCKET",
		"s3://bucket\x7f":                    "it must be s3://BUCKET",
		"s3://AKID:geheim@bucket":            "it must not contain keys",
		"s3://bucket#geheim":                 "it must not have a fragment",
		"s3://Bucket_1":                      "its bucket is not",
		"s3://bucket:9000/x":                 "its bucket is not",
		"s3://bucket?secret=geheim":          "it has an unknown parameter",
		"s3://bucket?%zz":                    "its parameters are not",
		"s3://bucket?endpoint=geheim":        "its parameter endpoint must be",
		"s3://bucket?endpoint=https://a/b":   "its parameter endpoint must be",
		"s3://bucket?endpoint=http://a":      "plain http, which anyone on the way can read",
		"s3://bucket?path-style=geheim":      "its parameter path-style is not valid",
		"s3://bucket?region=a&region=geheim": "its parameter region is not valid",
		"s3://bucket?cache=10":               "its parameter cache is not valid",
		"s3://bucket?cache=-1GiB":            "its parameter cache is not valid",
		"s3://bucket?cache=GiB":              "its parameter cache is not valid",
	} {
		_, err := ParseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The check names the step that failed and what to do.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(b bucket)
		url     func(url string) string
		want    string
	}{
		"no bucket": {url: func(u string) string { return strings.Replace(u, "blobs/", "other/", 1) },
			want: "cannot find the bucket: it does not exist (create it"},
		"no keys": {prepare: func(b bucket) { b.Write("keys", "[default]") },
			want: "cannot find keys: there are none (set AWS_ACCESS_KEY_ID"},
		"no key file": {url: func(u string) string { return u + "x" }, want: "cannot find keys: open "},
		"no CA file": {url: func(u string) string { return strings.Replace(u, "ca.pem", "none.pem", 1) },
			want: "read ca-file: open "},
		"no CA": {prepare: func(b bucket) { b.Write("ca.pem", "nothing") }, want: "has no certificate in PEM form"},
		"head bucket": {prepare: func(b bucket) { b.Fail(s3test.Denied("HEAD", "/blobs")) },
			want: "cannot find the bucket: Access Denied. (create it"},
		"put": {prepare: func(b bucket) { b.Fail(s3test.Denied("PUT", "check-")) },
			want: "cannot write an object: Access Denied. (allow s3:PutObject"},
		"get": {prepare: func(b bucket) { b.Fail(s3test.Denied("GET", "check-")) },
			want: "cannot read the object: Access Denied. (allow s3:GetObject)"},
		"list": {prepare: func(b bucket) { b.Fail(s3test.Denied("GET", "list-type=2")) },
			want: "cannot list objects: Access Denied. (allow s3:ListBucket)"},
		"delete": {prepare: func(b bucket) { b.Fail(s3test.Denied("DELETE", "check-")) },
			want: "cannot delete the object: Access Denied. (allow s3:DeleteObject)"},
		"not running": {prepare: func(b bucket) { b.Server.Close() }, want: "cannot find the bucket: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			url := b.BlobURL()
			if test.prepare != nil {
				test.prepare(b)
			}
			if test.url != nil {
				url = test.url(url)
			}
			c, err := ParseURL(url)
			if err == nil {
				_, err = Open(t.Context(), c, t.TempDir(), slog.New(slog.DiscardHandler))
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), s3test.Secret) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A certificate of an unknown authority is refused.
func TestUnknownAuthority(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	c, err := ParseURL(b.BlobURL())
	c.caFile = ""
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c, t.TempDir(), slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("got %v, want an unknown authority", err)
	}
}

// A server whose store is away starts if the store was right before.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dir := t.TempDir()
	s := b.openAt(dir)
	put(t, s, blob.Droplets, "a", "content")
	s.Close()
	b.Server.Close()
	s = b.openAt(dir)
	if got, err := get(t.Context(), s, blob.Droplets, "a"); got != "content" || err != nil {
		t.Errorf("got %q, %v, want content from the cache", got, err)
	}
	if !s.conditional {
		t.Error("the store is not trusted to know If-None-Match")
	}
	// Another bucket has to be reached.
	c, err := ParseURL(strings.Replace(b.BlobURL(), "pre/fix", "other", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c, dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("opened a bucket that was never reached")
	}
}
