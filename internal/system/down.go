package system

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"ingot/internal/base/daemon"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/process"
)

// Ended is what Down has ended.
type Ended struct {
	Server    int // its pid; 0 when none ran
	Instances int
	Servers   []string // databases of services that had outlived their server
}

// downPoll is how often is looked whether something has ended.
const downPoll = 20 * time.Millisecond

// namelessFor is how long a server may hold the lock without having written who
// it is: it does so when it has the lock, and takes it away when it leaves.
const namelessFor = 15 * time.Second

// instanceGrace is how long instances may take to end by themselves: longer
// than ingot-init lets them.
const instanceGrace = 15 * time.Second

// Down ends the server of a data directory, and all that outlives a server
// there: instances of apps, their networks and mounts, databases of services.
// The data stays, and the next start of the server brings the apps back.
func Down(ctx context.Context, path, programs string, log *slog.Logger) (ended Ended, err error) {
	if _, err := os.Stat(filepath.Join(path, "version.json")); errors.Is(err, fs.ErrNotExist) {
		return ended, fmt.Errorf("%s is not the data directory of a server; --data-dir names another", path)
	}
	lock, pid, err := takeOver(ctx, path)
	ended.Server = pid
	if err != nil {
		return ended, err
	}
	d := &dataDir{path: path, lock: lock}
	defer d.close()
	if err := d.checkVersion(); err != nil {
		return ended, err
	}
	initProgram, _ := enginePrograms(programs)
	containers, err := openContainers(ctx, d, container.Options{Root: d.file("containers"), Init: initProgram, Log: log, Egress: true})
	if err == nil && containers != nil {
		ended.Instances, err = endInstances(ctx, containers)
	}
	if err != nil {
		return ended, fmt.Errorf("apps in containers: %w", err)
	}
	if some, err := hasEntries(d.file("processes")); err != nil || some {
		e, openErr := process.New(process.Options{Root: d.file("processes"), Init: initProgram, Log: log})
		if err := errors.Join(err, openErr); err != nil {
			return ended, fmt.Errorf("apps as plain processes: %w", err)
		}
		n, err := endInstances(ctx, e)
		ended.Instances += n
		if err != nil {
			return ended, fmt.Errorf("apps as plain processes: %w", err)
		}
	}
	ended.Servers, err = daemon.StopBelow(ctx, d.file("services"))
	return ended, err
}

// openContainers opens the container engine where it was used. Without instances
// there may still be a network of theirs to take away; where the engine cannot
// be opened at all, there is none.
func openContainers(ctx context.Context, d *dataDir, o container.Options) (engine.Engine, error) {
	if used, err := hasEntries(d.file("containers")); err != nil || !used {
		return nil, err
	}
	some, err := hasEntries(d.file("containers", "instances"))
	if err != nil {
		return nil, err
	}
	e, err := container.New(ctx, o)
	if err != nil && !some {
		return nil, nil //nolint:nilerr // there is nothing to end
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// takeOver locks a data directory. A server that has it is told to stop and
// waited for.
func takeOver(ctx context.Context, path string) (lock *os.File, told int, err error) {
	tick := time.NewTicker(downPoll)
	defer tick.Stop()
	nameless := time.After(namelessFor)
	for {
		lock, pid, err := tryLock(path)
		if !errors.Is(err, errHeld) {
			return lock, told, err
		}
		if pid > 0 && pid != told {
			if !holds(pid, path) {
				return nil, told, fmt.Errorf("%s is used by a server that cannot be seen from here (its pid is %d, perhaps in a container): stop it there", path, pid)
			}
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return nil, told, fmt.Errorf("the server (pid %d) cannot be told to stop: %w", pid, err)
			}
			told = pid
		}
		select {
		case <-tick.C:
		case <-nameless:
			if told == 0 {
				return nil, told, fmt.Errorf("%s is used by a server that does not say which process it is: stop it by hand", path)
			}
		case <-ctx.Done():
			return nil, told, fmt.Errorf("the server (pid %d) has not stopped yet: %w", told, ctx.Err())
		}
	}
}

// holds tells whether a process has the lock file of a data directory open: the
// number in it may mean another process here, where that of the server is not
// visible.
func holds(pid int, path string) bool {
	want, err := os.Stat(filepath.Join(path, "lock"))
	if err != nil || pid == 0 {
		return false
	}
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) {
		return true // then it cannot be told to stop either, and that is said
	}
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && os.SameFile(info, want) {
			return true
		}
	}
	return false
}

// endInstances ends all instances of an engine, those of builds too, and
// closes it.
func endInstances(ctx context.Context, e engine.Engine) (n int, err error) {
	defer func() { err = errors.Join(err, e.Close()) }()
	all, err := e.List(ctx)
	if err != nil {
		return 0, err
	}
	for _, in := range all {
		if err := e.Signal(ctx, in.ID); err != nil && !errors.Is(err, engine.ErrNotFound) {
			return 0, err
		}
	}
	patience, cancel := context.WithTimeout(ctx, instanceGrace)
	defer cancel()
	for _, in := range all {
		awaitEnd(patience, e, in.ID)
		if err := e.Remove(ctx, in.ID); err != nil {
			return n, fmt.Errorf("instance %s: %w", in.ID, err)
		}
		n++
	}
	return n, nil
}

// awaitEnd waits for an instance that was signalled. Who does not end in time
// is killed by Remove.
func awaitEnd(ctx context.Context, e engine.Engine, id string) {
	tick := time.NewTicker(downPoll)
	defer tick.Stop()
	for {
		if in, err := e.Get(ctx, id); err != nil || !in.Running {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func hasEntries(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}
