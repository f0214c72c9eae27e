package logging_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/logging"
)

// TestFile: the log of a data directory is limited, and keeps the newest lines.
func TestFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var screen bytes.Buffer
	log := logging.Both(logging.New(&screen, true, slog.LevelInfo), logging.NewFile(dir))
	path := filepath.Join(dir, logging.FileName)
	log.Info("before the start")
	if _, err := os.Stat(path); err == nil {
		t.Error("a log file in a directory that is not a data directory")
	}
	if err := os.WriteFile(filepath.Join(dir, "version.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 100<<10)
	for n := range 250 { // 25 MB
		log.Debug("not written")
		log.Info("line "+strconv.Itoa(n), "text", long, "password", "hunter2")
	}
	var all int64
	for _, name := range []string{path, path + logging.OlderSuffix} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", name, info.Mode())
		}
		all += info.Size()
	}
	if all > 16<<20 || all < 8<<20 {
		t.Errorf("%d bytes are kept, want between 8 and 16 MiB", all)
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte(`"msg":"line 249"`)) || bytes.Contains(text, []byte("hunter2")) ||
		bytes.Contains(text, []byte("not written")) {
		t.Errorf("%d bytes, %v, want the last line, and neither secrets nor other levels", len(text), err)
	}
	if !strings.Contains(screen.String(), "before the start") || !strings.Contains(screen.String(), "line 249") {
		t.Error("lines are missing on the screen")
	}
	// A second process continues the file.
	logging.Both(logging.New(&screen, true, slog.LevelInfo), logging.NewFile(dir)).Info("the next process")
	if after, err := os.ReadFile(path); err != nil || len(after) <= len(text) {
		t.Errorf("%d bytes after %d, %v, want more", len(after), len(text), err)
	}
}

// TestFileDamaged: what is not a file is left alone, and the log goes on without it.
func TestFileDamaged(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"link":      func(p string) error { return os.Symlink("/etc/passwd", p) },
		"pipe":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "version.json"), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := damage(filepath.Join(dir, logging.FileName)); err != nil {
			t.Fatal(err)
		}
		var screen bytes.Buffer
		logging.Both(logging.New(&screen, true, slog.LevelInfo), logging.NewFile(dir)).Info("hello")
		if !strings.Contains(screen.String(), "hello") {
			t.Errorf("%s: the line is not on the screen", name)
		}
	}
}

func TestToJournal(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	var s syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &s); err != nil {
		t.Fatal(err)
	}
	stream := strconv.FormatUint(s.Dev, 10) + ":" + strconv.FormatUint(s.Ino, 10)
	for value, want := range map[string]bool{stream: true, stream + "0": false, "": false, "x": false} {
		if got := logging.ToJournal(f, func(string) string { return value }); got != want {
			t.Errorf("JOURNAL_STREAM=%s: got %v, want %v", value, got, want)
		}
	}
}
