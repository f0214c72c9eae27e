package rootless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
)

// The namespaces are made by this program itself, in stages. Only a process that starts can get a user
// namespace, and only one that starts when its ids are known gets rights in it.
const (
	stageArg   = "--rootless-stage"
	stageMake  = "make"  // in the control group of the user
	stageWait  = "wait"  // in the namespaces, until its ids are known
	stageSetup = "setup" // as root of the namespaces

	reasonMark = "reason: "
	// It takes a second, and much longer on a machine that is emulated and busy.
	stageTime = 2 * time.Minute
)

// Stage runs a stage, if the arguments of this program name one, and returns its exit status.
func Stage(args []string) (status int, ok bool) {
	if len(args) < 2 || args[0] != stageArg {
		return 0, false
	}
	var err error
	switch args = args[1:]; {
	case args[0] == stageMake && len(args) == 3:
		err = makeSpace(args[1], args[2])
	case args[0] == stageWait && len(args) == 4:
		err = wait(args[1:])
	case args[0] == stageSetup && len(args) == 4:
		err = setup(args[1], args[2], args[3])
	default:
		err = fmt.Errorf("unknown stage %q", args)
	}
	if err == nil {
		return 0, true
	}
	fmt.Fprintln(os.Stderr, reasonMark+encodeReason(err))
	return 1, true
}

func encodeReason(err error) string {
	var m *MissingError
	if !errors.As(err, &m) {
		m = &MissingError{Why: err.Error()}
	}
	b, _ := json.Marshal(m) // two texts
	return string(b)
}

func decodeReason(text string) error {
	m := &MissingError{}
	if err := json.Unmarshal([]byte(text), m); err != nil {
		m.Why = text
	}
	return m
}

// makeSpace makes the namespaces of a data directory, with a process that keeps them and one that connects
// their network.
func makeSpace(dir, keeper string) (err error) {
	s, err := New(Options{DataDir: dir, Init: keeper})
	if err != nil {
		return err
	}
	if s.noGroup != nil {
		return s.noGroup
	}
	if err := s.groups.occupy(); err != nil {
		return err
	}
	mapped, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer tell.Close()
	heard, ready, err := os.Pipe()
	if err != nil {
		return err
	}
	defer heard.Close()
	cmd := exec.Command("/proc/self/exe", stageArg, stageWait, s.name, s.dir, keeper) //nolint:noctx // it stays
	cmd.ExtraFiles, cmd.Dir, cmd.Env = []*os.File{mapped, ready}, "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET, Setsid: true,
	}
	if err := cmd.Start(); err != nil {
		return refused("/proc/sys", err)
	}
	_, _ = mapped.Close(), ready.Close() // the child's
	defer func() {
		if err != nil {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		}
	}()
	pid := strconv.Itoa(cmd.Process.Pid)
	for program, args := range map[string][]string{
		"newuidmap": arguments(s.uid, s.ids.users), "newgidmap": arguments(os.Getgid(), s.ids.groups),
	} {
		if out, err := exec.Command(find(program), append([]string{pid}, args...)...). //nolint:noctx // it is short
												CombinedOutput(); err != nil {
			return missing("", "%s: %v: %s", program, err, strings.TrimSpace(string(out)))
		}
	}
	if _, err := tell.WriteString("\n"); err != nil {
		return err
	}
	if err := awaitSetup(heard); err != nil {
		return err
	}
	return s.connect(cmd.Process.Pid)
}

// awaitSetup returns when the holder is complete, or why it is not.
func awaitSetup(heard *os.File) error {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	background.Go("rootless setup", func() {
		text, err := io.ReadAll(heard) // it ends when the holder is started
		done <- result{text, err}
	})
	select {
	case r := <-done:
		if text := strings.TrimSpace(string(r.text)); text != "" {
			return decodeReason(text)
		}
		return r.err
	case <-time.After(stageTime):
		return missing("", "making the namespaces takes longer than %v", stageTime)
	}
}

// Descriptors of the pipes.
const (
	mappedFD = 3
	readyFD  = 4
)

// wait waits until its ids are known, and starts again with the rights of root.
func wait(args []string) error {
	f := os.NewFile(mappedFD, "mapped")
	if n, err := f.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the ids were not set: %w", err)
	}
	// A pipe that it inherits again.
	if _, err := unix.FcntlInt(readyFD, unix.F_SETFD, 0); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", append([]string{"ingot", stageArg, stageSetup}, args...), []string{})
}

// setup mounts what the namespaces have of their own, and becomes the process that keeps them.
func setup(name, dir, keeper string) error {
	ready := os.NewFile(readyFD, "ready")
	err := prepare(name, dir)
	if err == nil {
		unix.CloseOnExec(readyFD)
		err = syscall.Exec(keeper, []string{keeper, holdArg, name}, []string{})
	}
	if errors.Is(err, unix.EPERM) {
		err = refused("/proc/sys", err)
	}
	fmt.Fprintln(ready, encodeReason(err))
	return err
}

func prepare(name, dir string) error {
	if err := bringUp("lo"); err != nil {
		return err
	}
	if err := ownRun(); err != nil {
		return err
	}
	data := "/run/" + name
	if err := os.Mkdir(data, 0o711); err != nil { //nolint:gosec // ids of instances pass
		return err
	}
	if err := unix.Mount(filepath.Join(dir, containers), data, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "bind", Path: data, Err: err}
	}
	return nil
}

// bringUp brings a network link up.
func bringUp(link string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(link)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("bring "+link+" up", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request))
}

// ownRun mounts a file system at /run, in which this user can make directories, and mounts there what else is
// in /run, such as the sockets of the machine's services. What other servers have there is left out.
func ownRun() error {
	old, err := os.Open("/run")
	if err != nil {
		return err
	}
	defer old.Close()
	entries, err := old.ReadDir(-1)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return &os.PathError{Op: "mount tmpfs at", Path: "/run", Err: err}
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "ingot-") {
			continue
		}
		if err := keep(old, e); err != nil {
			return err
		}
	}
	return nil
}

// keep mounts an entry of the old /run in the new one.
func keep(old *os.File, e os.DirEntry) error {
	at := "/run/" + e.Name()
	var err error
	switch {
	case e.Type()&os.ModeSymlink != 0:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(old.Fd()), e.Name(), target)
		if err != nil {
			return nil //nolint:nilerr // just removed
		}
		return os.Symlink(string(target[:n]), at)
	case e.IsDir():
		err = os.Mkdir(at, 0o755) //nolint:gosec // covered
	default:
		err = os.WriteFile(at, nil, 0o600)
	}
	if err != nil {
		return err
	}
	tree, err := unix.OpenTree(int(old.Fd()), e.Name(), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if errors.Is(err, unix.ENOENT) {
		return os.Remove(at) // just removed
	}
	if err != nil {
		return &os.PathError{Op: "open_tree", Path: at, Err: err}
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move_mount", Path: at, Err: err}
	}
	return nil
}

// connect gives the network of instances a way out. It has none to the loopback of the machine, where the user's
// own services are.
func (s *Space) connect(pid int) error {
	ctx, cancel := context.WithTimeout(context.Background(), stageTime)
	defer cancel()
	target := strconv.Itoa(pid)
	if pasta := find("pasta"); pasta != "" {
		// It stays in the background. Nothing is forwarded, in neither direction.
		out, err := exec.CommandContext(ctx, pasta, "--config-net", "--quiet", "--no-map-gw", "--tcp-ports", "none",
			"--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none", "--pid", s.pidFile(), target).CombinedOutput()
		if err == nil {
			return nil
		}
		if find("slirp4netns") == "" {
			return missing(sudo("slirp4netns"), "pasta: %v: %s", err, strings.TrimSpace(string(out)))
		}
	}
	return s.slirp(target)
}

func (s *Space) slirp(target string) error {
	heard, ready, err := os.Pipe()
	if err != nil {
		return err
	}
	defer heard.Close()
	log, err := os.OpenFile(filepath.Join(s.dir, "rootless.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(find("slirp4netns"), "--configure", "--mtu=65520", "--disable-host-loopback", //nolint:noctx // it stays
		"--ready-fd=3", target, "tap0")
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr, cmd.Dir = []*os.File{ready}, log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = ready.Close() // the child's
	if err != nil {
		return err
	}
	if n, err := heard.Read(make([]byte, 1)); n != 1 {
		said, _ := os.ReadFile(log.Name())
		return missing("", "slirp4netns: %v: %s", err, strings.TrimSpace(string(said)))
	}
	return os.WriteFile(s.pidFile(), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
}

// pidFile has the process that connects the network.
func (s *Space) pidFile() string { return filepath.Join(s.dir, "rootless.pid") }

// helpers returns the processes that connect the network.
func (s *Space) helpers() []int {
	text, err := os.ReadFile(s.pidFile())
	if err != nil {
		return nil
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if word := strings.TrimSpace(string(name)); err != nil || !strings.HasPrefix(word, "past") &&
		!strings.HasPrefix(word, "passt") && word != "slirp4netns" {
		return nil // it has ended, and the number is used again
	}
	return []int{pid}
}
