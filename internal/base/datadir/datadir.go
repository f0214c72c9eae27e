package datadir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ingot/internal/base/filelock"
	"ingot/internal/base/version"
)

// Dir is a locked data directory. The lock belongs to the open file, so it is
// released when the process exits for any reason. The file itself is never removed,
// because removing it would be a race.
type Dir struct {
	path    string
	lock    *os.File
	adopted bool // the lock was, from another process
	log     *slog.Logger
}

// Open creates the directory if it does not exist, locks it, and checks
// that this version supports its format.
func Open(path string, log *slog.Logger) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w; choose another with --data-dir", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	// The directory may have other uses, so its mode is not changed.
	if perm := info.Mode().Perm(); perm&0o066 != 0 {
		log.Warn("other users of this machine can read the data directory; run chmod 700 to prevent this",
			"data_dir", path, "mode", fmt.Sprintf("%04o", perm))
	}
	lock, err := acquire(path)
	if err != nil {
		return nil, err
	}
	d, err := opened(path, lock)
	if err == nil {
		d.log = log
	}
	return d, err
}

// OpenExisting is like Open for a directory that a server has used.
func OpenExisting(path string, log *slog.Logger) (*Dir, error) {
	if err := isDataDir(path); err != nil {
		return nil, err
	}
	return Open(path, log)
}

// isDataDir returns an error if no server has used the directory.
func isDataDir(path string) error {
	if _, err := os.Stat(filepath.Join(path, versionName)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not the data directory of a server; --data-dir names another", path)
	}
	return nil
}

// opened returns the directory if this version supports its format; otherwise it
// releases the lock.
func opened(path string, lock *os.File) (*Dir, error) {
	d := &Dir{path: path, lock: lock, log: slog.New(slog.DiscardHandler)}
	err := d.checkRestored()
	if err == nil {
		err = d.checkVersion()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func acquire(path string) (*os.File, error) {
	f, pid, err := tryLock(path)
	if errors.Is(err, errHeld) {
		return nil, &HeldError{Path: path, PID: pid}
	}
	return f, err
}

// HeldError means that another process uses a data directory. PID is 0 if it is not
// known.
type HeldError struct {
	Path string
	PID  int
}

func (e *HeldError) Error() string {
	who := ""
	if e.PID > 0 {
		who = fmt.Sprintf(" (pid %d)", e.PID)
	}
	return fmt.Sprintf("another ingot%s is already using %s; stop it, replace it with --replace, or choose another "+
		"--data-dir", who, e.Path)
}

const lockName = "lock"

var errHeld = errors.New("held by another ingot")

// tryLock locks the directory and writes the pid of this process to the lock file.
// If another process holds the lock it returns errHeld, with that pid if known.
func tryLock(path string) (_ *os.File, pid int, err error) {
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if IsDamaged(err) {
		err = fmt.Errorf("%w: it should be a file; remove it if no server uses the directory", err)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("data directory: %w", err)
	}
	err = filelock.Lock(context.Background(), f, 0)
	if errors.Is(err, filelock.ErrLocked) {
		pid = holder(f)
		_ = f.Close() // nothing was written
		return nil, pid, errHeld
	}
	if err == nil {
		err = sign(f)
	}
	if err != nil {
		_ = f.Close() // it failed already
		return nil, 0, fmt.Errorf("data directory: lock: %w", err)
	}
	return f, 0, nil
}

// sign writes the pid of this process to the lock file, in place without truncating, so
// that it needs no new block on a full disk.
func sign(f *os.File) error {
	_, err := f.WriteAt(fmt.Appendf(nil, "%-30d\n", os.Getpid()), 0)
	return err
}

// Adopt opens a directory whose lock the previous process of the server has passed to this
// one. Both hold it until one releases it.
func Adopt(path string, lock *os.File) (*Dir, error) {
	if err := sign(lock); err != nil {
		_ = lock.Close() // it failed already
		return nil, fmt.Errorf("data directory: lock: %w", err)
	}
	d, err := opened(path, lock)
	if err == nil {
		d.adopted = true
	}
	return d, err
}

// holder returns the pid in the lock file; 0 if there is none.
func holder(f *os.File) int {
	text, err := io.ReadAll(io.LimitReader(f, 32)) // a pid is not longer; what follows is no part of it
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || convErr != nil || pid <= 1 {
		return 0
	}
	return pid
}

// File returns the path of a file in the directory.
func (d *Dir) File(name ...string) string {
	return filepath.Join(append([]string{d.path}, name...)...)
}

// ID returns a name that no other data directory has, not even a copy of this one
// on another machine or with another path.
func (d *Dir) ID() (string, error) {
	id, _, err := secretFile(d.File("server-id"), machineSecret)
	host, _ := os.Hostname() // without a host name the path is enough
	sum := sha256.Sum256([]byte(strings.Join([]string{id, host, d.path}, "\x00")))
	return hex.EncodeToString(sum[:16]), err
}

// Share copies a program to a directory where apps of other users can run it,
// because they may not have access to its own directory, and returns its path there.
func (d *Dir) Share(program string) (string, error) {
	if program == "" {
		return "", nil
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	dir := d.File("programs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // regardless of the umask
		return "", err
	}
	at := filepath.Join(dir, filepath.Base(program))
	if old, err := os.ReadFile(at); err == nil && bytes.Equal(old, text) {
		return at, nil
	}
	return at, d.replace(at, text, 0o755)
}

// AllowTraversal allows apps that run as other users, which needs root, to open
// their files below the data directory. Other files have other modes.
func (d *Dir) AllowTraversal() error {
	info, err := os.Stat(d.path)
	if err == nil && os.Geteuid() == 0 {
		err = os.Chmod(d.path, info.Mode().Perm()|0o011)
	}
	return err
}

// Lock returns a copy of the locked file, for the next process of the server.
func (d *Dir) Lock() (*os.File, error) {
	fd, err := unix.FcntlInt(d.lock.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("data directory: lock: %w", err)
	}
	return os.NewFile(uintptr(fd), d.lock.Name()), nil //nolint:gosec // a descriptor
}

// Leave closes the lock without releasing it: another process has it, too.
func (d *Dir) Leave() { _ = d.lock.Close() }

// Close releases the lock, unless the process that it was adopted from has it, too.
func (d *Dir) Close() {
	_ = d.lock.Truncate(0)
	if !d.adopted {
		// Closing is not enough: a child of this process has the file, too, until it calls exec.
		_ = unix.Flock(int(d.lock.Fd()), unix.LOCK_UN)
	}
	_ = d.lock.Close()
}

const versionName = "version.json"

// versionFile is DIR/version.json.
type versionFile struct {
	Format int    `json:"format"`
	Ingot  string `json:"ingot"` // the version that wrote it, for information
}

func (d *Dir) checkVersion() error {
	ours := versionFile{Format: version.DataFormat, Ingot: version.Version}
	found, err := readVersion(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return d.WriteJSON(versionName, ours, 0o600)
	}
	if err != nil || found == ours {
		return err
	}
	return d.WriteJSON(versionName, ours, 0o600)
}

// Readable returns an error if path is not the data directory of a server, or has a
// format that this program does not know. A server may be using it.
func Readable(path string) error {
	if err := isDataDir(path); err != nil {
		return err
	}
	_, err := readVersion(path)
	return err
}

// readVersion returns the version of a data directory that this program knows.
func readVersion(dir string) (found versionFile, err error) {
	path := filepath.Join(dir, versionName)
	text, err := os.ReadFile(path)
	if err != nil && !IsDamaged(err) {
		return found, fmt.Errorf("data directory: %w", err)
	}
	if err := json.Unmarshal(text, &found); err != nil || found.Format < 1 {
		return found,
			fmt.Errorf("%s does not say which format the data directory has; restore it from a backup, or choose another "+
				"--data-dir", path)
	}
	if found.Format > version.DataFormat {
		return found,
			fmt.Errorf("the data directory %s has format %d, written by ingot %s; this is ingot %s, which knows up to format "+
				"%d: "+
				"run that version or a newer one, or choose another --data-dir. Nothing was changed",
				dir, found.Format, strconv.QuoteToASCII(found.Ingot), version.Version, version.DataFormat)
	}
	return found, nil
}

// Scratch returns an empty directory for temporary files. It removes what a server
// that was killed left there.
func (d *Dir) Scratch() (string, error) {
	dir := d.File("scratch")
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	return dir, nil
}
