package logging

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	// FileName is the log file in a data directory, FileName+OlderSuffix the one before it.
	FileName    = "server.log"
	OlderSuffix = ".1"
	// fileSize is the size from which a log file is replaced.
	fileSize = 8 << 20
)

// File is a log file of limited size in a data directory: when it is full it becomes the older
// file, and a new one begins. A server and the process that replaces it write it at the same time.
// What cannot be written is lost, because the log must not stop the server.
type File struct {
	dir string
	max int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// NewFile returns the log file of a data directory. It is created with the first line that is
// written when the directory is one.
func NewFile(dataDir string) *File { return &File{dir: dataDir, max: fileSize} }

// Write implements io.Writer for whole lines.
func (l *File) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.size+int64(len(line)) > l.max {
		if err := l.open(int64(len(line))); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return n, err
}

// open opens the file, and begins a new one if there is no room for more bytes.
func (l *File) open(more int64) error {
	if l.file != nil {
		_ = l.file.Close() // every line was written
		l.file = nil
	}
	// A directory without it is not a data directory, or not yet.
	if _, err := os.Stat(filepath.Join(l.dir, "version.json")); err != nil {
		return err
	}
	path := filepath.Join(l.dir, FileName)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size()+more > l.max {
		if err := os.Rename(path, path+OlderSuffix); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		_ = f.Close() // nothing was written
		return &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	l.file, l.size = f, info.Size()
	return nil
}

// ToJournal reports whether a file, such as standard error, is connected to systemd's journal.
func ToJournal(f *os.File, getenv func(string) string) bool {
	device, inode, ok := strings.Cut(getenv("JOURNAL_STREAM"), ":")
	info, err := f.Stat()
	if !ok || err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && device == strconv.FormatUint(uint64(s.Dev), 10) && //nolint:unconvert // its type differs by system
		inode == strconv.FormatUint(s.Ino, 10)
}

// Both returns a logger that writes what log writes also to a file, as JSON.
func Both(log *slog.Logger, file *File) *slog.Logger {
	return slog.New(slog.NewMultiHandler(log.Handler(), New(file, false, levelOf{log}).Handler()))
}

// levelOf is the level of a logger.
type levelOf struct{ *slog.Logger }

// Level implements slog.Leveler.
func (l levelOf) Level() slog.Level {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if l.Enabled(context.Background(), level) {
			return level
		}
	}
	return slog.LevelError
}
