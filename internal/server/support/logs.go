package support

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/logging"
)

// maxLog is how much of a log is kept: its end.
const maxLog = 16 << 20

// Logs returns the parts with the server's log since a time: the file in its data directory,
// and the journal of its unit.
func (s Server) Logs(dataDir string, since time.Time) []Part {
	return []Part{
		{Name: "logs/server.log", Max: maxLog, Tail: true, Collect: func(context.Context) ([]byte, error) {
			return logFile(filepath.Join(dataDir, logging.FileName), since)
		}},
		{Name: "logs/journal.log", Max: maxLog, Tail: true, Timeout: time.Minute,
			Collect: func(ctx context.Context) ([]byte, error) { return s.journal(ctx, since) }},
	}
}

// logFile reads the log file and the one before it, without lines that are older than since.
func logFile(path string, since time.Time) ([]byte, error) {
	older, err := os.ReadFile(path + logging.OlderSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	text, newErr := os.ReadFile(path)
	if errors.Is(newErr, fs.ErrNotExist) {
		newErr = fmt.Errorf("%w; under systemd the log is in the journal", newErr)
	}
	text = append(older, text...)
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		var entry struct {
			Time time.Time `json:"time"`
		}
		if json.Unmarshal(line, &entry) == nil && !entry.Time.Before(since) {
			break
		}
		text = rest
	}
	return text, errors.Join(err, newErr)
}

// journal reads the journal of the server's unit, or of that of the package if none runs.
func (s Server) journal(ctx context.Context, since time.Time) ([]byte, error) {
	unit := s.Unit
	if unit == "" && s.PID == 0 {
		unit = "ingot.service"
	}
	if unit == "" {
		return nil, errors.New("the server is not run by systemd")
	}
	program, err := exec.LookPath("journalctl")
	if err != nil {
		return nil, errors.New("no journal: journalctl is not installed")
	}
	args := []string{"--no-pager", "--quiet", "--output=short-iso", "--lines=60000",
		"--since=@" + strconv.FormatInt(since.Unix(), 10)}
	if os.Geteuid() != 0 {
		args = append(args, "--user-unit="+unit)
	} else {
		args = append(args, "--unit="+unit)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	var says bytes.Buffer
	cmd.Stderr = &says
	text, err := cmd.Output()
	if err != nil {
		return text, fmt.Errorf("journalctl: %w: %s", err, strings.TrimSpace(says.String()))
	}
	return text, nil
}
