package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ingot/internal/base/distro"
)

// ErrNoPostgres, ErrNoMariaDB and ErrNoRedis mean that the server's programs
// are not installed.
var (
	ErrNoPostgres = errors.New("no PostgreSQL server programs (initdb, postgres, pg_ctl) found")
	ErrNoMariaDB  = errors.New("no MariaDB server programs (mariadbd, mariadb-install-db) found")
	ErrNoRedis    = errors.New("no redis-server found")
	// ErrClosed means that the server's user cannot enter a directory.
	ErrClosed = errors.New("directory is closed")
)

// notInstalled adds the command that installs a program.
func notInstalled(err error, program string) error {
	return fmt.Errorf("%w: install it: %s", err, distro.Install(program))
}

// PostgresFor returns the directory of the programs for a data directory: those
// of the version that created it, if installed, because no other can use it.
func PostgresFor(data string) (string, error) {
	if made, err := os.ReadFile(filepath.Join(data, "PG_VERSION")); err == nil {
		for _, pattern := range []string{"/usr/lib/postgresql/%s/bin", "/usr/pgsql-%s/bin"} {
			if dir := fmt.Sprintf(pattern, strings.TrimSpace(string(made))); holds(dir, "initdb", "postgres", "pg_ctl") {
				return dir, nil
			}
		}
	}
	return Postgres()
}

// Postgres returns the directory of the newest PostgreSQL server's programs.
func Postgres() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("pg_config"); err == nil {
		if out, err := exec.Command(path, "--bindir").Output(); err == nil { //nolint:noctx // it prints a line and ends
			dirs = append(dirs, strings.TrimSpace(string(out)))
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"} {
		installed, _ := filepath.Glob(pattern)
		slices.SortFunc(installed, func(a, b string) int { return version(b) - version(a) })
		dirs = append(dirs, installed...)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, dir := range dirs {
		if holds(dir, "initdb", "postgres", "pg_ctl") {
			return dir, nil
		}
	}
	return "", notInstalled(ErrNoPostgres, "postgres")
}

// MariaDB returns the paths of the server and of the program that creates its
// data directory.
func MariaDB() (server, install string, err error) {
	server, install = find("mariadbd"), find("mariadb-install-db")
	if server == "" || install == "" {
		return "", "", notInstalled(ErrNoMariaDB, "mariadbd")
	}
	return server, install, nil
}

// Redis returns the path of the server.
func Redis() (string, error) {
	if path := find("redis-server"); path != "" {
		return path, nil
	}
	return "", notInstalled(ErrNoRedis, "redis-server")
}

// Program returns the path of a client program of a database server.
func Program(name string) (string, error) {
	if path := find(name); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("no program %s found: install the client programs of the database server", name)
}

// Version returns what a program says about its version, as a file name.
func Version(path string) string {
	out, err := exec.Command(path, "--version").Output() //nolint:noctx // it prints a line and ends
	if err != nil {
		return "unknown"
	}
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, string(out[:min(len(out), 100)]))
}

// find searches PATH and the usual directories of server programs.
func find(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/usr/bin"} {
		if holds(dir, name) {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

func holds(dir string, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err != nil || info.IsDir()
	})
}

// version returns the number in a path such as …/postgresql/15/bin or
// …/pgsql-15/bin.
func version(dir string) int {
	name := filepath.Base(filepath.Dir(dir))
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "pgsql-"))
	return n
}

// Unprivileged returns the user that a server runs as, because it must not run
// as root: the first of these users that exists, or else nobody. Nil means the
// current user, which is not root.
func Unprivileged(names ...string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range append(names, "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("a server must not run as root, and no user %s or nobody exists", strings.Join(names, ", "))
}

// CanEnter returns an error that wraps ErrClosed when owner cannot enter dir,
// or the directory in which it will be created. It names the parent that denies
// access.
func CanEnter(dir string, owner *syscall.Credential) error {
	if owner == nil {
		return nil
	}
	for _, err := os.Stat(dir); err != nil && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	enter := func(dir string) error {
		cmd := exec.Command("/bin/sh", "-c", `cd "$0"`, dir) //nolint:noctx // it ends at once
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
		return cmd.Run()
	}
	if enter(dir) == nil {
		return nil
	}
	for parent := filepath.Dir(dir); parent != filepath.Dir(parent) &&
		enter(parent) != nil; parent = filepath.Dir(parent) {
		dir = parent
	}
	name := strconv.Itoa(int(owner.Uid))
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return fmt.Errorf("%w: the server runs as user %s, who cannot enter %s: run chmod o+x %s, or put the data directory "+
		"elsewhere with --data-dir",
		ErrClosed, name, dir, dir)
}
