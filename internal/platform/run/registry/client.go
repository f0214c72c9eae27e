package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"ingot/internal/base/fault"
	"ingot/internal/base/safedial"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// Config configures a Client.
type Config struct {
	// Guard permits the addresses of registries.
	Guard safedial.Guard
	// Insecure are registries, HOST or HOST:PORT, that may be used without TLS.
	Insecure []string
	// TLS is for connections; nil means the system's certificates.
	TLS *tls.Config
	// UserAgent is how the client calls itself.
	UserAgent string
	// Retry is the pause before a failed request is repeated the first time; 0 means
	// half a second.
	Retry time.Duration
}

// Client reads images. It is safe for concurrent use.
type Client struct {
	config    Config
	transport http.RoundTripper // for layers, which are not kept in memory
	small     http.RoundTripper // for everything else
	platform  v1.Platform
}

// Limits of an image.
const (
	mostLayers   = 127     // as Docker
	mostSize     = 8 << 30 // bytes of the compressed layers
	mostSettings = 1 << 20 // bytes of command, environment and the like
	mostConfig   = 4 << 20 // bytes of its configuration
	mostManifest = 1 << 20 // bytes of its manifest, or of an index
	attempts     = 3
)

// New returns a Client.
func New(c Config) *Client {
	c.Retry = cmp.Or(c.Retry, 500*time.Millisecond)
	base := &http.Transport{
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: 30 * time.Second,
		MaxIdleConnsPerHost: 4, MaxResponseHeaderBytes: 256 << 10, ForceAttemptHTTP2: true, TLSClientConfig: c.TLS,
		DisableCompression: true, // a small response could become a large one
	}
	transport := &guarded{next: safedial.Transport(base, c.Guard, safedial.Routes{}, 10*time.Second), plain: c.Insecure}
	return &Client{config: c, platform: v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, transport: transport,
		small: limited{transport}}
}

// guarded refuses requests without TLS to servers that need it.
type guarded struct {
	next  http.RoundTripper
	plain []string
}

// limited limits the size of responses, which the library reads into memory: what the registry
// of a user sends must not take that of the server.
type limited struct{ next http.RoundTripper }

// errTooLarge means that a response is larger than any that is needed.
var errTooLarge = errors.New("the response is too large")

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	most := int64(mostConfig)
	if strings.Contains(r.URL.Path, "/manifests/") {
		most = mostManifest
	}
	reply.Body = &limitedBody{reply.Body, most}
	return reply, nil
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// errPlain means that a registry, or a server that it names, does not use TLS.
var errPlain = errors.New("without TLS")

// RoundTrip implements http.RoundTripper.
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !g.allowed(r.URL) {
		return nil, errPlain
	}
	return g.next.RoundTrip(r)
}

func (g *guarded) allowed(u *url.URL) bool {
	if u.Scheme != "http" {
		return false
	}
	return isLoopback(u.Hostname()) || slices.Contains(g.plain, u.Host) || slices.Contains(g.plain, u.Hostname())
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// CheckInsecure checks a list of registries for Config.Insecure.
func CheckInsecure(list []string) error {
	for _, host := range list {
		if _, err := name.NewRegistry(host); err != nil || host == "" || strings.ContainsAny(host, "/@") {
			return fmt.Errorf("%q is not a registry such as registry.example.com:5000", host)
		}
	}
	return nil
}

// reference parses the reference of an image.
func (c *Client) reference(text string) (name.Reference, error) {
	opts := []name.Option{name.WeakValidation}
	ref, err := name.ParseReference(text, opts...)
	if err == nil && slices.ContainsFunc(c.config.Insecure, func(host string) bool {
		registry := ref.Context().RegistryStr()
		at, _, _ := net.SplitHostPort(registry)
		return host == registry || host == at
	}) {
		ref, err = name.ParseReference(text, append(opts, name.Insecure)...)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Unprocessable,
			"%q is not the name of an image: it has the form [REGISTRY/]NAME[:TAG] or [REGISTRY/]NAME@DIGEST, in lower case, "+
				"such as registry.example.com/shop:1.2", text)
	}
	return ref, nil
}

// options returns the options of requests for an image.
func (c *Client) options(ctx context.Context, src platform.ImageSource, through http.RoundTripper) []remote.Option {
	auth := authn.Anonymous
	if src.Username != "" || src.Password != "" {
		auth = &authn.Basic{Username: src.Username, Password: src.Password}
	}
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(through), remote.WithAuth(auth), remote.WithPlatform(c.platform),
		remote.WithUserAgent(c.config.UserAgent),
		remote.WithRetryBackoff(remote.Backoff{Duration: c.config.Retry, Factor: 3, Jitter: 0.1, Steps: attempts}),
	}
}

// Resolve finds an image and returns what is needed to run it.
func (c *Client) Resolve(ctx context.Context, src platform.ImageSource) (*platform.Image, error) {
	ref, err := c.reference(src.Reference)
	if err != nil {
		return nil, err
	}
	found, err := remote.Get(ref, c.options(ctx, src, c.small)...)
	if err != nil {
		return nil, c.explain(ctx, err, src, ref)
	}
	if found.MediaType.IsSchema1() {
		return nil, fault.New(fault.Unprocessable,
			"The image %s has the format of 2015 (schema 1), which is no longer supported: push it again with a current "+
				"version of Docker", src.Reference)
	}
	if found.MediaType.IsIndex() {
		if err := c.offered(found, src.Reference); err != nil {
			return nil, err
		}
	}
	img, err := found.Image()
	if err != nil {
		return nil, c.explain(ctx, err, src, ref)
	}
	manifest, err := img.Manifest()
	if err != nil {
		return nil, c.explain(ctx, err, src, ref)
	}
	out := &platform.Image{Repository: ref.Context().Name(), Digest: found.Digest.String()}
	if n := manifest.Config.Size; n < 0 || n > mostConfig {
		return nil, fault.New(fault.Unprocessable,
			"The configuration of the image %s has %d bytes, and at most %d MB are possible", src.Reference, n, mostConfig>>20)
	}
	for _, l := range manifest.Layers {
		if !l.MediaType.IsLayer() || !l.MediaType.IsDistributable() {
			return nil, fault.New(fault.Unprocessable,
				"The image %s has a layer of the type %q, which is not supported: images of other systems and artifacts cannot "+
					"be run", src.Reference, short(string(l.MediaType)))
		}
		out.Layers = append(out.Layers, platform.ImageLayer{Digest: l.Digest.String(), Size: l.Size})
	}
	if err := checkSize(out, src.Reference); err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, c.explain(ctx, err, src, ref)
	}
	return out, c.configure(out, config, src.Reference)
}

func checkSize(i *platform.Image, reference string) error {
	switch n := len(i.Layers); {
	case n == 0:
		return fault.New(fault.Unprocessable, "The image %s has no layers, so there is nothing to run", reference)
	case n > mostLayers:
		return fault.New(fault.Unprocessable,
			"The image %s has %d layers, and %d are possible: build it with fewer, for example in several stages", reference,
			n, mostLayers)
	}
	for _, l := range i.Layers {
		if l.Size < 0 || l.Size > mostSize {
			return fault.New(fault.Unprocessable, "The image %s has a layer of %d bytes, and at most %d GB are possible",
				reference, l.Size, mostSize>>30)
		}
	}
	if size := i.Size(); size > mostSize {
		return fault.New(fault.Unprocessable,
			"The image %s has %d MB, and at most %d GB are possible: remove what the app does not need", reference, size>>20,
			mostSize>>30)
	}
	return nil
}

// offered checks that there is an image for this machine among those of an index.
func (c *Client) offered(found *remote.Descriptor, reference string) error {
	index, err := found.ImageIndex()
	if err != nil {
		return err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return err
	}
	var others []string
	for _, m := range list.Manifests {
		if m.Platform == nil || m.Platform.OS == "unknown" {
			continue
		}
		if m.Platform.OS == c.platform.OS && m.Platform.Architecture == c.platform.Architecture {
			return nil
		}
		others = append(others, m.Platform.OS+"/"+m.Platform.Architecture)
	}
	slices.Sort(others)
	return c.wrongPlatform(reference, short(strings.Join(slices.Compact(others), ", ")))
}

// short cuts a text of a registry that is in a message.
func short(text string) string {
	const most = 200
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func (c *Client) wrongPlatform(reference, others string) error {
	want := c.platform.OS + "/" + c.platform.Architecture
	return fault.New(fault.Unprocessable,
		"The image %s is for %s, and this server runs %s: build it with 'docker build --platform %s'", reference,
		others, want, want)
}

// configure adds how the image is run.
func (c *Client) configure(to *platform.Image, f *v1.ConfigFile, reference string) error {
	if f.OS != "" && f.OS != c.platform.OS || f.Architecture != "" && f.Architecture != c.platform.Architecture {
		return c.wrongPlatform(reference, short(f.OS+"/"+f.Architecture))
	}
	to.Entrypoint, to.Command, to.Env = f.Config.Entrypoint, f.Config.Cmd, f.Config.Env
	to.Dir, to.User = f.Config.WorkingDir, f.Config.User
	size := len(to.Dir) + len(to.User)
	for _, text := range slices.Concat(to.Entrypoint, to.Command, to.Env) {
		if strings.ContainsRune(text, 0) {
			return fault.New(fault.Unprocessable, "The image %s has a NUL character in its command or environment", reference)
		}
		size += len(text)
	}
	if size > mostSettings {
		return fault.New(fault.Unprocessable,
			"The command and the environment of the image %s have %d kB, and at most %d kB are possible", reference, size>>10,
			mostSettings>>10)
	}
	for exposed := range f.Config.ExposedPorts {
		if port, ok := tcpPort(exposed); ok && !slices.Contains(to.Ports, port) {
			to.Ports = append(to.Ports, port)
		}
	}
	slices.Sort(to.Ports)
	to.Ports = to.Ports[:min(len(to.Ports), mostPorts)]
	return nil
}

// Layers returns the layers of an image, to be read with the credentials of src.
func (c *Client) Layers(i *platform.Image, src platform.ImageSource) []engine.Layer {
	out := make([]engine.Layer, 0, len(i.Layers))
	for _, l := range i.Layers {
		out = append(out, engine.Layer{Key: l.Key(), Open: func(ctx context.Context) (io.ReadCloser, error) {
			return c.open(ctx, i, l, src)
		}})
	}
	return out
}

func (c *Client) open(ctx context.Context, i *platform.Image, l platform.ImageLayer,
	src platform.ImageSource) (io.ReadCloser, error) {
	ref, err := c.reference(i.Repository + "@" + l.Digest)
	if err != nil {
		return nil, err
	}
	digest, ok := ref.(name.Digest)
	if !ok {
		return nil, fmt.Errorf("%s is not a digest", l.Digest)
	}
	layer, err := remote.Layer(digest, c.options(ctx, src, c.transport)...)
	if err != nil {
		return nil, c.explain(ctx, err, src, ref)
	}
	r, err := layer.Compressed()
	if err != nil {
		return nil, c.explain(ctx, err, src, ref)
	}
	return &body{ReadCloser: r, left: l.Size, explain: func(err error) error { return c.explain(ctx, err, src, ref) }}, nil
}

// body is a layer that is being read. It has the size of the manifest.
type body struct {
	io.ReadCloser
	left    int64
	explain func(error) error
}

var errLonger = errors.New("the layer is longer than the image says")

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	switch {
	case b.left < 0:
		err = errLonger
	case errors.Is(err, io.EOF) && b.left > 0:
		err = io.ErrUnexpectedEOF
	}
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = b.explain(err)
	}
	return n, err
}
