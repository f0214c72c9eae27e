package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var dockerSection = Section{
	Name:  "docker",
	About: "push of a Docker image with 30 layers from a registry on loopback, cold and warm",
	Run:   measureDocker,
}

const (
	// dockerGoal is the maximum time of a start with cached layers, in milliseconds.
	dockerGoal   = 1000
	dockerLayers = 30
	dockerSize   = 1 << 30 // bytes of all layers, unpacked
)

func measureDocker(ctx context.Context, r *Report) (err error) {
	rounds, size := 10, int64(dockerSize)
	if r.Short {
		rounds, size = 2, 64<<20
	}
	dir := r.freshDir()
	store := filepath.Join(dir, "registry")
	if err := os.MkdirAll(store, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	images := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)),
		registry.WithBlobHandler(registry.NewDiskBlobHandler(store))))
	defer images.Close()
	image := strings.TrimPrefix(images.URL, "http://") + "/bench/app:1"
	packed, err := pushImage(ctx, r, image, filepath.Join(dir, "layer"), size)
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx, "--allow-networks", "127.0.0.0/8")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if p.Engine != "container" {
		r.Note("not measured: images need the container engine, and this machine runs apps as %s (%s).", p.Engine, p.Why)
		return nil
	}
	if err := p.Do(ctx, http.MethodPatch, "/v3/feature_flags/diego_docker", map[string]bool{"enabled": true},
		nil); err != nil {
		return err
	}
	cold, err := p.pushDocker(ctx, "cold", image)
	if err != nil {
		return err
	}
	r.Add(Figure{Name: "cold, download and unpack", Value: millis(cold.Times.stage), Unit: "ms",
		Detail: fmt.Sprintf("%.0f MB/s unpacked", float64(size)/1e6/cold.Times.stage.Seconds())})
	r.Add(Figure{Name: "cold, start", Value: millis(cold.Times.start), Unit: "ms"})
	// It keeps its droplet, and so the layers are wanted.
	if err := errors.Join(p.Do(ctx, http.MethodPost, "/v3/apps/"+cold.GUID+"/actions/stop", nil, nil),
		p.awaitNone(ctx)); err != nil {
		return err
	}
	var stage, start []time.Duration
	for i := range rounds {
		warm, err := p.pushDocker(ctx, fmt.Sprintf("warm-%d", i), image)
		if err != nil {
			return err
		}
		stage, start = append(stage, warm.Times.stage), append(start, warm.Times.start+warm.Times.route)
		if err := p.Remove(ctx, warm); err != nil {
			return err
		}
	}
	staged, _ := medianAndWorst(stage)
	median, worst := medianAndWorst(start)
	r.Add(Figure{Name: "warm, build", Value: staged, Unit: "ms"})
	r.Add(Figure{Name: "warm, start to the first 200, median", Value: median, Unit: "ms",
		Beside: &Beside{"limit", dockerGoal}, Goal: Below(dockerGoal)})
	r.Add(Figure{Name: "warm, start to the first 200, worst", Value: worst, Unit: "ms"})
	p.noteEngine(r)
	r.Note("%d layers, %d MB unpacked, %d MB in the registry, a static program on top. Cold: the server has none of the "+
		"layers. Warm: %d rounds, each another app with the same image.",
		dockerLayers, size>>20, packed>>20, rounds)
	return p.Remove(ctx, cold)
}

// pushImage pushes an image to the registry, layer by layer, and returns its size there.
func pushImage(ctx context.Context, r *Report, reference, scratch string, size int64) (packed int64, err error) {
	program, err := r.demoApp(ctx)
	if err != nil {
		return 0, err
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		return 0, err
	}
	var img v1.Image = empty.Image
	for i := range dockerLayers {
		path := fmt.Sprint(scratch, i)
		if err := writeLayer(path, program, i, size/dockerLayers); err != nil {
			return 0, err
		}
		layer, err := tarball.LayerFromFile(path)
		if err == nil {
			img, err = mutate.AppendLayers(img, layer)
		}
		if err != nil {
			return 0, err
		}
		n, err := layer.Size()
		if err != nil {
			return 0, err
		}
		packed += n
	}
	f, err := img.ConfigFile()
	if err != nil {
		return 0, err
	}
	f = f.DeepCopy()
	f.OS, f.Architecture, f.Config = "linux", runtime.GOARCH, v1.Config{Entrypoint: []string{"/app"}}
	if img, err = mutate.ConfigFile(img, f); err != nil {
		return 0, err
	}
	return packed, remote.Write(ref, img, remote.WithContext(ctx))
}

// writeLayer writes a compressed layer of files of which half can be compressed. The
// first has the program.
func writeLayer(path, program string, number int, size int64) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffered := bufio.NewWriterSize(file, 1<<20)
	z, err := gzip.NewWriterLevel(buffered, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	add := func(name string, body []byte) error {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(body)),
			Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err := w.Write(body)
		return err
	}
	if number == 0 {
		body, err := os.ReadFile(program)
		if err == nil {
			err = add("app", body)
		}
		if err != nil {
			return err
		}
	}
	const each = 256 << 10
	random := rand.New(rand.NewPCG(uint64(number), 1)) //nolint:gosec // not a secret
	body := bytes.Repeat([]byte("half of it is text\n"), each/19+1)[:each]
	for i := range size / each {
		for at := 0; at < each/2; at += 8 {
			n := random.Uint64()
			for b := range 8 {
				body[at+b] = byte(n >> (8 * b))
			}
		}
		if err := add(fmt.Sprintf("data/%d/%d", number, i), body); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), z.Close(), buffered.Flush())
}

// pushDocker does the same as `cf push NAME --docker-image IMAGE`.
func (p *Platform) pushDocker(ctx context.Context, name, image string) (*App, error) {
	app := &App{}
	err := p.applyManifest(ctx, "applications:\n- name: "+name+"\n  memory: 64M\n  disk_quota: 2G\n  docker: {image: '"+
		image+"'}\n  default-route: true\n")
	if err != nil {
		return nil, err
	}
	if err := p.find(ctx, app, name); err != nil {
		return nil, err
	}
	var pkg struct{ GUID string }
	err = p.Do(ctx, http.MethodPost, "/v3/packages", map[string]any{
		"type": "docker", "data": map[string]string{"image": image}, "relationships": relationship("app", app.GUID),
	}, &pkg)
	if err != nil {
		return app, err
	}
	began := time.Now()
	droplet, err := p.build(ctx, app, pkg.GUID)
	if err != nil {
		return app, err
	}
	app.Times.stage = time.Since(began)
	return app, p.run(ctx, app, droplet)
}
