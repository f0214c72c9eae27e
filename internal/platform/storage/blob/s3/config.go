package s3

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Config says where a bucket is and how it is used. ParseURL makes it.
type Config struct {
	bucket, prefix string
	endpoint       string // HOST or HOST:PORT
	insecure       bool   // plain HTTP
	region         string
	lookup         minio.BucketLookupType
	caFile         string
	keyFile        string
	cacheSize      int64
	trust          *tls.Config // nil means the system's certificates
}

// Trusting returns the configuration with another TLS configuration, unless the URL has a
// ca-file.
func (c Config) Trusting(t *tls.Config) Config {
	c.trust = t
	return c
}

const (
	amazon           = "s3.amazonaws.com"
	defaultCacheSize = 10 << 30
)

// ParseURL reads s3://BUCKET/PREFIX?PARAMETERS. Its errors do not quote the URL,
// which may contain a key by mistake.
func ParseURL(s string) (Config, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "s3" || u.Host == "" || u.Opaque != "":
		return Config{}, errors.New(
			"it must be s3://BUCKET or s3://BUCKET/PREFIX, for example s3://ingot/blobs?endpoint=https://s3.example.com")
	case u.User != nil:
		return Config{}, errors.New(
			"it must not contain keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or credentials-file=FILE in the URL")
	case u.Fragment != "":
		return Config{}, errors.New("it must not have a fragment")
	case s3utils.CheckValidBucketNameStrict(u.Host) != nil:
		return Config{}, errors.New("its bucket is not a name of 3 to 63 characters, a-z, 0-9, - and ., as S3 demands")
	}
	c := Config{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), endpoint: amazon, cacheSize: defaultCacheSize}
	if c.prefix != "" {
		c.prefix += "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Config{}, errors.New("its parameters are not NAME=VALUE&NAME=VALUE")
	}
	endpoint, allowed := "", false
	for name, values := range query {
		value := values[0]
		switch name {
		case "endpoint":
			endpoint = value
		case "insecure":
			allowed, err = strconv.ParseBool(value)
		case "region":
			c.region = value
		case "path-style":
			var path bool
			path, err = strconv.ParseBool(value)
			c.lookup = minio.BucketLookupDNS
			if path {
				c.lookup = minio.BucketLookupPath
			}
		case "ca-file":
			c.caFile = value
		case "credentials-file":
			c.keyFile = value
		case "cache":
			c.cacheSize, err = parseSize(value)
		default:
			return Config{}, errors.New(
				"it has an unknown parameter; the parameters are endpoint, region, path-style, insecure, ca-file, " +
					"credentials-file and cache")
		}
		if err != nil || len(values) > 1 {
			return Config{}, fmt.Errorf("its parameter %s is not valid", name)
		}
	}
	c.region = cmp.Or(c.region, os.Getenv("AWS_REGION"))
	if err := c.setEndpoint(endpoint, allowed); err != nil {
		return Config{}, err
	}
	return c, nil
}

// setEndpoint sets the address of the store.
func (c *Config) setEndpoint(text string, insecure bool) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" ||
		u.User != nil {
		return errors.New("its parameter endpoint must be https://HOST or https://HOST:PORT")
	}
	if u.Scheme == "http" && !insecure {
		return errors.New("its endpoint is plain http, which anyone on the way can read and change: use https, or add " +
			"insecure=true")
	}
	c.endpoint, c.insecure = u.Host, u.Scheme == "http"
	// Only Amazon tells in which region a bucket is.
	c.region = cmp.Or(c.region, "us-east-1")
	return nil
}

// parseSize reads a number of bytes, with one of the units MB, GB, MiB and GiB.
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "MGiB")
	unit, ok := map[string]int64{"MB": 1e6, "GB": 1e9, "MiB": 1 << 20, "GiB": 1 << 30}[s[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || !ok || n <= 0 {
		return 0, errors.New("no size")
	}
	return n * unit, nil
}

// Timeouts of requests. An upload or download may take as long as it moves.
const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 30 * time.Second
	attempts      = 4
)

// transport returns the HTTP transport for a bucket.
func (c Config) transport() (*http.Transport, error) {
	t := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
		ResponseHeaderTimeout: headerTimeout,
		MaxIdleConnsPerHost:   workers, IdleConnTimeout: time.Minute, ExpectContinueTimeout: time.Second,
		DisableCompression: true, // content that is compressed stays as it is
		TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if c.caFile == "" {
		if c.trust != nil {
			t.TLSClientConfig = c.trust.Clone()
		}
		return t, nil
	}
	text, err := os.ReadFile(c.caFile)
	if err != nil {
		return nil, fmt.Errorf("read ca-file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read ca-file: %s has no certificate in PEM form", c.caFile)
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

// keys returns where the keys of the bucket come from: a file if one is given,
// otherwise the environment, the usual file, or the cloud's identity.
func (c Config) keys() *credentials.Credentials {
	if c.keyFile != "" {
		return credentials.New(&credentials.FileAWSCredentials{Filename: c.keyFile})
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{},
		&credentials.IAM{Region: c.region, Client: &http.Client{Timeout: dialTimeout}},
	})
}
