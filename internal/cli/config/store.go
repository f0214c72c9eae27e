package config

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/filelock"
	"ingot/internal/base/pattern"
)

// The contexts that are not made by the user.
const (
	// LocalName is the context of the server on this machine.
	LocalName = "local"
	// CFName is the context that is the cf CLI's own configuration.
	CFName = "cf"
)

// version is the version of the file. Files without one have a single login.
const version = 2

// Store is where contexts are kept: Ingot's own file, and that of the cf CLI.
type Store struct {
	path string // "" if the environment names no directory
	cf   string // "" likewise
}

// Open returns the store of the user with this environment.
func Open(getenv func(string) string) *Store {
	return &Store{path: path(getenv), cf: cfPath(runtime.GOOS, getenv)}
}

// path returns the path of Ingot's file.
func path(getenv func(string) string) string {
	switch {
	case getenv("INGOT_HOME") != "":
		return filepath.Join(getenv("INGOT_HOME"), "config.json")
	case filepath.IsAbs(getenv("XDG_CONFIG_HOME")):
		return filepath.Join(getenv("XDG_CONFIG_HOME"), "ingot", "config.json")
	case filepath.IsAbs(getenv("HOME")):
		return filepath.Join(getenv("HOME"), ".config", "ingot", "config.json")
	}
	return ""
}

// Path returns the path of Ingot's file, "" if the environment names no directory for it.
func (s *Store) Path() string { return s.path }

// CFPath returns the path of the cf CLI's file.
func (s *Store) CFPath() string { return s.cf }

// fields are the members of a JSON object.
type fields map[string]json.RawMessage

// text returns a member that is a string.
func (f fields) text(name string) (value string) {
	_ = json.Unmarshal(f[name], &value) // anything else is no text
	return value
}

// fieldsOf returns a value as fields.
func fieldsOf(v any) (fields, error) {
	content, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	f := fields{}
	err = json.Unmarshal(content, &f)
	return f, err
}

// merge applies the changes between base and now to f.
func (f fields) merge(base, now fields) {
	for name, value := range now {
		if !bytes.Equal(base[name], value) {
			f[name] = value
		}
	}
	for name := range base {
		if _, kept := now[name]; !kept {
			delete(f, name)
		}
	}
}

// file is Ingot's file.
type file struct {
	Version  int               `json:"version"`
	Current  string            `json:"current,omitempty"`
	Contexts map[string]fields `json:"contexts,omitempty"`
}

// read reads Ingot's file. A missing file has no contexts.
func (s *Store) read() (*file, error) {
	f := &file{Version: version, Contexts: map[string]fields{}}
	if s.path == "" {
		return f, nil
	}
	content, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the client's configuration: %w", err)
	}
	f.Version = 0
	if err := json.Unmarshal(content, f); err != nil {
		return nil, fmt.Errorf("the client's configuration %s is damaged (%w): remove the file and log in again", s.path, err)
	}
	if f.Version > version {
		return nil, fmt.Errorf("the client's configuration %s was written by a newer version of ingot (its format is %d, "+
			"this one knows %d): update ingot, or set INGOT_HOME to another folder", s.path, f.Version, version)
	}
	if f.Version == 0 {
		err = f.addSingle(content)
	}
	f.Version = version
	return f, err
}

// addSingle makes a context of the login in a file from before there were contexts.
func (f *file) addSingle(content []byte) error {
	var only fields
	if err := json.Unmarshal(content, &only); err != nil {
		return err
	}
	api := only.text("api")
	if api == "" {
		return nil
	}
	f.Current = LocalName
	if only.text("local") == "" {
		f.Current = f.nameFor(api)
	}
	f.Contexts[f.Current] = only
	return nil
}

// update changes Ingot's file. Commands take turns, so that none loses what another wrote.
func (s *Store) update(change func(*file) error) error {
	if s.path == "" {
		return errors.New("no directory for the client's configuration: set INGOT_HOME or HOME")
	}
	unlock, err := s.lock(context.Background(), "")
	if err != nil {
		return fmt.Errorf("the client's configuration: %w", err)
	}
	defer unlock()
	f, err := s.read()
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	content, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(s.path, append(content, '\n')); err != nil {
		return fmt.Errorf("the client's configuration: %w", err)
	}
	return nil
}

// lockPatience is how long a command waits for others that write the configuration.
const lockPatience = 30 * time.Second

// lock locks the configuration for this process, or a part of it.
func (s *Store) lock(ctx context.Context, part string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.path+part+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(ctx, f, lockPatience); err != nil {
		_ = f.Close() // nothing was written
		return nil, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}

// LockLogins makes sure that one command at a time renews logins. If that is not possible, such
// as on a file system without locks, the commands do without.
func (s *Store) LockLogins(ctx context.Context) (unlock func()) {
	unlock, err := s.lock(ctx, ".login")
	if err != nil {
		return func() {}
	}
	return unlock
}

// writeFile replaces a file atomically, so that no reader sees a part of it. It keeps the
// permissions of the file, and the symbolic link that leads to it.
func writeFile(path string, content []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".config-*") // created with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, writeErr := f.Write(content)
	if err := errors.Join(writeErr, f.Close()); err != nil {
		return err
	}
	if before, err := os.Stat(path); err == nil {
		if err := os.Chmod(f.Name(), before.Mode().Perm()); err != nil {
			return err
		}
	}
	return replace(f.Name(), path)
}

// Load reads a context, the current one if the name is empty. A context that does not exist
// is empty.
func (s *Store) Load(name string) (*Config, error) {
	f, err := s.read()
	if err != nil {
		return nil, err
	}
	c := &Config{store: s, named: name != "", name: cmp.Or(name, f.Current, LocalName)}
	if c.name == CFName {
		c.broken = s.loadCF(c)
		return c, nil
	}
	err = c.take(f.Contexts[c.name])
	return c, err
}

// take reads a context from its fields.
func (c *Config) take(from fields) error {
	if from == nil {
		return nil
	}
	content, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(content, c)
	}
	if err == nil {
		c.base, err = fieldsOf(c)
	}
	if err != nil {
		return fmt.Errorf("the context %s in the client's configuration %s is damaged: %w", c.name, c.store.path, err)
	}
	return nil
}

// save writes what changed in a context, if the fields it has in the file now allow it.
func (s *Store) save(c *Config, allowed func(fields) bool) error {
	if c.broken != nil {
		return c.broken
	}
	if c.name == CFName {
		if err := s.saveCF(c, allowed); err != nil {
			return err
		}
	}
	now, err := fieldsOf(c)
	if err != nil {
		return err
	}
	if c.name == CFName && !c.selects {
		return nil
	}
	err = s.update(func(f *file) error {
		if c.selects {
			f.Current = c.name
		}
		have, exists := f.Contexts[c.name]
		switch {
		case c.name == CFName, c.base != nil && !exists: // it was removed meanwhile, and stays so
			return nil
		case !exists:
			have = fields{}
			f.Contexts[c.name] = have
		case !allowed(have):
			return nil
		}
		have.merge(c.base, now)
		if f.Current == "" {
			f.Current = c.name
		}
		return nil
	})
	if err == nil {
		c.base = now
	}
	return err
}

// Contexts returns the contexts of Ingot's file, by name.
func (s *Store) Contexts() ([]*Config, error) {
	f, err := s.read()
	if err != nil {
		return nil, err
	}
	var all []*Config
	for _, name := range slices.Sorted(maps.Keys(f.Contexts)) {
		c := &Config{store: s, name: name}
		if err := c.take(f.Contexts[name]); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Use makes a context the current one.
func (s *Store) Use(name string) error {
	return s.update(func(f *file) error {
		f.Current = name
		return nil
	})
}

// Rename renames a context. The new name must be free.
func (s *Store) Rename(from, to string) error {
	return s.update(func(f *file) error {
		if _, taken := f.Contexts[to]; taken {
			return fmt.Errorf("a context named %s already exists", to)
		}
		f.Contexts[to] = f.Contexts[from]
		delete(f.Contexts, from)
		if f.Current == from {
			f.Current = to
		}
		return nil
	})
}

// Remove removes a context. If it was the current one, none is selected.
func (s *Store) Remove(name string) error {
	return s.update(func(f *file) error {
		delete(f.Contexts, name)
		if f.Current == name {
			f.Current = ""
		}
		return nil
	})
}

// New returns a context that does not exist yet.
func (s *Store) New(name string) *Config { return &Config{store: s, name: name} }

// ForAPI returns the context for an API: c itself if the user named it for this command or it
// has this API, else one that has, else a new one, which Save makes the current one.
func (s *Store) ForAPI(c *Config, api string) (*Config, error) {
	if c.named || c.API == api && c.broken == nil {
		return c, nil
	}
	all, err := s.Contexts()
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.API == api {
			one.selects = true
			return one, nil
		}
	}
	f, err := s.read()
	if err != nil {
		return nil, err
	}
	next := s.New(f.nameFor(api))
	next.selects = true
	return next, nil
}

var notInName = pattern.OnUse(`[^A-Za-z0-9._]+`)

// nameFor returns a free name for the context of an API: its host without "api.", and its port.
func (f *file) nameFor(api string) string {
	name := api
	if u, err := url.Parse(api); err == nil && u.Host != "" {
		name = strings.TrimPrefix(u.Host, "api.")
	}
	name = strings.Trim(notInName().ReplaceAllString(name, "-"), "-._")
	if CheckName(name) != nil {
		name = "server"
	}
	free := name
	for n := 2; f.Contexts[free] != nil; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}

var goodName = pattern.OnUse(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// CheckName returns why a context cannot have a name.
func CheckName(name string) error {
	switch {
	case name == LocalName:
		return errors.New("that name belongs to the server on this machine")
	case name == CFName:
		return errors.New("that name belongs to the configuration of the cf CLI")
	case !goodName().MatchString(name):
		return errors.New("a name has up to 63 of the characters a-z, A-Z, 0-9, dot, dash and underscore, and does " +
			"not begin with one of the last three")
	}
	return nil
}
