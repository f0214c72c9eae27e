package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestDockerPods pushes images to a cluster, whose nodes pull them. The registry is on
// loopback, where the nodes of the cluster for tests are, too.
func TestDockerPods(t *testing.T) {
	t.Parallel()
	all := engines()
	if all[0].Engine != "kubernetes" {
		t.Skip("no cluster: make test-kubernetes starts one")
	}
	r := startRegistry(t)
	s := startApps(t, options{Args: []string{"--allow-networks", "127.0.0.0/8"}})
	home := s.admin(t)
	cfOK(t, home, "enable-feature-flag", "diego_docker")
	image := shopImage(t, r, "acme/shop:1")
	push := func(name, image string, args ...string) (string, int) {
		t.Helper()
		return withPassword(t, home, registryPassword, append([]string{"push", name, "--docker-image", image,
			"--docker-username", registryUser, "-m", "64M", "-k", "256M"}, args...)...)
	}
	out, code := withPassword(t, home, "wrong", "push", "shop", "--docker-image", image, "--docker-username", registryUser)
	if code == 0 {
		t.Fatalf("pushed with a wrong password:\n%s", out)
	}
	contains(t, out, "denies the user ann access to the image "+image, "CF_DOCKER_PASSWORD")

	if out, code = push("shop", image); code != 0 {
		t.Fatalf("exit status %d\n%s\n%s", code, out, cfOK(t, home, "logs", "shop", "--recent"))
	}
	contains(t, columns(out), "#0 running", "docker image: "+image+"@sha256:", "start command: /bin/probe",
		"which the cluster downloads when the app starts")
	env := s.environment(t, "shop")
	for name, want := range map[string]string{"PORT": "8123", "GREETING": "from the image", "HOME": "/srv/shop",
		"PATH": "/bin", "CF_INSTANCE_CERT": "/home/vcap/cf-instance-credentials/instance.crt"} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if got := strings.TrimSpace(cfOK(t, home, "ssh", "shop", "-c",
		"id -u; pwd; ls; ls /home/vcap/cf-instance-credentials; echo x > /srv/shop/x && cat /srv/shop/x")); got !=
		"1000\n/srv/shop\ninstance.crt\ninstance.key\nx" {
		t.Errorf("ssh says %q", got)
	}
	cfOK(t, home, "run-task", "shop", "--command", "echo task of $NAME in $PWD", "--name", "one", "--wait")
	s.logged(t, guid(t, home, "shop"), "APP/TASK/one", "task of image in /srv/shop")
	dockerSidecar(t, s, home, image)
	dockerBare(t, s, r, home)
	dockerDenied(t, r, home, image)
}

// dockerBare pushes an image with one static program and nothing else, which runs as root and
// listens below 1024.
func dockerBare(t *testing.T, s *site, r *private, home string) {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(probe(t), "probe"))
	if err != nil {
		t.Fatal(err)
	}
	image := r.push(t, "acme/bare:1", v1.Config{Cmd: []string{"/probe"}, ExposedPorts: map[string]struct{}{"80/tcp": {}}},
		imageLayer(t, imageFile{name: "probe", body: string(program), mode: 0o755}))
	out, code := withPassword(t, home, registryPassword, "push", "bare", "--docker-image", image, "--docker-username",
		registryUser, "-m", "64M")
	if code != 0 {
		t.Fatalf("exit status %d\n%s\n%s", code, out, cfOK(t, home, "logs", "bare", "--recent"))
	}
	env := s.environment(t, "bare")
	if env["PORT"] != "80" || env["HOME"] != "/home/vcap" {
		t.Errorf("the environment is %v, want port 80 and a home directory", env)
	}
	s.reaches(t, "bare", "/", http.StatusOK)
	if out, code := cf(t, home, "ssh", "bare", "-c", "true"); code == 0 ||
		!strings.Contains(out, "the image has no /bin/sh") {
		t.Errorf("ssh ends with %d and says %q, want that there is no shell", code, out)
	}
}

// dockerDenied starts an app whose registry denies the image after it was built.
func dockerDenied(t *testing.T, r *private, home, image string) {
	t.Helper()
	other := strings.Replace(image, "acme/shop:1", "acme/late:1", 1)
	if got := shopImage(t, r, "acme/late:1"); got != other {
		t.Fatalf("the image is %s, want %s", got, other)
	}
	out, code := withPassword(t, home, registryPassword, "push", "late", "--docker-image", other, "--docker-username",
		registryUser, "-m", "64M", "--no-start")
	if code != 0 {
		t.Fatalf("exit status %d\n%s", code, out)
	}
	cfOK(t, home, "stage", "late")
	r.closed.Store(true)
	out, _ = cf(t, home, "start", "late")
	t.Logf("cf start:\n%s", out)
	if out, code = cf(t, home, "events", "late"); code != 0 || !strings.Contains(out, "could not pull the image") {
		t.Errorf("the events are\n%s\nwant the reason", out)
	}
}
