package staging_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/storage/archive"
)

// images is a registry with one image.
type images struct {
	image platform.Image
	err   error
	asked platform.ImageSource
}

func (i *images) Resolve(_ context.Context, src platform.ImageSource) (*platform.Image, error) {
	i.asked = src
	return &i.image, i.err
}

func (i *images) Layers(*platform.Image, platform.ImageSource) []engine.Layer { return nil }

// fetcher is an engine that runs images.
type fetcher struct {
	engine.Engine
	fetch func(ctx context.Context, limit int64) error
}

func (f fetcher) Describe() engine.Description { return engine.Description{Name: "fetcher"} }

func (f fetcher) Fetch(ctx context.Context, _ engine.Image, limit int64) (engine.Fetched, error) {
	if f.fetch == nil {
		return engine.Fetched{Size: 5 << 20}, nil
	}
	return engine.Fetched{}, f.fetch(ctx, limit)
}

// puller is an engine whose machines download images.
type puller struct{ engine.Engine }

func (p puller) Describe() engine.Description {
	return engine.Description{Name: "puller", Remote: true}
}

func (p puller) Fetch(context.Context, engine.Image, int64) (engine.Fetched, error) {
	return engine.Fetched{Account: &platform.ImageAccount{User: 7, Home: "/srv"}}, nil
}

func TestImage(t *testing.T) {
	t.Parallel()
	full := platform.Image{
		Digest: "sha256:12", Layers: []platform.ImageLayer{{Digest: "sha256:3", Size: 1 << 20}},
		Entrypoint: []string{"/shop"}, Command: []string{"serve"},
		Dir: "/srv", User: "shop", Ports: []int{80, 443},
	}
	unknown := errors.New("something of the server")
	for name, test := range map[string]struct {
		image platform.Image
		err   error
		fetch func(ctx context.Context, limit int64) error
		plain bool // the engine runs no images
		pulls bool // its machines download them
		fails string
		says  string
	}{
		"works":  {image: full, says: "1 layers, 1.0M"},
		"pulled": {image: full, pulls: true, says: "1 layers, 1.0M, which the cluster downloads when the app starts"},
		"no command": {image: platform.Image{Digest: "sha256:12"},
			fails: "StagingError - Start command not specified. The image has neither ENTRYPOINT nor CMD"},
		"refused": {err: fault.New(fault.Unprocessable, "The image x does not exist"),
			fails: "StagingError - The image x does not exist"},
		"broken": {err: unknown, fails: "StagingError - Reading the image failed because of an error of the platform"},
		"hostile": {image: full, fetch: func(context.Context, int64) error {
			return fault.New(fault.Unprocessable,
				"The archive is not valid")
		}, fails: "The archive is not valid"},
		"full": {image: full, fetch: func(context.Context, int64) error {
			return fault.New(fault.InsufficientStorage,
				"The disk is full")
		}, fails: "InsufficientResources - The disk is full"},
		"large": {image: full, says: "downloaded when the app starts", fetch: func(_ context.Context, limit int64) error {
			if limit != 512<<20 {
				return errors.New("not the disk of the build")
			}
			return fault.Wrap(archive.ErrTooLarge, fault.Unprocessable, "too large")
		}},
		"engine": {image: full, plain: true, fails: "runs apps as plain processes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := &images{image: test.image, err: test.err}
			w := newWorld(t, func(c *staging.Config) {
				c.Images = registry
				switch {
				case test.pulls:
					c.Engine = puller{c.Engine}
				case !test.plain:
					c.Engine = fetcher{c.Engine, test.fetch}
				}
			})
			log := &lines{}
			result, err := w.Stage(t.Context(), staging.Request{
				BuildGUID: "build", DropletGUID: "droplet", PackageGUID: "package", DiskMB: 512,
				Lifecycle: platform.Lifecycle{Type: platform.LifecycleDocker}, Log: log.add,
				Image:      platform.ImageSource{Reference: "example.com/shop:1", Username: "ann", Password: "secret"},
				HasCommand: func(context.Context) (bool, error) { return false, nil },
			})
			if strings.Contains(log.String(), "secret") {
				t.Errorf("the password is in the log: %s", log)
			}
			if test.fails != "" {
				var f *staging.Failure
				if !errors.As(err, &f) || !strings.Contains(f.Error(), test.fails) {
					t.Errorf("error %v, want %q", err, test.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), test.says) {
				t.Errorf("the log is %s, want %q in it", log, test.says)
			}
			var d platform.Droplet
			result.Apply(&d)
			if d.Image != "example.com/shop:1@sha256:12" || d.Lifecycle != "docker" || d.ProcessTypes["web"] != "/shop serve" ||
				d.ImageUsername != "ann" || d.ImagePassword != "secret" {
				t.Errorf("droplet %+v", d)
			}
			if want := `{"cmd":["serve"],"entrypoint":["/shop"],"workdir":"/srv","user":"shop","ports":[{"Port":80,"Protocol":"tcp"},{"Port":443,"Protocol":"tcp"}]}`; d.ExecutionMetadata != want {
				t.Errorf("execution metadata %s, want %s", d.ExecutionMetadata, want)
			}
			if registry.asked.Password != "secret" || d.Source().Reference != "example.com/shop:1" {
				t.Errorf("asked with %+v, source %+v", registry.asked, d.Source())
			}
			if (d.Container.Account != nil) != test.pulls {
				t.Errorf("the account is %+v, want one if machines of the engine pull the image", d.Container.Account)
			}
		})
	}
}

// TestImageInterrupted is a server that stops while it downloads: the build begins again.
func TestImageInterrupted(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	w := newWorld(t, func(c *staging.Config) {
		c.Images = &images{image: platform.Image{Digest: "sha256:12", Command: []string{"x"}}}
		c.Engine = fetcher{c.Engine, func(ctx context.Context, _ int64) error {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		}}
	})
	done := make(chan error, 1)
	go func() {
		_, err := w.Stage(context.Background(), staging.Request{BuildGUID: "build",
			Lifecycle: platform.Lifecycle{Type: platform.LifecycleDocker}})
		done <- err
	}()
	<-began
	w.Stop()
	if err := <-done; !errors.Is(err, staging.ErrInterrupted) {
		t.Errorf("error %v, want %v", err, staging.ErrInterrupted)
	}
}

// TestImageSlow is a registry that sends nothing: the build ends when its time is over, and
// says so.
func TestImageSlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *staging.Config) {
		c.Timeout = 50 * time.Millisecond
		c.Images = &images{image: platform.Image{Digest: "sha256:12", Command: []string{"x"}}}
		c.Engine = fetcher{c.Engine, func(ctx context.Context, _ int64) error {
			<-ctx.Done()
			return ctx.Err()
		}}
	})
	_, err := w.Stage(t.Context(), staging.Request{BuildGUID: "build",
		Lifecycle: platform.Lifecycle{Type: platform.LifecycleDocker}, Log: (&lines{}).add})
	var f *staging.Failure
	if !errors.As(err, &f) || !strings.Contains(f.Error(), "StagingTimeExpired") {
		t.Errorf("error %v, want StagingTimeExpired", err)
	}
}
