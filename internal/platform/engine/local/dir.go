//go:build linux

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/initproto"
)

const (
	metaFile   = "instance.json"
	controlDir = "control"
	homeDir    = "home"
)

// Meta is what an engine remembers of an instance, in its instance.json.
type Meta struct {
	ID      string            `json:"id"`
	Labels  map[string]string `json:"labels,omitempty"`
	Limits  engine.Limits     `json:"limits"`
	Ports   []engine.Port     `json:"ports,omitempty"`
	Launch  initproto.Spec    `json:"launch"` // with everything substituted
	Created time.Time         `json:"created"`
	// Keys are those of the cached archives that the instance uses.
	Keys []string `json:"keys,omitempty"`
	// Engine is for what only one engine knows: an address, a volume.
	Engine json.RawMessage `json:"engine,omitempty"`
}

// Dir is the directory of one instance. It is safe for concurrent use, but
// Create, Commit and Remove of one id have to be kept apart by the engine.
type Dir struct {
	path string
	meta Meta
}

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckID refuses an id that could not be the name of a directory, or that of
// a path to somewhere else.
func CheckID(id string) error {
	if !validID.MatchString(id) {
		return fmt.Errorf("instance id %q: letters, digits, '.', '_' and '-' only, at most 128", id)
	}
	return nil
}

// Create makes the directory of an instance, half-made until Commit. It fails
// with fs.ErrExist when there is one already, complete or not.
func Create(root, id string) (*Dir, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	// Others may pass through, so that a member of another user reaches its
	// home, but not look around.
	if err := os.MkdirAll(root, 0o711); err != nil {
		return nil, err
	}
	d := &Dir{path: filepath.Join(root, id), meta: Meta{ID: id}}
	if err := os.Mkdir(d.path, 0o711); err != nil {
		return nil, err
	}
	// spec.json holds the environment, and that holds credentials.
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

// Commit writes launch's spec and then instance.json: the directory is an
// instance from here on. It may be called again to change what is remembered.
func (d *Dir) Commit(m Meta) error {
	m.ID = filepath.Base(d.path)
	if err := WriteJSON(filepath.Join(d.Control(), initproto.SpecFile), m.Launch); err != nil {
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

// List returns the complete instances below root, by id.
func List(root string) ([]*Dir, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var dirs []*Dir
	for _, e := range entries {
		d, err := Open(root, e.Name())
		if errors.Is(err, engine.ErrNotFound) {
			continue // half-made, or just removed
		}
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, d)
	}
	return dirs, nil
}

// Recover removes what was half-made or half-removed when a server died. Call
// it before the engine is used. teardown, if any, is called before such a
// directory is removed and ends what the engine may have begun: processes,
// mounts, networks. One that cannot be removed does not keep the others.
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
			continue // not ours
		}
		// An instance.json that is not JSON was cut short when the machine
		// lost its power: there is nothing to be known of that instance. One
		// that cannot be read may be whole.
		_, err := Open(root, e.Name())
		if err != nil && !errors.Is(err, engine.ErrNotFound) && !isCut(err) {
			errs = append(errs, err)
			continue
		}
		if err == nil {
			continue
		}
		d := &Dir{path: filepath.Join(root, e.Name()), meta: Meta{ID: e.Name()}}
		if teardown != nil {
			if err := teardown(d); err != nil {
				errs = append(errs, fmt.Errorf("half-made instance %s: %w", e.Name(), err))
				continue
			}
		}
		errs = append(errs, d.Remove())
	}
	return errors.Join(errs...)
}

func isCut(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax)
}

// ID is the instance's id.
func (d *Dir) ID() string { return filepath.Base(d.path) }

// Path is the directory itself. Engines may keep files of their own in it.
func (d *Dir) Path() string { return d.path }

// Control is where ingot-init reads and writes.
func (d *Dir) Control() string { return filepath.Join(d.path, controlDir) }

// Home is the instance's home directory, as seen from the host.
func (d *Dir) Home() string { return filepath.Join(d.path, homeDir) }

func (d *Dir) records() string { return filepath.Join(d.Control(), initproto.RecordsDir) }

// Meta is what instance.json holds.
func (d *Dir) Meta() Meta { return d.meta }

// State is the newest state that ingot-init wrote; before the first it is
// starting.
func (d *Dir) State() initproto.State {
	var s initproto.State
	if err := ReadJSON(filepath.Join(d.Control(), initproto.StateFile), &s); err != nil {
		return initproto.State{Phase: initproto.Starting, Since: d.meta.Created}
	}
	return s
}

// Forget makes the instance half-made again: it is no longer listed, and
// Recover takes it away if Remove does not come to its end.
func (d *Dir) Forget() error {
	if err := os.Remove(filepath.Join(d.path, metaFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Remove deletes the directory, instance.json first. Nothing of the instance
// may run or be mounted any more; what is only just ending is waited for.
func (d *Dir) Remove() error {
	if err := d.Forget(); err != nil {
		return err
	}
	var err error
	for wait := time.Millisecond; wait < 2*time.Second; wait *= 2 {
		err = os.RemoveAll(d.path)
		if errors.Is(err, fs.ErrPermission) {
			// Not as root: the instance may have left directories that nobody
			// may write to. They are ours all the same.
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

// makeWritable opens up every directory below path, so that what is in it can
// be removed. It goes on after errors: RemoveAll reports what matters.
func makeWritable(path string) {
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(p, 0o700) //nolint:gosec // not as root, and what could put a link there has ended
		}
		return nil
	})
}

// WriteJSON writes a file that is either the old or the new one, never half of
// it, and readable for ourselves only.
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

// ReadJSON reads a file that WriteJSON wrote.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
