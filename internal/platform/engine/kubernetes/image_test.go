//go:build linux

package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/kubetest"
)

const (
	shopImage        = "registry.example.com/acme/shop@sha256:be0052fa268ac47959f2be91ee320e73f4f31664091034747888d0cc1afcd4d1"
	registryUser     = "ann"
	registryPassword = "correct horse"
)

// imageSpec is an instance of an image that runs a script.
func imageSpec(id, script string) engine.Spec {
	s := specOf(id, script)
	s.Image = &engine.Image{Reference: shopImage, Username: registryUser, Password: registryPassword, User: "1000:1001",
		Account: &platform.ImageAccount{User: 1000, Group: 1001, Home: "/srv/shop"}, Dir: "usr"}
	s.Launch.Members[0].Dir = "/"
	s.Launch.Members[0].Env = append(s.Launch.Members[0].Env, "CERTIFICATE={{home}}/credentials/cert")
	s.Files = []engine.Archive{{Target: "credentials", Open: func() (io.ReadCloser, error) {
		return layerOf("", "cert", "a certificate").Open(nil) //nolint:staticcheck // not used
	}}}
	return s
}

// layerOf returns a layer with files: names and contents in turn.
func layerOf(key string, pairs ...string) engine.Layer {
	return engine.Layer{Key: key, Open: func(context.Context) (io.ReadCloser, error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for pair := range slices.Chunk(pairs, 2) {
			err := w.WriteHeader(&tar.Header{Name: pair[0], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(pair[1]))})
			if err == nil {
				_, err = io.WriteString(w, pair[1])
			}
			if err != nil {
				return nil, err
			}
		}
		return io.NopCloser(&b), w.Close()
	}}
}

// TestImage: the container of the Pod has the image of the app, as its user, with the agent
// from the stack. The credentials of the registry are in a Secret that belongs to the Pod.
func TestImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked := make(chan string, 10)
	w.cluster.Set(kubetest.Faults{Pull: func(image string, credentials []byte) string {
		asked <- image + " " + string(credentials)
		return ""
	}})
	s := imageSpec("a", `echo "$HOME $(cat $CERTIFICATE) $(id -u):$(id -g)"; sleep 1000`)
	s.Ports = []int{80}
	if err := w.engine.Start(w.within(), s); err != nil {
		t.Fatal(err)
	}
	auth := base64.StdEncoding.EncodeToString([]byte(registryUser + ":" + registryPassword))
	if got, want := <-asked, shopImage+` {"auths":{"registry.example.com":{"auth":"`+auth+`"}}}`; got != want {
		t.Errorf("the node pulls %s, want %s", got, want)
	}
	who := "1000:1001"
	if os.Geteuid() != 0 {
		who = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	}
	w.line(w.records("a", 0), "/srv/shop a certificate "+who)
	pod := w.cluster.Object("pods", "i-a")
	for _, secret := range []string{registryPassword, auth, "sleep 1000", "of the app"} {
		if bytes.Contains(pod, []byte(secret)) {
			t.Errorf("the Pod contains %q:\n%s", secret, pod)
		}
	}
	golden(t, "imagepod.json", pod)
	p, err := w.engine.Exec(w.within(), "a", engine.ExecRequest{Args: []string{"/bin/sh", "-c", "pwd; echo $HOME"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if out, err := io.ReadAll(p.Stdout()); string(out) != "/usr\n/srv/shop\n" || err != nil {
		t.Errorf("a command says %q (%v), want the image's directory and home", out, err)
	}
	if got := w.cluster.Secrets(); !slices.Equal(got, []string{"i-a"}) {
		t.Errorf("the Secrets are %v, want that of the Pod", got)
	}
	if err := w.engine.Remove(w.within(), "a"); err != nil {
		t.Fatal(err)
	}
	w.await("the Secret goes with its Pod", func() bool { return len(w.cluster.Secrets()) == 0 })
}

// TestImageOfRoot: root becomes an unprivileged user in root's group, with a home directory
// that it can write to, and an image without credentials needs no Secret.
func TestImageOfRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := imageSpec("a", `echo "$(id -u):$(id -g)"; echo x > $HOME/x && sleep 1000`)
	s.Image.Username, s.Image.Password, s.Image.User, s.Image.Account = "", "", "", nil
	if err := w.engine.Start(w.within(), s); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		w.line(w.records("a", 0), "2000:0")
	}
	if got := w.cluster.Secrets(); len(got) != 0 {
		t.Errorf("the Secrets are %v, want none", got)
	}
	if in, err := w.engine.Get(w.within(), "a"); err != nil || !in.Running {
		t.Errorf("the instance is %+v (%v), want that it runs", in, err)
	}
}

// TestImageAccounts: names of users and groups are looked up in the highest layer that has
// them.
func TestImageAccounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := layerOf("base", "etc/passwd", "root:x:0:0::/root:/bin/sh\nshop:x:10:11::/old:/bin/sh\n",
		"etc/group", "staff:x:50:\n")
	upper := layerOf("upper", "etc/passwd", "root:x:0:0::/root:/bin/sh\nshop:x:1000:1001::/srv/shop:/bin/sh\n")
	above := layerOf("above", "bin/shop", "the program")
	broken := engine.Layer{Key: "broken", Open: func(context.Context) (io.ReadCloser, error) {
		return nil, errors.New("the registry is gone")
	}}
	layers := func(all ...engine.Layer) []engine.Layer { return all }
	shop, none := platform.ImageAccount{User: 1000, Group: 1001, Home: "/srv/shop"}, platform.ImageAccount{}
	staff := platform.ImageAccount{User: 1000, Group: 50, Home: "/srv/shop"}
	for name, c := range map[string]struct {
		user   string
		layers []engine.Layer
		want   platform.ImageAccount
		fails  string
	}{
		"none":          {"", layers(broken), platform.ImageAccount{Home: "/"}, ""},
		"root":          {"root", layers(broken), platform.ImageAccount{Home: "/"}, ""},
		"name":          {"shop", layers(base, upper, above), shop, ""},
		"not below":     {"shop", layers(broken, upper, above), shop, ""},
		"number":        {"10", layers(base, above), platform.ImageAccount{User: 10, Group: 11, Home: "/old"}, ""},
		"unknown":       {"4711", layers(base), platform.ImageAccount{User: 4711, Home: "/"}, ""},
		"group":         {"shop:staff", layers(base, upper), staff, ""},
		"no user":       {"nobody", layers(base, upper), none, "not in its /etc/passwd"},
		"no group":      {"shop:gone", layers(base, upper), none, "not in its /etc/group"},
		"removed":       {"shop", layers(base, layerOf("w", "etc/.wh.passwd", "")), none, "not in its /etc/passwd"},
		"all removed":   {"shop", layers(base, layerOf("o", "etc/.wh..wh..opq", "")), none, "not in its /etc/passwd"},
		"registry gone": {"shop", layers(broken, above), none, "the registry is gone"},
		"leaves":        {"shop", layers(layerOf("l", "../etc/passwd", "x")), none, "leaves the directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := w.engine.Fetch(t.Context(), engine.Image{User: c.user, Layers: c.layers}, 0)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil || *got.Account != c.want {
				t.Errorf("got %+v and %v, want %+v", got.Account, err, c.want)
			}
		})
	}
}

// TestImageFails: an image that the cluster cannot pull fails the instance with a reason for
// its user, and leaves nothing.
func TestImageFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults kubetest.Faults
		want   string
		ours   bool // not the fault of the app
	}{
		"denied": {kubetest.Faults{Pull: func(string, []byte) string {
			return `failed to pull and unpack image: pull access denied, repository does not exist or may require authorization`
		}}, "its registry denies the nodes access", false},
		"gone": {kubetest.Faults{Pull: func(string, []byte) string { return "failed to resolve reference: not found" }},
			"no longer in its registry; push the app again", false},
		"unreachable": {kubetest.Faults{Pull: func(string, []byte) string { return "dial tcp 10.0.0.9:443: i/o timeout" }},
			"do not reach its registry", false},
		"other": {kubetest.Faults{Pull: func(string, []byte) string { return strings.Repeat("x", 1000) + " the cause" }},
			"…", false},
		"slow": {kubetest.Faults{Pull: func(string, []byte) string { return kubetest.PullSlow }},
			"has not pulled the image " + shopImage + " after", false},
		"stack": {kubetest.Faults{StackError: "denied"}, "the platform's stack image could not be pulled", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *kubernetes.Options) { o.PullTime = time.Second })
			w.cluster.Set(c.faults)
			err := w.engine.Start(w.within(), imageSpec("a", "sleep 1000"))
			var refused *engine.PlacementError
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &refused) != c.ours ||
				fault.Is(err, fault.Unprocessable) == c.ours {
				t.Errorf("got %v, want %q", err, c.want)
			}
			var told *fault.Error
			if errors.As(err, &told) && (strings.Contains(err.Error(), registryPassword) || len(told.Message) > 600) {
				t.Errorf("the message is %s", told.Message)
			}
			if left := append(w.cluster.Pods(), w.cluster.Secrets()...); len(left) > 0 {
				t.Errorf("%v is left, want nothing", left)
			}
		})
	}
}
