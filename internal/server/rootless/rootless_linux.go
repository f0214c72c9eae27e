package rootless

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"time"

	"ingot/internal/base/filelock"
	"ingot/internal/base/rootless"
)

// Options say whose namespaces are meant.
type Options struct {
	// DataDir is the data directory, which need not exist.
	DataDir string
	// Init is the ingot-init program, which keeps the namespaces.
	Init string
	// Inside puts processes into the network of instances, too.
	Inside bool
}

// Space is the namespaces of a data directory.
type Space struct {
	options Options
	user    *user.User
	uid     int
	dir     string // the data directory, absolute and without links
	name    string // of the holder
	groups  groups
	ids     idMaps
	start   []string // what gives the holder a control group
	noGroup error    // why it cannot have one
}

// containers is the directory of containers in a data directory.
const containers = "containers"

// New checks what can be checked without making namespaces. The error is a MissingError if the machine lacks
// something.
func New(o Options) (*Space, error) {
	u, err := user.Current()
	if err != nil {
		return nil, err
	}
	s := &Space{options: o, user: u, uid: os.Getuid()}
	s.groups = groups{proc: "/proc", tree: "/sys/fs/cgroup", user: u.Username, uid: s.uid,
		runtime: os.Getenv("XDG_RUNTIME_DIR")}
	if err := needTools(find); err != nil {
		return nil, err
	}
	if s.ids, err = mapsOf("/etc", u.Username, s.uid); err != nil {
		return nil, needIDs(u.Username, err)
	}
	if err := needTun("/dev/net/tun"); err != nil {
		return nil, err
	}
	s.start, s.noGroup = s.groups.check()
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, err
	}
	if s.dir, err = filepath.Abs(o.DataDir); err == nil {
		s.dir, err = filepath.EvalSymlinks(s.dir)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(s.dir))
	s.name = "ingot-data-" + hex.EncodeToString(sum[:4])
	return s, nil
}

// holdArg is that of ingot-init, see initproto.HoldArg.
const holdArg = "--hold"

// holder returns the process that keeps the namespaces, and its helper; 0 if there is none.
func (s *Space) holder() (pid int, helpers []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // none without /proc
	for _, file := range files {
		b, err := os.ReadFile(file)
		words := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		info, statErr := os.Stat(file)
		if errors.Join(err, statErr) != nil || !slices.Contains(words, s.name) {
			continue
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		number, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if !ok || int(owner.Uid) != s.uid || err != nil {
			continue
		}
		if slices.Equal(words[1:], []string{holdArg, s.name}) {
			pid = number
		}
	}
	if pid != 0 {
		helpers = s.helpers()
	}
	return pid, helpers
}

// lockTime limits how long another process may make the same namespaces.
const lockTime = 5 * time.Minute

// Ensure makes the namespaces unless they exist.
func (s *Space) Ensure(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(s.dir, containers), 0o711); err != nil { //nolint:gosec // ids of instances pass
		return err
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, "rootless.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := filelock.Lock(ctx, lock, lockTime); err != nil {
		return fmt.Errorf("%s: %w", lock.Name(), err)
	}
	if pid, _ := s.holder(); pid != 0 {
		return nil
	}
	if s.noGroup != nil {
		return s.noGroup
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.end(ctx) // instances of namespaces that were lost
	args := slices.Clone(s.start)
	if len(args) > 0 {
		args = append(args, "--unit="+s.name+"-"+strconv.FormatInt(time.Now().UnixNano(), 36), "--")
	}
	args = append(args, self, stageArg, stageMake, s.dir, s.options.Init)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var says strings.Builder
	cmd.Stdout, cmd.Stderr = &says, &says
	cmd.Dir = "/"
	if err := cmd.Run(); err != nil {
		if text, ok := strings.CutPrefix(lastLine(says.String()), reasonMark); ok {
			return decodeReason(text)
		}
		return missing("", "the namespaces cannot be made: %v: %s", err, strings.TrimSpace(says.String()))
	}
	if pid, _ := s.holder(); pid == 0 {
		return missing("", "the process that keeps the namespaces has ended: %s", strings.TrimSpace(says.String()))
	}
	return nil
}

// lastLine returns the last line of a text.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// command returns the command line and environment that run a program as root of the namespaces.
func (s *Space) command(program string, args []string) (argv, env []string, err error) {
	pid, _ := s.holder()
	if pid == 0 {
		return nil, nil, errors.New("the process that keeps the namespaces has ended")
	}
	group, err := s.groups.belongs(pid)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	described, err := rootless.Space{
		User: s.user.Username, UID: s.uid, IDs: s.ids.count, Holder: pid, Inside: s.options.Inside, Group: group,
		Data: "/run/" + s.name, Dir: dir,
	}.Encode()
	if err != nil {
		return nil, nil, err
	}
	if len(s.start) > 0 && !s.groups.mayMove(group) {
		argv = append(slices.Clone(s.start), "--")
	}
	argv = append(argv, find("nsenter"), "--target", strconv.Itoa(pid), "--user", "--mount")
	if s.options.Inside {
		argv = append(argv, "--net")
	}
	argv = append(append(argv, "--", program), args...)
	return argv, append(os.Environ(), described), nil
}

// Exec replaces this process by a program that is root of the namespaces. It keeps its number, its files and its
// environment.
func (s *Space) Exec(program string, args []string) error {
	argv, env, err := s.command(program, args)
	if err != nil {
		return err
	}
	return &os.PathError{Op: "exec", Path: argv[0], Err: syscall.Exec(argv[0], argv, env)}
}

// Command returns a command that runs a program as root of the namespaces.
func (s *Space) Command(ctx context.Context, program string, args ...string) (*exec.Cmd, error) {
	argv, env, err := s.command(program, args)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	return cmd, nil
}

// Exists reports whether the namespaces exist.
func (s *Space) Exists() bool {
	pid, _ := s.holder()
	return pid != 0
}

// Release ends the namespaces. Nothing may run in them.
func (s *Space) Release() error {
	pid, helpers := s.holder()
	var errs []error
	for _, one := range append(helpers, pid) {
		if one == 0 {
			continue
		}
		if err := syscall.Kill(one, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("process %d: %w", one, err))
		}
	}
	return errors.Join(errs...)
}

// end ends what is left of namespaces whose holder has ended: it cannot be reached any more.
func (s *Space) end(ctx context.Context) {
	for _, pid := range s.helpers() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	if systemctl := find("systemctl"); systemctl != "" && len(s.start) > 0 {
		_ = exec.CommandContext(ctx, systemctl, "--user", "stop", s.name+"-*.scope").Run() // there may be none
	}
}
