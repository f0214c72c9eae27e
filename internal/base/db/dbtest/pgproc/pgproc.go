//go:build unix

package pgproc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"ingot/internal/base/background"
	"ingot/internal/base/daemon"
)

// URLVariable is the environment variable with the URL of a server to use
// instead of a private one.
const URLVariable = "INGOT_TEST_POSTGRES_URL"

const (
	fsyncVariable = "INGOT_TEST_POSTGRES_FSYNC" // 1: as durable as in production
	startTimeout  = time.Minute
)

// Server is a running PostgreSQL server.
type Server struct {
	// URL is for the superuser, on the database "postgres".
	URL string
	// Dir holds all files of the server.
	Dir string

	pipe   *os.File // the server stops when it is closed
	keeper *exec.Cmd
}

// keeper is the shell script that owns the server. It waits on descriptor 3, a
// pipe whose other end is held by this process: when the process exits, for
// whatever reason, the pipe is closed, and the script stops the server and
// removes its directory. It has its own session, so that a signal to the
// process group does not kill it.
const keeper = `
cd "$DIR" || exit 1
{
	"$BIN/initdb" -D data -U postgres -A trust -E UTF8 --locale=C --no-sync &&
	while :; do
		"$BIN/postgres" -D data "$@"
		[ -e pause ] || break
		: >paused
		while [ -e pause ]; do sleep 0.05; done
		rm -f paused
		[ -e closing ] && break
	done
	: >ended
} >log 2>&1 </dev/null 3<&- &
read -r gone <&3
: >closing
rm -f pause
tries=0
while [ ! -e ended ] && [ $tries -lt 300 ]; do
	"$BIN/pg_ctl" stop -D data -m immediate -t 10 >/dev/null 2>&1 || sleep 0.1
	tries=$((tries + 1))
done
cd / && rm -rf "$DIR"
`

// Start starts a server and waits until it is ready.
func Start(ctx context.Context) (*Server, error) {
	bin, err := daemon.Postgres()
	if err != nil {
		return nil, err
	}
	owner, err := daemon.Unprivileged("postgres")
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(owner)
	if err != nil {
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", keeper, "keeper"}, settings(dir)...)...)
	cmd.Dir = dir
	cmd.Env = []string{"DIR=" + dir, "BIN=" + bin, "PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: owner}
	if err := cmd.Start(); err != nil {
		ours.Close()
		os.RemoveAll(dir)
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	address := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Path: "/postgres",
		RawQuery: url.Values{"host": {dir}, "sslmode": {"disable"}}.Encode(),
	}
	s := &Server{URL: address.String(), Dir: dir, pipe: ours, keeper: cmd}
	if err := s.await(ctx); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		s.Stop()
		return nil, fmt.Errorf("start PostgreSQL: %w\n%s", err, log)
	}
	return s, nil
}

// Stop stops the server and waits until its directory is removed. Otherwise
// this happens when the process exits.
func (s *Server) Stop() {
	s.pipe.Close()
	s.keeper.Wait() //nolint:errcheck // its exit status says nothing
}

// Pause stops the server as in a restart: connections break, and new ones are
// refused until Resume.
func (s *Server) Pause(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(s.Dir, "pause"), nil, //nolint:gosec // read by the server's own user
		0o644); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil { // fast shutdown
		return err
	}
	return until(ctx, func() bool {
		_, err := os.Stat(filepath.Join(s.Dir, "paused"))
		return err == nil
	})
}

// Resume starts the server again and waits until it is ready.
func (s *Server) Resume(ctx context.Context) error {
	if err := os.Remove(filepath.Join(s.Dir, "pause")); err != nil {
		return err
	}
	return s.await(ctx)
}

// poll is how often a server is asked whether it is ready.
const poll = 20 * time.Millisecond

func until(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !done() {
		if !background.Sleep(ctx, poll) {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL)
		if err == nil {
			return conn.Close(ctx)
		}
		if _, statErr := os.Stat(filepath.Join(s.Dir, "ended")); statErr == nil {
			return errors.New("exited immediately")
		}
		if !background.Sleep(ctx, poll) {
			return fmt.Errorf("not ready: %w", err)
		}
	}
}

func settings(dir string) []string {
	list := []string{
		"listen_addresses=", "unix_socket_directories=" + dir, "unix_socket_permissions=0700",
		"max_connections=200", "shared_buffers=64MB", "jit=off", "log_min_messages=warning",
	}
	if os.Getenv(fsyncVariable) != "1" {
		list = append(list, "fsync=off", "full_page_writes=off", "synchronous_commit=off")
	}
	var args []string
	for _, s := range list {
		args = append(args, "-c", s)
	}
	return args
}

func makeDir(owner *syscall.Credential) (string, error) {
	parent := os.TempDir()
	// Another user may not be able to enter our temporary directory, and the
	// path of a socket has to be shorter than 108 bytes.
	if owner != nil || len(parent) > 50 {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "ingot-pg-") // always 0700
	if err != nil {
		return "", err
	}
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}
