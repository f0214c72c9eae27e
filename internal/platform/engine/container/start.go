//go:build linux

package container

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/homedir"
)

const (
	diskImage = "disk.img"
	initSays  = "init.log" // output of runc and ingot-init other than records
)

// bundle is an instance's directory in e.run.
func (e *Engine) bundle(id string) string { return filepath.Join(e.run, "i", id) }

// Start creates an instance and runs it, unless the engine is paused or the machine has no
// room for it.
func (e *Engine) Start(ctx context.Context, s engine.Spec) error {
	if _, err := e.find(s.ID); err == nil {
		return nil
	}
	if s.LimitsMembers() && alone(e.groups) {
		return engine.NoMemberLimits(errNoMemberGroups.Error())
	}
	if err := e.heldBack(ctx); err != nil {
		return err
	}
	if err := e.room.Take(s.ID, withDefaults(s.Limits)); err != nil {
		return err
	}
	err := e.begin(ctx, s)
	if err != nil {
		e.room.Free(s.ID)
	}
	return err
}

// begin is Start without these checks.
func (e *Engine) begin(ctx context.Context, s engine.Spec) error {
	if err := local.CheckID(s.ID); err != nil {
		return err
	}
	if len(s.Launch.Members) == 0 {
		return fmt.Errorf("instance %s has nothing to run", s.ID)
	}
	unlock, err := e.ids.Lock(ctx, s.ID)
	if err != nil {
		return err
	}
	defer unlock()
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	if _, err := e.find(s.ID); err == nil {
		return nil
	}
	if err := e.start(ctx, s); err != nil {
		return fmt.Errorf("starting instance %s: %w", s.ID, err)
	}
	return nil
}

func (e *Engine) start(ctx context.Context, s engine.Spec) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	d, err := e.createDir(ctx, s.ID)
	if err != nil {
		return err
	}
	in := &instance{dir: d, extra: extra{Reach: append([]Endpoint{}, s.Reach...), Zone: &s.Zone, App: s.App}}
	started := false
	defer func() {
		if started {
			return
		}
		// Clean up even after a cancelled ctx or a panic.
		after := context.WithoutCancel(ctx)
		down := errors.Join(d.Forget(), e.clear(after, s.ID, d.Path(), in))
		if down == nil {
			down = d.Remove()
			e.users.release(in.Base)
			if in.Addr.IsValid() {
				e.net.Release(in.Addr)
			}
		}
		err = errors.Join(err, down)
	}()
	if in.Base, err = e.users.take(); err != nil {
		return &engine.PlacementError{Reason: err.Error(), Err: err}
	}
	if in.Addr, err = e.net.Take(s.ID); err != nil {
		return err
	}
	limits := withDefaults(s.Limits)
	steps := []any{"instance", s.ID}
	began := time.Now()
	lap := func(step string) {
		now := time.Now()
		steps = append(steps, step, now.Sub(began))
		began = now
	}
	if s.Files, err = s.AllFiles(in.Addr.String()); err != nil {
		return err
	}
	release, err := e.prepareFiles(ctx, in, s, limits)
	if err != nil {
		return err
	}
	defer release()
	if err := e.writeBundle(in, limits); err != nil {
		return err
	}
	lap("files")
	if err := e.create(ctx, in, &s, limits); err != nil {
		return err
	}
	lap("create")
	may := in.access()
	if err := errors.Join(e.net.Admit(in.Addr, &may), e.net.Connect(in.Init, in.Addr)); err != nil {
		return err
	}
	lap("network")
	if err := e.commit(in, s, limits); err != nil {
		return err
	}
	if err := e.runc.release(ctx, s.ID, in.Init); err != nil {
		return errors.Join(err, errors.New("ingot-init"+lastWords(filepath.Join(d.Path(), initSays))))
	}
	if in.watched, err = e.watch.add(in.Init); err != nil {
		return err
	}
	lap("release")
	e.log.Debug("instance started", steps...)
	e.mu.Lock()
	e.instances[s.ID] = in
	e.mu.Unlock()
	started = true
	e.pruneLater()
	return nil
}

// create creates the container of an instance, and control groups for its members.
func (e *Engine) create(ctx context.Context, in *instance, s *engine.Spec, limits engine.Limits) error {
	groups, err := e.setGroups(*s)
	if err != nil {
		return err
	}
	defer groups.close()
	in.Init, err = e.runc.create(ctx, s.ID, e.bundle(s.ID), filepath.Join(in.dir.Path(), initSays), groups.files)
	if err != nil {
		return err
	}
	if err := e.limitGroups(in, groups, *s, limits); err != nil {
		return err
	}
	s.Launch.Members = slices.Clone(s.Launch.Members)
	groups.apply(s.Launch.Members)
	return nil
}

// createDir creates the directory of an instance. An existing one is a leftover, and is
// removed first.
func (e *Engine) createDir(ctx context.Context, id string) (*local.Dir, error) {
	d, err := local.Create(e.root, id)
	if !errors.Is(err, os.ErrExist) {
		return d, err
	}
	half := filepath.Join(e.root, id)
	if err := e.clear(ctx, id, half, nil); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(half); err != nil {
		return nil, err
	}
	return local.Create(e.root, id)
}

// pruneLater removes unused layers in the background, if there are new ones.
func (e *Engine) pruneLater() {
	if !e.layers.grew.Swap(false) {
		return
	}
	e.work.Go("engine prune", func() {
		if err := e.prune(); err != nil {
			e.log.Warn("removing unused layers failed", "err", err)
		}
	})
}

// externalHost is the address that instances are told as their own for others. It is of no use
// to them: others reach them through the router.
const externalHost = "127.0.0.1"

// words returns the placeholder values of an instance with that address: inside, ports are
// not mapped.
func (x *extra) words(ip string) local.Words {
	home := homeInside
	if x.Image != nil {
		home = x.Image.Home
	}
	return local.Words{Home: home, IP: ip, Host: externalHost, Port: func(port int) int { return port }}
}

// commit writes the metadata of the instance.
func (e *Engine) commit(in *instance, s engine.Spec, limits engine.Limits) error {
	m := local.Meta{
		Labels: s.Labels, Limits: limits, Created: time.Now().UTC(),
		Launch: local.Substitute(s.Launch, in.words(in.Addr.String())),
	}
	if in.Image != nil {
		m.Launch.User, m.Launch.Group = in.Image.User, in.Image.Group
	}
	m.Launch.User = cmp.Or(m.Launch.User, vcapID)
	m.Launch.Group = cmp.Or(m.Launch.Group, vcapID)
	for _, p := range s.Ports {
		m.Ports = append(m.Ports, engine.Port{
			Inside: p, Listens: p, Address: net.JoinHostPort(in.Addr.String(), strconv.Itoa(p)),
		})
	}
	var err error
	if m.Engine, err = json.Marshal(in.extra); err != nil {
		return err
	}
	if err := in.dir.Commit(m); err != nil {
		return err
	}
	// Owned by its own root user, who has no rights outside.
	root := e.users.outside(in.Base, 0)
	return filepath.WalkDir(in.dir.Control(), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, root, root) //nolint:gosec // nothing of the instance runs yet
	})
}

// prepareFiles creates the instance's disk and files. Its layers may be removed if
// the instance is not registered when release is called.
//
//	disk/files/home   what it writes to its home, over its layers
//	disk/work         work directory of overlay
//	disk/tmp, var     /tmp and /var/tmp
func (e *Engine) prepareFiles(ctx context.Context, in *instance, s engine.Spec, limits engine.Limits) (func(), error) {
	held := &layerHolds{}
	defer held.releaseUnlessKept()
	if s.Image != nil {
		if err := e.mountImage(ctx, in, s, limits, held); err != nil {
			return nil, err
		}
		return held.keep(), nil
	}
	shared, own, err := e.splitArchives(ctx, s.Files, limits.Disk, held)
	if err != nil {
		return nil, err
	}
	if err := e.mountFiles(ctx, in, shared, own, limits); err != nil {
		return nil, err
	}
	return held.keep(), nil
}

// layerHolds are layers held by a Start.
type layerHolds struct{ releases []func() }

func (h *layerHolds) add(release func()) { h.releases = append(h.releases, release) }

// releaseUnlessKept releases the layers, unless keep was called. It is deferred, so that an error
// or a panic leaves none held.
func (h *layerHolds) releaseUnlessKept() {
	for _, release := range h.releases {
		release()
	}
}

// keep transfers the layers to the caller of the returned function.
func (h *layerHolds) keep() (release func()) {
	kept := &layerHolds{releases: h.releases}
	h.releases = nil
	return kept.releaseUnlessKept
}

// mountFiles mounts the instance's disk, and its home over the layers.
func (e *Engine) mountFiles(ctx context.Context, in *instance, shared []layer, own []engine.Archive,
	limits engine.Limits) (err error) {
	var users *os.File
	if len(shared) > 0 {
		if users, err = e.users.namespace(in.Base); err != nil {
			return err
		}
	}
	bundle, disk, err := e.attachDisk(ctx, in, shared, limits)
	if err != nil {
		return err
	}
	root, vcap := e.users.outside(in.Base, 0), e.users.outside(in.Base, vcapID)
	for _, dir := range []string{"tmp", "var"} {
		path := filepath.Join(disk, dir)
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := errors.Join(os.Chmod(path, 0o777|os.ModeSticky), os.Lchown(path, root, root)); err != nil {
			return err
		}
	}
	files, err := local.Create(disk, "files")
	if err != nil {
		return err
	}
	if err := files.Unpack(ctx, own, limits.Disk); err != nil {
		return err
	}
	if err := files.Own(vcap, vcap); err != nil {
		return err
	}
	if len(shared) > 0 {
		return overlay(in.dir.Home(), shared, files.Home(), filepath.Join(disk, "work"),
			filepath.Join(bundle, "layers"), users)
	}
	return bindMount(files.Home(), in.dir.Home())
}

// attachDisk mounts the disk of an instance. Its layers count as its own, so that the disk
// has what they leave of the limit.
func (e *Engine) attachDisk(ctx context.Context, in *instance, shared []layer,
	limits engine.Limits) (bundle, disk string, err error) {
	bundle = e.bundle(in.dir.ID())
	disk = filepath.Join(bundle, "disk")
	for _, dir := range []string{bundle, disk, filepath.Join(bundle, "host")} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return "", "", err
		}
	}
	for _, l := range shared {
		in.Layers = append(in.Layers, l.ID)
		in.Shared += l.Size
	}
	if in.Shared >= limits.Disk {
		return "", "", fmt.Errorf("its files take %d bytes, and its disk has %d", in.Shared, limits.Disk)
	}
	if err := e.attach(ctx, in, disk, limits.Disk-in.Shared); err != nil {
		return "", "", fmt.Errorf("disk: %w", err)
	}
	return bundle, disk, os.Mkdir(filepath.Join(disk, "work"), 0o700)
}

// splitArchives splits archives into layers and the rest, which is unpacked over them. The
// order matters: archives after one that cannot be shared are not shared.
func (e *Engine) splitArchives(ctx context.Context, files []engine.Archive, limit int64,
	held *layerHolds) (shared []layer, own []engine.Archive, err error) {
	for i, a := range files {
		if a.Key == "" || !e.sharing {
			return shared, files[i:], nil
		}
		l, release, err := e.layers.get(ctx, contentOf(a, limit))
		if err != nil {
			return nil, nil, fmt.Errorf("files %d, into %q: %w", i+1, a.Target, err)
		}
		held.add(release)
		if a.Changes {
			hidden, err := homedir.Hidden(ctx, l.path, pathsOf(shared))
			if err != nil {
				return nil, nil, fmt.Errorf("files %d, into %q: %w", i+1, a.Target, err)
			}
			l.Size -= hidden
		}
		shared = append(shared, l)
	}
	return shared, nil, nil
}

func pathsOf(all []layer) (paths []string) {
	for _, l := range all {
		paths = append(paths, l.path)
	}
	return paths
}

// writeBundle writes the input of runc, and the files with the instance's names and
// addresses.
func (e *Engine) writeBundle(in *instance, limits engine.Limits) error {
	id, bundle := in.dir.ID(), e.bundle(in.dir.ID())
	disk, host := filepath.Join(bundle, "disk"), filepath.Join(bundle, "host")
	name := hostname(id)
	for file, text := range map[string]string{
		"hosts":       "127.0.0.1 localhost\n::1 localhost ip6-localhost\n" + in.Addr.String() + " " + name + "\n",
		"hostname":    name + "\n",
		"resolv.conf": *e.resolv.Load(),
	} {
		if err := os.WriteFile(filepath.Join(host, file), []byte(text), //nolint:gosec // for everybody inside
			0o644); err != nil {
			return err
		}
	}
	binds, err := e.host.refresh()
	if err != nil {
		// The files of the last start are usually good enough.
		e.log.Warn("updating the host's files for instances failed", "error", err)
	}
	b := bundleOf{
		rootfs: e.host.root, hostname: name, cgroup: e.groups.ForRuntime(e.groupOf(id)),
		ids: e.users.mapping(in.Base), limits: limits, countsSwap: e.groups.CountsSwap(),
		unified: e.groups.ForInstance(limits.Memory, limits.CPU), control: in.dir.Control(),
	}
	if in.Image != nil {
		b.rootfs, b.writable = filepath.Join(bundle, imageRoot), true
		b.binds = e.imageBinds(in, host)
	} else {
		b.binds = append(slices.Clip(binds), bind(filepath.Join(disk, "tmp"), "/tmp"), bind(filepath.Join(disk, "var"),
			"/var/tmp"),
			bind(in.dir.Home(), homeInside), bind(host, hostInside, "ro", "noexec"))
	}
	return local.WriteJSON(filepath.Join(bundle, "config.json"), b.spec())
}

// hostname returns an id as a host name: at most 63 ASCII alphanumerics and hyphens.
func hostname(id string) string {
	b := []byte(id)
	if len(b) > 63 {
		b = b[:63]
	}
	for i, c := range b {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !ok {
			b[i] = '-'
		}
	}
	return string(b)
}
