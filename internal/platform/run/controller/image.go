package controller

import (
	"context"
	"maps"
	"path"
	"strings"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// Images provides the layers of container images, to be read with the credentials of src.
type Images interface {
	Layers(i *platform.Image, src platform.ImageSource) []engine.Layer
}

// imageOf returns the image of a droplet; nil if it is built from files.
func (c *Config) imageOf(d *platform.Droplet) *engine.Image {
	if d.Container == nil {
		return nil
	}
	src := d.Source()
	return &engine.Image{
		Layers: c.Images.Layers(d.Container, src), Reference: d.Container.Reference(), Username: src.Username,
		Password: src.Password, User: d.Container.User, Account: d.Container.Account, Dir: d.Container.Dir,
	}
}

// filesOf returns the files of an instance: the droplet, unless it is an image, and service
// bindings.
func (c *Config) filesOf(ctx context.Context, d *platform.Droplet, bindings map[string][]byte) []engine.Archive {
	files := serviceFiles(bindings)
	if d.Container != nil {
		return files
	}
	if known, ok := c.Droplets.(layered); ok {
		if layers := known.Layers(ctx, d.GUID); layers != nil {
			return append(layers, files...)
		}
	}
	return append([]engine.Archive{c.archive(ctx, d)}, files...)
}

// memberOf returns a member that runs a command. In an image that needs a shell, as in
// Cloud Foundry. With an empty command it runs the program of the image, which does not.
func memberOf(d *platform.Droplet, name, source, command string) initproto.Member {
	m := initproto.Member{Name: name, Source: source}
	switch image := d.Container; {
	case image == nil:
		m.Args, m.Dir = initproto.Script(engine.Escape(command)), "{{home}}/app"
		return m
	case command == "":
		for _, arg := range image.Args() {
			m.Args = append(m.Args, engine.Escape(arg))
		}
	default:
		m.Args = []string{"/bin/sh", "-c", engine.Escape(command)}
	}
	m.Dir = engine.Escape(path.Join("/", d.Container.Dir))
	return m
}

// runVariables returns the variables of everything that runs for an app; given are those in
// the store.
func (c *Config) runVariables(app *platform.App, d *platform.Droplet, given map[string]string, id string,
	memoryMB int) map[string]string {
	env := c.variables(app, given, id, memoryMB)
	if d.Container == nil {
		return env
	}
	// Nothing of a buildpack's: what the image sets, then what the platform and the user set.
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "DEPS_DIR", "USER"} {
		delete(env, name)
	}
	all := map[string]string{"PATH": defaultPath, "HOME": "{{home}}"}
	for _, pair := range d.Container.Env {
		if name, value, ok := strings.Cut(pair, "="); ok && name != "" {
			all[name] = engine.Escape(value)
		}
	}
	maps.Copy(all, env)
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "USER"} {
		if value, ok := given[name]; ok {
			all[name] = engine.Escape(value)
		}
	}
	return all
}
