//go:build linux

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"ingot/internal/base/pattern"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

const (
	metaFile   = "instance.json"
	controlDir = "control"
	homeDir    = "home"
)

// Meta is the metadata of an instance, in its instance.json.
type Meta struct {
	ID      string            `json:"id"`
	Labels  map[string]string `json:"labels,omitempty"`
	Limits  engine.Limits     `json:"limits"`
	Ports   []engine.Port     `json:"ports,omitempty"`
	Launch  initproto.Spec    `json:"launch"` // after substitution
	Created time.Time         `json:"created"`
	// Keys are the keys of the cached archives that the instance uses.
	Keys []string `json:"keys,omitempty"`
	// Engine is data of a particular engine: an address, a volume.
	Engine json.RawMessage `json:"engine,omitempty"`
}

// Dir is the directory of one instance. It is safe for concurrent use, but the engine must
// serialize Create, Commit and Remove of one id.
type Dir struct {
	path string
	meta Meta
}

var validID = pattern.OnUse(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckID rejects an id that cannot be the name of a directory.
func CheckID(id string) error {
	if !validID().MatchString(id) {
		return fmt.Errorf("instance id %q: only ASCII alphanumerics, '.', '_' and '-' are allowed, at most 128", id)
	}
	return nil
}

// Create creates the directory of an instance, which is incomplete until Commit. It fails
// with fs.ErrExist if there is one, complete or not.
func Create(root, id string) (*Dir, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	// Other users may pass through, so that a member of another user reaches its home, but
	// not list it.
	if err := os.MkdirAll(root, 0o711); err != nil {
		return nil, err
	}
	d := &Dir{path: filepath.Join(root, id), meta: Meta{ID: id}}
	if err := os.Mkdir(d.path, 0o711); err != nil {
		return nil, err
	}
	// spec.json holds the environment, which may hold credentials.
	err := os.Mkdir(d.Control(), 0o700)
	if err == nil {
		err = os.Mkdir(d.records(), 0o755)
	}
	if err == nil {
		err = os.Mkdir(d.Home(), 0o755)
	}
	if err != nil {
		return nil, errors.Join(err, d.Remove())
	}
	return d, nil
}

// Commit writes the Spec of ingot-init and then instance.json: from then on the directory
// is an instance. It may be called again to change the metadata.
func (d *Dir) Commit(m Meta) error {
	m.ID = filepath.Base(d.path)
	launch := m.Launch
	launch.Protocol = launch.Needs()
	if err := WriteJSON(filepath.Join(d.Control(), initproto.SpecFile), launch); err != nil {
		return err
	}
	if err := WriteJSON(filepath.Join(d.path, metaFile), m); err != nil {
		return err
	}
	d.meta = m
	return nil
}

// Open returns the directory of a complete instance, or engine.ErrNotFound.
func Open(root, id string) (*Dir, error) {
	if CheckID(id) != nil {
		return nil, engine.ErrNotFound
	}
	d := &Dir{path: filepath.Join(root, id)}
	if err := ReadJSON(filepath.Join(d.path, metaFile), &d.meta); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil, engine.ErrNotFound
		}
		return nil, fmt.Errorf("instance %s: %w", id, err)
	}
	return d, nil
}

// List returns the complete instances below root, by id. An error is about those that cannot be
// read; the others are returned with it.
func List(root string) ([]*Dir, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var dirs []*Dir
	var errs []error
	for _, e := range entries {
		d, err := Open(root, e.Name())
		switch {
		case err == nil:
			dirs = append(dirs, d)
		case !errors.Is(err, engine.ErrNotFound): // incomplete, or just removed
			errs = append(errs, err)
		}
	}
	return dirs, errors.Join(errs...)
}

// Recover removes incomplete directories that a dead server left. Call it before the engine
// is used. teardown, if not nil, is called before such a directory is removed and stops
// what the engine may have started: processes, mounts, networks. A directory that cannot be
// removed does not affect the others.
func Recover(root string, teardown func(*Dir) error) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if CheckID(e.Name()) != nil || !e.IsDir() {
			continue // not an instance
		}
		// An instance.json that is not JSON was truncated by a power failure: nothing is
		// known about that instance. One that cannot be read may be complete.
		_, err := Open(root, e.Name())
		if err != nil && !errors.Is(err, engine.ErrNotFound) && !IsCut(err) {
			errs = append(errs, err)
			continue
		}
		if err == nil {
			continue
		}
		d := &Dir{path: filepath.Join(root, e.Name()), meta: Meta{ID: e.Name()}}
		if teardown != nil {
			if err := teardown(d); err != nil {
				errs = append(errs, fmt.Errorf("incomplete instance %s: %w", e.Name(), err))
				continue
			}
		}
		errs = append(errs, d.Remove())
	}
	return errors.Join(errs...)
}

// IsCut reports whether an error of ReadJSON means that the file was truncated, as a power failure
// or a failing disk does.
func IsCut(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax)
}

// ID returns the instance's id.
func (d *Dir) ID() string { return filepath.Base(d.path) }

// Path returns the directory itself. Engines may keep files of their own in it.
func (d *Dir) Path() string { return d.path }

// Control returns the directory that ingot-init reads and writes.
func (d *Dir) Control() string { return filepath.Join(d.path, controlDir) }

// Home returns the instance's home directory on the host.
func (d *Dir) Home() string { return filepath.Join(d.path, homeDir) }

func (d *Dir) records() string { return filepath.Join(d.Control(), initproto.RecordsDir) }

// Meta returns the content of instance.json.
func (d *Dir) Meta() Meta { return d.meta }

// State returns the newest state that ingot-init wrote, or starting before the first.
func (d *Dir) State() initproto.State {
	var s initproto.State
	if err := ReadJSON(filepath.Join(d.Control(), initproto.StateFile), &s); err != nil {
		return initproto.State{Phase: initproto.Starting, Since: d.meta.Created}
	}
	return s
}

// WarnNewer logs which instances a later version of Ingot has started, whose states this one
// may misunderstand.
func WarnNewer(dirs []*Dir, log *slog.Logger) {
	for _, d := range dirs {
		if found := d.State().Protocol; found > initproto.Version {
			log.Warn("an instance was started by a later version of Ingot, and this version may misunderstand its state: "+
				"restart its app, or run the later version",
				"instance", d.ID(), "its_protocol", found, "known_up_to", initproto.Version)
		}
	}
}

// Forget makes the instance incomplete again: it is no longer listed, and Recover removes
// it if Remove does not finish.
func (d *Dir) Forget() error {
	if err := os.Remove(filepath.Join(d.path, metaFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Remove deletes the directory, instance.json first. Nothing of the instance may run or be
// mounted any more; it waits for processes that are just ending.
func (d *Dir) Remove() error {
	if err := d.Forget(); err != nil {
		return err
	}
	var err error
	for wait := time.Millisecond; wait < 2*time.Second; wait *= 2 {
		err = os.RemoveAll(d.path)
		if errors.Is(err, fs.ErrPermission) {
			// Not as root: the instance may have left read-only directories, but they
			// belong to this user.
			makeWritable(d.path)
			err = os.RemoveAll(d.path)
		}
		if err == nil || !slices.ContainsFunc(
			[]error{syscall.EBUSY, syscall.ENOTEMPTY, syscall.EEXIST},
			func(e error) bool { return errors.Is(err, e) }) {
			break
		}
		time.Sleep(wait)
	}
	return err
}

// makeWritable makes every directory below path writable, so that its content can be
// removed. It ignores errors: RemoveAll reports what matters.
func makeWritable(path string) {
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(p, 0o700) //nolint:gosec // not as root, and what could put a link there has ended
		}
		return nil
	})
}

// WriteJSON replaces a file atomically, readable for its owner only.
func WriteJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, path)
}

// ReadJSON reads a file written by WriteJSON.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
