package registry_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	hub "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"ingot/internal/base/fault"
	"ingot/internal/base/safedial"
	"ingot/internal/platform"
	"ingot/internal/platform/run/registry"
)

// quiet is for registries, which log every request.
var quiet = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)

// serve starts a registry on loopback. around may change what it does.
func serve(t *testing.T, around func(http.Handler) http.Handler) string {
	t.Helper()
	h := hub.New(hub.Logger(quiet))
	if around != nil {
		h = around(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func image(t *testing.T, arch string, c v1.Config) v1.Image {
	t.Helper()
	img, err := random.Image(1024, 3)
	if err != nil {
		t.Fatal(err)
	}
	f, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	f = f.DeepCopy()
	f.OS, f.Architecture, f.Config = "linux", arch, c
	if img, err = mutate.ConfigFile(img, f); err != nil {
		t.Fatal(err)
	}
	return img
}

func push(t *testing.T, at string, img v1.Image, opts ...remote.Option) {
	t.Helper()
	ref, err := name.ParseReference(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, opts...); err != nil {
		t.Fatal(err)
	}
}

func client(c registry.Config) *registry.Client {
	c.Guard, c.Retry = safedial.Everywhere, time.Millisecond
	return registry.New(c)
}

func refused(t *testing.T, err error, want ...string) {
	t.Helper()
	var e *fault.Error
	if !fault.Is(err, fault.Unprocessable) {
		t.Fatalf("error %v, want one for the user", err)
	}
	e, _ = err.(*fault.Error) //nolint:errorlint // the error itself is for the user
	for _, text := range want {
		if e == nil || !strings.Contains(e.Message, text) {
			t.Errorf("error %q, want %q in it", err, text)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	host := serve(t, nil)
	img := image(t, goarch, v1.Config{
		Entrypoint: []string{"/bin/shop"}, Cmd: []string{"--port", "{{home}}"}, Env: []string{"A=b", "C=d=e"},
		WorkingDir: "/srv", User: "shop:staff",
		ExposedPorts: map[string]struct{}{"8443/tcp": {}, "53/udp": {}, "80": {}, "x": {}, "8080/TCP": {}},
	})
	push(t, host+"/a/shop:1", img)
	c := client(registry.Config{})
	src := platform.ImageSource{Reference: host + "/a/shop:1"}
	got, err := c.Resolve(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	digest, _ := img.Digest()
	if got.Digest != digest.String() || got.Repository != host+"/a/shop" || len(got.Layers) != 3 {
		t.Errorf("got %+v, want the digest %s", got, digest)
	}
	if !slices.Equal(got.Args(), []string{"/bin/shop", "--port", "{{home}}"}) || got.Dir != "/srv" ||
		got.User != "shop:staff" || !slices.Equal(got.Ports, []int{80, 8080, 8443}) || len(got.Env) != 2 {
		t.Errorf("got %+v", got)
	}
	for i, l := range c.Layers(got, src) {
		r, err := l.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		_ = r.Close()
		sum := sha256.Sum256(data)
		if err != nil || "sha256:"+hex.EncodeToString(sum[:]) != got.Layers[i].Digest || l.Key != got.Layers[i].Key() {
			t.Errorf("layer %d has %d bytes, %v", i, len(data), err)
		}
	}
	if again, err := c.Resolve(t.Context(), platform.ImageSource{Reference: host + "/a/shop@" +
		digest.String()}); err != nil || again.Digest != digest.String() {
		t.Errorf("by digest: %+v, %v", again, err)
	}
}

func TestPlatforms(t *testing.T) {
	t.Parallel()
	host := serve(t, nil)
	other := "s390x"
	mine, its := image(t, goarch, v1.Config{}), image(t, other, v1.Config{})
	push(t, host+"/other", its)
	for tag, list := range map[string][]v1.Image{"both": {its, mine}, "one": {its}} {
		index := v1.ImageIndex(empty.Index)
		for _, img := range list {
			f, _ := img.ConfigFile()
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
				Platform: &v1.Platform{OS: "linux", Architecture: f.Architecture}}})
		}
		ref, _ := name.ParseReference(host + "/index:" + tag)
		if err := remote.WriteIndex(ref, index); err != nil {
			t.Fatal(err)
		}
	}
	c := client(registry.Config{})
	want, _ := mine.Manifest()
	got, err := c.Resolve(t.Context(), platform.ImageSource{Reference: host + "/index:both"})
	if err != nil || got.Layers[0].Digest != want.Layers[0].Digest.String() {
		t.Errorf("got %+v, %v, want the image of this machine", got, err)
	}
	for _, at := range []string{"/other", "/index:one"} {
		_, err := c.Resolve(t.Context(), platform.ImageSource{Reference: host + at})
		refused(t, err, "is for linux/s390x", "docker build --platform linux/"+goarch)
	}
}

// basic asks for a user and a password.
func basic(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// token asks for a token, which it gives at /token.
func token(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			if user, password, _ := r.BasicAuth(); user != "ann" || password != "secret" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]string{"token": "of-ann"})
			return
		}
		if r.Header.Get("Authorization") != "Bearer of-ann" {
			w.Header().Set("WWW-Authenticate",
				fmt.Sprintf(`Bearer realm="http://%s/token",service="x",scope="repository:a:pull"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	for kind, around := range map[string]func(http.Handler) http.Handler{"basic": basic, "token": token} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := hub.New(hub.Logger(quiet))
			open := httptest.NewServer(h)
			t.Cleanup(open.Close)
			img := image(t, goarch, v1.Config{Cmd: []string{"x"}})
			push(t, strings.TrimPrefix(open.URL, "http://")+"/a", img)
			s := httptest.NewServer(around(h))
			t.Cleanup(s.Close)
			c := client(registry.Config{})
			src := platform.ImageSource{Reference: strings.TrimPrefix(s.URL, "http://") + "/a", Username: "ann",
				Password: "secret"}
			got, err := c.Resolve(t.Context(), src)
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Layers(got, src)[0].Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				t.Error(err)
			}
			_ = r.Close()
			src.Password = "wrong"
			_, err = c.Resolve(t.Context(), src)
			refused(t, err, "the user ann", "CF_DOCKER_PASSWORD")
			_, err = c.Layers(got, src)[0].Open(t.Context())
			refused(t, err, "the user ann")
			src.Username, src.Password = "", ""
			_, err = c.Resolve(t.Context(), src)
			refused(t, err, "--docker-username")
		})
	}
}

// TestRedirects sees that credentials do not follow a redirect of a layer.
func TestRedirects(t *testing.T) {
	t.Parallel()
	store := hub.New(hub.Logger(quiet))
	leaked := make(chan string, 10)
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := r.Header.Get("Authorization"); a != "" {
			leaked <- a
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(cdn.Close)
	img := image(t, goarch, v1.Config{})
	push(t, strings.TrimPrefix(cdn.URL, "http://")+"/a", img)
	host := serve(t, func(http.Handler) http.Handler {
		return basic(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				to, _ := url.Parse(cdn.URL)
				to.Path = r.URL.Path
				http.Redirect(w, r, to.String(), http.StatusTemporaryRedirect)
				return
			}
			store.ServeHTTP(w, r)
		}))
	})
	c := client(registry.Config{})
	src := platform.ImageSource{Reference: host + "/a", Username: "ann", Password: "secret"}
	got, err := c.Resolve(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Layers(got, src)[0].Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error(err)
	}
	_ = r.Close()
	select {
	case a := <-leaked:
		t.Errorf("another server got %q", a)
	default:
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(nil)
	gone := strings.TrimPrefix(away.URL, "http://")
	away.Close()
	status := func(n int) string {
		return serve(t, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(n)
				_, _ = io.WriteString(w, "internal: secret of the server")
			})
		})
	}
	host := serve(t, nil)
	c := client(registry.Config{})
	for name, test := range map[string]struct {
		reference string
		want      []string
	}{
		"no name":       {"", []string{"is not the name of an image"}},
		"upper case":    {"Shop", []string{"is not the name of an image", "lower case"}},
		"not found":     {host + "/none:1", []string{"does not exist in the registry " + host, "check its name and tag"}},
		"down":          {gone + "/a", []string{"cannot be reached", "try again"}},
		"unknown host":  {"registry.invalid/a", []string{"registry.invalid"}},
		"broken":        {status(500) + "/a", []string{"does not work at the moment (status 500)"}},
		"limited":       {status(429) + "/a", []string{"accepts no more requests"}},
		"no registry":   {status(200) + "/a", []string{"could not be read"}},
		"something odd": {status(418) + "/a", []string{"status 418"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.Resolve(t.Context(), platform.ImageSource{Reference: test.reference})
			refused(t, err, test.want...)
			if e, _ := err.(*fault.Error); e != nil && //nolint:errorlint // the error itself
				strings.Contains(e.Message, "secret") {
				t.Errorf("the message shows the response: %q", e.Message)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Resolve(ctx, platform.ImageSource{Reference: host + "/a"}); fault.Is(err, fault.Unprocessable) ||
		err == nil {
		t.Errorf("cancelled: %v, want the context's error", err)
	}
}

// TestWrongContent are layers that are not what the manifest says.
func TestWrongContent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func([]byte) []byte{
		"changed": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"longer":  func(b []byte) []byte { return append(b, 0) },
		"shorter": func(b []byte) []byte { return b[:len(b)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			img := image(t, goarch, v1.Config{})
			m, _ := img.Manifest()
			host := serve(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, m.Layers[1].Digest.String()) {
						h.ServeHTTP(w, r)
						return
					}
					seen := httptest.NewRecorder()
					h.ServeHTTP(seen, r)
					_, _ = w.Write(change(bytes.Clone(seen.Body.Bytes())))
				})
			})
			push(t, host+"/a", img)
			c := client(registry.Config{})
			src := platform.ImageSource{Reference: host + "/a"}
			got, err := c.Resolve(t.Context(), src)
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Layers(got, src)[1].Open(t.Context())
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				_ = r.Close()
			}
			refused(t, err, "sent data that is not what the image")
		})
	}
}

// TestAddresses are those that a user must not reach.
func TestAddresses(t *testing.T) {
	t.Parallel()
	host := serve(t, nil)
	push(t, host+"/a", image(t, goarch, v1.Config{}))
	_, err := registry.New(registry.Config{Retry: time.Millisecond}).
		Resolve(t.Context(), platform.ImageSource{Reference: host + "/a"})
	refused(t, err, "private network", "--allow-networks")

	for list, ok := range map[string]bool{"registry.example.com:5000": true, "registry": true, "http://x": false,
		"a b": false, "x/y": false} {
		if err := registry.CheckInsecure([]string{list}); (err == nil) != ok {
			t.Errorf("%q: %v, want valid %v", list, err, ok)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	host := serve(t, nil)
	img, err := random.Image(16, 128)
	if err != nil {
		t.Fatal(err)
	}
	push(t, host+"/many", img)
	push(t, host+"/none", mutate.MediaType(empty.Image, "application/vnd.docker.distribution.manifest.v2+json"))
	c := client(registry.Config{})
	_, err = c.Resolve(t.Context(), platform.ImageSource{Reference: host + "/many"})
	refused(t, err, "128 layers, and 127 are possible")
	_, err = c.Resolve(t.Context(), platform.ImageSource{Reference: host + "/none"})
	refused(t, err, "no layers")
}

// TestLargeAnswers are those of a registry that wants the server's memory.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	img := image(t, goarch, v1.Config{})
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	answer := func(write func(w http.ResponseWriter, seen *httptest.ResponseRecorder)) string {
		t.Helper()
		pushed := false
		host := serve(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !pushed || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/manifests/") {
					h.ServeHTTP(w, r)
					return
				}
				seen := httptest.NewRecorder()
				h.ServeHTTP(seen, r)
				for _, name := range []string{"Content-Type", "Docker-Content-Digest"} {
					w.Header().Set(name, seen.Header().Get(name))
				}
				write(w, seen)
			})
		})
		push(t, host+"/a", img)
		pushed = true
		return host + "/a"
	}
	endless := func(w http.ResponseWriter, seen *httptest.ResponseRecorder) {
		_, err := w.Write(seen.Body.Bytes())
		for blank := bytes.Repeat([]byte(" "), 64<<10); err == nil; {
			_, err = w.Write(blank)
		}
	}
	_, err = client(registry.Config{}).Resolve(t.Context(), platform.ImageSource{Reference: answer(endless)})
	refused(t, err, "more than 1 MB")
	huge := func(w http.ResponseWriter, seen *httptest.ResponseRecorder) {
		text := strings.Replace(seen.Body.String(), fmt.Sprintf(`"size":%d`, m.Config.Size), `"size":1000000000000`, 1)
		sum := sha256.Sum256([]byte(text))
		w.Header().Set("Docker-Content-Digest", "sha256:"+hex.EncodeToString(sum[:]))
		_, _ = io.WriteString(w, text)
	}
	_, err = client(registry.Config{}).Resolve(t.Context(), platform.ImageSource{Reference: answer(huge)})
	refused(t, err, "configuration", "1000000000000 bytes")
}
