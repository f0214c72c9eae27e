//go:build linux

package container_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/instance/initproto"
)

// piece is an entry of a layer.
type piece struct {
	name, body, link string
	kind             byte
	mode             int64
	user, group      int
}

func text(name, body string) piece {
	return piece{name: name, body: body, kind: tar.TypeReg, mode: 0o644}
}
func folder(name string) piece { return piece{name: name, kind: tar.TypeDir, mode: 0o755} }

func layerOf(key string, pieces ...piece) engine.Layer {
	return engine.Layer{Key: key, Open: func(context.Context) (io.ReadCloser, error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, p := range pieces {
			err := w.WriteHeader(&tar.Header{
				Name: p.name, Typeflag: p.kind, Mode: p.mode, Size: int64(len(p.body)), Uid: p.user, Gid: p.group, Linkname: p.link,
			})
			if err == nil {
				_, err = io.WriteString(w, p.body)
			}
			if err != nil {
				return nil, err
			}
		}
		return io.NopCloser(&b), w.Close()
	}}
}

// fromHost returns programs of this machine with the libraries that they need.
func fromHost(t testing.TB, programs ...string) []piece {
	t.Helper()
	files := map[string]bool{}
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		out, err := exec.Command("ldd", path).Output()
		if err != nil {
			t.Skip("ldd:", err)
		}
		files[path] = true
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "/") {
				files[word] = true
			}
		}
	}
	pieces := []piece{folder("bin/"), folder("lib/"), folder("lib64/"), folder("etc/")}
	for file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		dir := strings.TrimPrefix(filepath.Dir(file), "/") + "/"
		if !strings.Contains(name, ".so") {
			dir = "bin/"
		}
		pieces = append(pieces, piece{name: dir + name, body: string(body), kind: tar.TypeReg, mode: 0o755})
	}
	return pieces
}

const passwd = "root:x:0:0:root:/adm:/bin/sh\nshop:x:1000:1001:shop:/srv/shop:/bin/sh\n"

// shellImage is an image with a shell and a few users.
func shellImage(t testing.TB) []engine.Layer {
	t.Helper()
	base := fromHost(t, "sh", "ls", "id", "cat", "stat", "mkdir", "rm", "sleep")
	base = append(base, text("etc/passwd", passwd), text("etc/group", "root:x:0:\nstaff:x:50:\n"),
		folder("adm/"), text("adm/mine", "of root"), piece{name: "adm/secret", body: "for root only", kind: tar.TypeReg,
			mode: 0o600},
		piece{name: "srv/shop/", kind: tar.TypeDir, mode: 0o700, user: 1000, group: 1001},
		folder("data/"), text("data/old", "old"), text("data/kept", "kept"), folder("data/dir/"),
		text("data/dir/below", "below"), text("data/file", "lower"))
	return []engine.Layer{
		layerOf("image-base", base...),
		layerOf("image-next", folder("data/"), text("data/.wh.old", ""), text("data/file", "upper"), folder("data/dir/"),
			text("data/dir/.wh..wh..opq", ""), text("data/dir/new", "new")),
	}
}

var counter atomic.Int64

// runImage runs a script in an image and returns its output.
func runImage(t *testing.T, e *container.Engine, i engine.Image, args ...string) (string, *initproto.Exit) {
	t.Helper()
	id := fmt.Sprintf("image-%d", counter.Add(1))
	spec := engine.Spec{
		ID: id, Image: &i, Limits: engine.Limits{Memory: 128 << 20, Disk: 128 << 20, PIDs: 64, Files: 256},
		Launch: initproto.Spec{
			Instance: id, OneOff: true, LogRate: -1,
			Members: []initproto.Member{{Name: "main", Source: "APP", Args: args, Dir: i.Dir,
				Env: []string{"PATH=/bin", "HOME={{home}}"}}},
		},
	}
	if err := e.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}()
	return output(t, e, id)
}

func output(t *testing.T, e *container.Engine, id string) (string, *initproto.Exit) {
	t.Helper()
	stream, err := e.Records(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var out strings.Builder
	for {
		r, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == initproto.Stdout || r.Kind == initproto.Stderr {
			out.Write(r.Payload)
			out.WriteByte('\n')
		}
	}
	in, err := e.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), in.State.Exit
}

func TestImage(t *testing.T) {
	t.Parallel()
	need(t)
	e := open(t, t.TempDir())
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	layers := shellImage(t)
	for name, test := range map[string]struct {
		user, dir, script, want string
	}{
		"layers": {"", "/", "cat /data/file /data/kept; ls /data /data/dir",
			"upperkept/data:\ndir\nfile\nkept\n\n/data/dir:\nnew"},
		"root is unprivileged and owns what root has": {
			"", "/",
			`exec 2>&1; id -u; id -g; stat -c %u:%g /adm/mine; echo more > /adm/new && cat /adm/secret; echo; ls -d /tmp; mkdir /new && echo made; echo $HOME; cat /.ingot/spec.json`,
			"2000\n2000\n2000:2000\nfor root only\n/tmp\nmade\n/adm\ncat: /.ingot/spec.json: Permission denied",
		},
		"named user": {
			"shop", "/srv/shop",
			`exec 2>&1; id -u; id -g; echo $HOME; stat -c %u:%g /adm/mine /srv/shop; ls -d .; cat /adm/secret; echo x > /adm/new`,
			"1000\n1001\n/srv/shop\n0:0\n1000:1001\n.\ncat: /adm/secret: Permission denied\n/bin/sh: 1: cannot create " +
				"/adm/new: Permission denied",
		},
		"numbers":          {"1234:4321", "/", "id -u; id -g; echo $HOME", "1234\n4321\n/"},
		"number, no group": {"1234", "/", "id -u; id -g; stat -c %g /adm/mine", "1234\n2000\n2000"},
		"named group":      {"1000:staff", "/", "id -u; id -g", "1000\n50"},
		"new directory":    {"shop", "/opt/here", "ls -d $PWD; echo x > file && cat file", "/opt/here\nx"},
		"no privileges": {"", "/",
			"cat /proc/self/status | while read k v; do case $k in CapEff:|CapPrm:|NoNewPrivs:) echo $k $v;; esac; done",
			"CapPrm: 0000000000000000\nCapEff: 0000000000000000\nNoNewPrivs: 1"},
		"names of the host": {"", "/", "cat /etc/hosts", "127.0.0.1 localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, exit := runImage(t, e, engine.Image{Layers: layers, User: test.user, Dir: test.dir}, "/bin/sh", "-c",
				test.script)
			if got = strings.TrimSpace(strings.ReplaceAll(got, "upper\nkept\n", "upperkept")); exit == nil ||
				!strings.HasPrefix(got, strings.TrimSpace(test.want)) {
				t.Errorf("got %q (%+v), want %q", got, exit, test.want)
			}
		})
	}
}

func awaitHealthy(t testing.TB, e *container.Engine, id string) {
	t.Helper()
	stream, err := e.Records(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for {
		r, err := stream.Next()
		if err != nil {
			t.Fatalf("%s did not become healthy: %v", id, err)
		}
		if r.Kind == initproto.Event && strings.Contains(string(r.Payload), string(initproto.EventHealthy)) {
			return
		}
	}
}

// TestImageServes runs an image without a shell, and others beside it that share its layers.
func TestImageServes(t *testing.T) {
	t.Parallel()
	need(t)
	dir := t.TempDir()
	e := open(t, dir)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := enginetest.Program().Open()
	if err != nil {
		t.Fatal(err)
	}
	program, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	opened := 0
	image := engine.Image{Dir: "/", Layers: []engine.Layer{{Key: "image-member",
		Open: func(context.Context) (io.ReadCloser, error) {
			opened++
			return io.NopCloser(bytes.NewReader(program)), nil
		}}}}
	for i := range 3 {
		id := fmt.Sprintf("serves-%d", i)
		err := e.Start(t.Context(), engine.Spec{
			ID: id, Image: &image, Ports: []int{80}, Limits: engine.Limits{Memory: 128 << 20, Disk: 128 << 20},
			Launch: initproto.Spec{
				Instance: id, LogRate: -1, Health: initproto.Check{Kind: initproto.CheckPort, Ports: []int{80}},
				Members: []initproto.Member{
					{Name: "web", Source: "APP", Args: []string{"/member", "serve", "tcp", "0.0.0.0:80", id}, Dir: "/"},
					{Name: "sidecar", Source: "APP", Args: []string{"/member", "wait"}, Dir: "/"},
				},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Remove(context.WithoutCancel(t.Context()), id); err != nil {
				t.Error(err)
			}
		})
		awaitHealthy(t, e, id)
		in, err := e.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Timeout: time.Minute}).Get("http://" + in.Ports[0].Address)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := strings.TrimSpace(string(body)); got != id {
			t.Errorf("it answers %q, want %q", got, id)
		}
	}
	if opened != 1 {
		t.Errorf("the layer was downloaded %d times, want once", opened)
	}
	// Nothing of an image leads runc elsewhere.
	for name, p := range map[string]piece{
		"proc": {name: "proc", kind: tar.TypeSymlink, link: "/sys"}, "dev": {name: "dev", kind: tar.TypeReg, body: "x"},
		".ingot": {name: ".ingot", kind: tar.TypeSymlink, link: "/tmp"},
	} {
		err := e.Start(t.Context(), engine.Spec{
			ID:     "odd" + strings.TrimPrefix(name, "."),
			Image:  &engine.Image{Layers: append(image.Layers, layerOf("image-"+name, p))},
			Limits: engine.Limits{Disk: 128 << 20},
			Launch: initproto.Spec{Members: []initproto.Member{{Name: "web", Args: []string{"/member", "wait"}}}},
		})
		if !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), "/"+name) {
			t.Errorf("an image with an odd /%s: %v", name, err)
		}
	}
	if _, err := e.Exec(t.Context(), "serves-0", engine.ExecRequest{Args: []string{"/bin/sh"}}); !fault.Is(err,
		fault.Unprocessable) || !strings.Contains(err.Error(), "/bin/sh") {
		t.Errorf("a shell that the image does not have: %v", err)
	}
}

// TestImageExec runs a process in an instance of an image.
func TestImageExec(t *testing.T) {
	t.Parallel()
	need(t)
	e := open(t, t.TempDir())
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	id := fmt.Sprintf("exec-%d", counter.Add(1))
	err := e.Start(t.Context(), engine.Spec{
		ID: id, Files: []engine.Archive{{Target: "given",
			Open: func() (io.ReadCloser, error) { return layerOf("", text("file", "for its user")).Open(t.Context()) }}},
		Image: &engine.Image{Layers: shellImage(t), User: "shop", Dir: "/srv/shop"}, Limits: engine.Limits{Memory: 128 << 20,
			Disk: 128 << 20},
		Launch: initproto.Spec{
			Instance: id, LogRate: -1, Health: initproto.Check{Kind: initproto.CheckProcess},
			Members: []initproto.Member{{Name: "main", Source: "APP", Args: []string{"/bin/sleep", "1000"}, Dir: "/srv/shop",
				Env: []string{"PATH=/bin", "HOME={{home}}", "A=b"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Remove(context.WithoutCancel(t.Context()), id); err != nil {
			t.Error(err)
		}
	})
	for dir, want := range map[string]string{"": "1000 /srv/shop b for its user /srv/shop",
		"/data": "1000 /data b for its user /srv/shop", "/gone": "1000 / b for its user /srv/shop"} {
		p, err := e.Exec(t.Context(), id,
			engine.ExecRequest{Args: []string{"/bin/sh", "-c", "echo $(id -u) $PWD $A $(cat $HOME/given/file) $HOME"}, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := io.ReadAll(p.Stdout())
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("in %q it says %q, want %q", dir, got, want)
		}
		_ = p.Close()
	}
}

// TestImageRefused are images that cannot run. Nothing of them is left.
func TestImageRefused(t *testing.T) {
	t.Parallel()
	need(t)
	e := open(t, t.TempDir())
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	many := make([]engine.Layer, 128)
	for i := range many {
		many[i] = layerOf(fmt.Sprint("image-many-", i), text("a", "b"))
	}
	for name, test := range map[string]struct {
		image engine.Image
		want  string
	}{
		"too large": {engine.Image{Layers: []engine.Layer{layerOf("image-1", text("a", strings.Repeat("x", 70<<20)))}},
			"disk limit of 64 MB"},
		"all too large": {engine.Image{Layers: []engine.Layer{layerOf("image-2", text("a", strings.Repeat("x", 40<<20))),
			layerOf("image-3", text("b", strings.Repeat("x", 40<<20)))}}, "disk limit of 64 MB"},
		"too many":      {engine.Image{Layers: many}, "128 layers"},
		"unknown user":  {engine.Image{Layers: many[:1], User: "nobody-knows"}, "not in its /etc/passwd"},
		"large user":    {engine.Image{Layers: many[:1], User: "70000"}, "up to 65535"},
		"unknown group": {engine.Image{Layers: many[:1], User: "1:gone"}, "not in its /etc/group"},
		"leaves": {engine.Image{Layers: []engine.Layer{layerOf("image-4", text("../../etc/cron.d/x", "*"))}},
			"leaves the directory"},
		"through link": {engine.Image{Layers: []engine.Layer{layerOf("image-5",
			piece{name: "etc", kind: tar.TypeSymlink, link: "/etc"}, text("etc/passwd", "mine"))}}, "inside the link"},
		"removes through link": {engine.Image{Layers: []engine.Layer{layerOf("image-6",
			piece{name: "etc", kind: tar.TypeSymlink, link: "/etc"}, text("etc/.wh.passwd", ""))}},
			"in the place of a symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := e.Fetch(t.Context(), test.image, 64<<20)
			if !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestImageManyLayers mounts as many layers as there can be.
func TestImageManyLayers(t *testing.T) {
	t.Parallel()
	need(t)
	e := open(t, t.TempDir())
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	layers := []engine.Layer{layerOf("image-base", fromHost(t, "sh", "cat")...)}
	for i := 1; i < 127; i++ {
		layers = append(layers, layerOf(fmt.Sprint("image-", i), text("top", fmt.Sprint(i)),
			text(fmt.Sprint("file", i), "x")))
	}
	got, _ := runImage(t, e, engine.Image{Layers: layers, Dir: "/"}, "/bin/sh", "-c", "cat /top; echo; echo /file*")
	if !strings.HasPrefix(got, "126\n") || strings.Count(got, "/file") != 126 {
		t.Errorf("it sees %q", got)
	}
}
