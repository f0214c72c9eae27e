package controller

import (
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/controller/routing"
)

// noLayers is a registry whose layers are not read.
type noLayers struct{}

func (noLayers) Layers(i *platform.Image, src platform.ImageSource) (out []engine.Layer) {
	for _, l := range i.Layers {
		out = append(out, engine.Layer{Key: l.Key() + " of " + src.Username})
	}
	return out
}

// TestImageInstance is the instance of an image: what it runs, its environment and its
// ports.
func TestImageInstance(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command string
		ports   []int // of further routes
		args    []string
		open    []int
		env     []string
	}{
		"image":   {"", nil, []string{"/shop", "--text", "{{{{home}}"}, []int{80}, []string{"PORT={{port:80}}"}},
		"command": {"exec /shop", nil, []string{"/bin/sh", "-c", "exec /shop"}, []int{80}, nil},
		"ports": {"", []int{9000}, []string{"/shop", "--text", "{{{{home}}"}, []int{80, 9000},
			[]string{"PORT={{port:80}}"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.update(func(tx platform.Tx) error {
				d, err := tx.Droplets().Get("droplet")
				if err != nil {
					return err
				}
				d.Lifecycle, d.Image, d.ImageUsername = platform.LifecycleDocker, "example.com/shop:1@sha256:1", "ann"
				d.Container = &platform.Image{
					Layers: []platform.ImageLayer{{Digest: "sha256:a"}}, Entrypoint: []string{"/shop"},
					Command: []string{"--text", "{{home}}"},
					Env:     []string{"PATH=/of/image", "COLOUR=red", "SHAPE=round {{port:1}}"}, Dir: "srv", User: "shop",
					Ports: []int{80, 443},
				}
				if err := tx.Droplets().Update(d); err != nil {
					return err
				}
				first, err := tx.Destinations().Get("destination")
				if err != nil {
					return err
				}
				first.Port = 0
				if err := tx.Destinations().Update(first); err != nil {
					return err
				}
				process, err := tx.Processes().Get("app")
				if err != nil {
					return err
				}
				process.Command = test.command
				if err := tx.Processes().Update(process); err != nil {
					return err
				}
				for _, port := range test.ports {
					if err := tx.Destinations().Insert(&platform.Destination{RouteGUID: "route", AppGUID: "app", ProcessType: "web",
						Port: port, Protocol: "http1"}); err != nil {
						return err
					}
				}
				return nil
			})
			c := w.config()
			c.Images = noLayers{}
			w.run(New(c))
			ids := w.awaitRunning(1)
			s := w.fake.specOf(ids[0])
			if len(s.Files) != 0 || s.Image == nil || s.Image.User != "shop" ||
				s.Image.Layers[0].Key != "image-sha256:a of ann" {
				t.Fatalf("files %v, image %+v", s.Files, s.Image)
			}
			main := s.Launch.Members[0]
			if !slices.Equal(main.Args, test.args) || main.Dir != "/srv" {
				t.Errorf("it runs %q in %s, want %q", main.Args, main.Dir, test.args)
			}
			for _, want := range append(test.env, "PATH=/of/image", "COLOUR=green", "SHAPE=round {{{{port:1}}",
				"HOME={{home}}") {
				if !slices.Contains(main.Env, want) {
					t.Errorf("no %s in %q", want, main.Env)
				}
			}
			for _, pair := range main.Env {
				for _, not := range []string{"DEPS_DIR=", "VCAP_APP_HOST=", "VCAP_APP_PORT=", "USER="} {
					if strings.HasPrefix(pair, not) {
						t.Errorf("%s is set", pair)
					}
				}
			}
			if !slices.Equal(s.Ports, test.open) || !slices.Equal(s.Launch.Health.Ports, test.open) {
				t.Errorf("ports %v, checked %v, want %v", s.Ports, s.Launch.Health.Ports, test.open)
			}
			for i, p := range w.rows()[0].Ports {
				if p.Default != (i == 0) || !routing.LeadsTo(p.Inside, p) || routing.LeadsTo(0, p) != (i == 0) {
					t.Errorf("port %+v", p)
				}
			}
		})
	}
}
