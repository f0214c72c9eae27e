package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"ingot/internal/base/testkit"
)

// imageFile is a file of a layer.
type imageFile struct {
	name, body string
	mode       int64
	user       int
}

func imageLayer(t *testing.T, files ...imageFile) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.body)), Typeflag: tar.TypeReg, Uid: f.user,
			Gid: f.user}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())),
			nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

// hostPrograms returns programs of this machine with their libraries, which is the
// smallest image with a shell that can be had without a network.
func hostPrograms(t *testing.T, programs ...string) (files []imageFile) {
	t.Helper()
	var seen []string
	add := func(from, to string) {
		if slices.Contains(seen, to) {
			return
		}
		seen = append(seen, to)
		body, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, imageFile{name: to, body: string(body), mode: 0o755})
	}
	for _, program := range programs {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skip(err)
		}
		add(path, "bin/"+program)
		out, err := exec.Command("ldd", path).Output()
		if err != nil {
			t.Skip("ldd: ", err)
		}
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "/") {
				add(word, strings.TrimPrefix(word, "/"))
			}
		}
	}
	return files
}

// private is a registry on loopback that asks for a password.
type private struct {
	*httptest.Server
	host   string
	closed *atomic.Bool // it denies everybody
}

const registryUser, registryPassword = "ann", "correct horse"

func startRegistry(t *testing.T) *private {
	t.Helper()
	images := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	closed := &atomic.Bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); closed.Load() || user != registryUser || password != registryPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return &private{s, strings.TrimPrefix(s.URL, "http://"), closed}
}

// push pushes an image to the registry and returns its reference.
func (p *private) push(t *testing.T, tag string, c v1.Config, layers ...v1.Layer) string {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	f, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	f = f.DeepCopy()
	f.OS, f.Architecture, f.Config = "linux", runtime.GOARCH, c
	if img, err = mutate.ConfigFile(img, f); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(p.host + "/" + tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: registryUser,
		Password: registryPassword})); err != nil {
		t.Fatal(err)
	}
	return ref.Name()
}

// withPassword runs cf with CF_DOCKER_PASSWORD.
func withPassword(t *testing.T, home, password string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := cfCommand(ctx, t, home, args)
	cmd.Env = append(cmd.Env, "CF_DOCKER_PASSWORD="+password)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("cf %v did not end\n%s", args, out)
	}
	if err != nil {
		return string(out), cmd.ProcessState.ExitCode()
	}
	return string(out), 0
}

// shopImage pushes an image with a shell, a user and the probe.
func shopImage(t *testing.T, r *private, tag string) string {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(probe(t), "probe"))
	if err != nil {
		t.Fatal(err)
	}
	base := append(hostPrograms(t, "sh", "id", "cat", "ls", "sleep"),
		imageFile{name: "etc/passwd", body: "root:x:0:0::/:/bin/sh\nshop:x:1000:1000::/srv/shop:/bin/sh\n", mode: 0o644},
		imageFile{name: "srv/shop/", mode: 0o755, user: 1000}, imageFile{name: "srv/shop/old", body: "of a lower layer",
			mode: 0o644})
	return r.push(t, tag, v1.Config{
		Entrypoint: []string{"/bin/probe"}, Env: []string{"PATH=/bin", "GREETING=from the image", "NAME=image"},
		WorkingDir: "/srv/shop", User: "shop",
		ExposedPorts: map[string]struct{}{"8123/tcp": {}, "9000/udp": {}},
	}, imageLayer(t, base...), imageLayer(t, imageFile{name: "bin/probe", body: string(program), mode: 0o755},
		imageFile{name: "srv/shop/", mode: 0o755, user: 1000}, imageFile{name: "srv/shop/.wh.old"}))
}

// TestDocker pushes images of a private registry with the real client.
func TestDocker(t *testing.T) {
	t.Parallel()
	r := startRegistry(t)
	s := startApps(t, options{Engine: "container", Args: []string{"--allow-networks", "127.0.0.0/8"}})
	home := s.admin(t)
	image := shopImage(t, r, "acme/shop:1")
	push := []string{"push", "shop", "--docker-image", image, "--docker-username", registryUser, "-m", "64M", "-k", "256M"}

	out, code := withPassword(t, home, registryPassword, push...)
	if code == 0 {
		t.Fatalf("pushed without the feature flag:\n%s", out)
	}
	contains(t, out, "Feature Disabled: diego_docker")
	cfOK(t, home, "enable-feature-flag", "diego_docker")
	out, code = withPassword(t, home, "wrong", push...)
	if code == 0 {
		t.Fatalf("pushed with a wrong password:\n%s", out)
	}
	contains(t, out, "denies the user ann access to the image "+image, "CF_DOCKER_PASSWORD")

	out, code = withPassword(t, home, registryPassword, push...)
	if code != 0 {
		t.Fatalf("cf %v: exit status %d\n%s\n%s", push, code, out, cfOK(t, home, "logs", "shop", "--recent"))
	}
	contains(t, columns(out), "#0 running", "docker image: "+image+"@sha256:", "start command: /bin/probe")
	if strings.Contains(out, registryPassword) {
		t.Errorf("the password is shown:\n%s", out)
	}
	contains(t, columns(cfOK(t, home, "app", "shop")), "docker image: "+image+"@sha256:")
	env := s.environment(t, "shop")
	for name, want := range map[string]string{"PORT": "8123", "GREETING": "from the image", "HOME": "/srv/shop",
		"PATH": "/bin"} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if got := strings.TrimSpace(cfOK(t, home, "ssh", "shop", "-c",
		"id -u; ls /srv/shop; echo $GREETING")); got != "1000\ncf-instance-credentials\ncf-system-certificates\nfrom the "+
		"image" {
		t.Errorf("ssh says %q", got)
	}
	app := guid(t, home, "shop")
	cfOK(t, home, "run-task", "shop", "--command", "echo task of $NAME in $PWD", "--name", "one", "--wait")
	s.logged(t, app, "APP/TASK/one", "task of image in /srv/shop")

	dockerSidecar(t, s, home, image)
	dockerAgain(t, s, r, home)
}

// dockerSidecar pushes a manifest with an image, a sidecar and a command.
func dockerSidecar(t *testing.T, s *site, home, image string) {
	t.Helper()
	manifest := write(t, "manifest.yml", `applications:
- name: beside
  docker: {image: "`+image+`", username: `+registryUser+`}
  memory: 64M
  disk_quota: 256M
  command: GREETING=mine exec /bin/probe
  sidecars:
  - {name: helper, process_types: [web], command: 'echo helper runs; exec sleep 100000', memory: 16M}
`)
	out, code := withPassword(t, home, registryPassword, "push", "-f", manifest)
	if code != 0 {
		t.Fatalf("exit status %d\n%s", code, out)
	}
	contains(t, columns(out), "#0 running", "helper", "start command: GREETING=mine exec /bin/probe")
	if got := s.environment(t, "beside")["GREETING"]; got != "mine" {
		t.Errorf("GREETING is %q, want that of the command", got)
	}
	s.logged(t, guid(t, home, "beside"), "APP/PROC/WEB/SIDECAR/HELPER", "helper runs")
	cfFails(t, home, "an image needs neither buildpacks nor a stack", pushProbe(t, "beside")...)
	cfFails(t, home, "Cannot create bits package for a Docker app.", "push", "beside", "-p", probe(t))
}

// dockerAgain restarts an app whose registry is gone, and pushes images that cannot be had.
func dockerAgain(t *testing.T, s *site, r *private, home string) {
	t.Helper()
	cfFails(t, home, "denies anonymous access to the image", "push", "missing", "-o", r.host+"/acme/none:1", "-m", "64M")
	r.Close()
	cfOK(t, home, "restart", "shop")
	s.reaches(t, "shop", "/", http.StatusOK)
	// Another address, because the port of the registry may be in use again.
	cfFails(t, home, "cannot be reached", "push", "missing", "-o", testkit.Refusing(t)+"/acme/shop:1", "-m", "64M")
}

// TestDockerElsewhere pushes an image to a server that runs none.
func TestDockerElsewhere(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	cfOK(t, home, "enable-feature-flag", "diego_docker")
	cfFails(t, home, "runs apps as plain processes", "push", "shop", "-o", "registry.example.com/shop", "-m", "64M")
}
