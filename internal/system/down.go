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

// Ended lists what Down has stopped.
type Ended struct {
	Server    int // its pid; 0 when none ran
	Instances int
	Servers   []string // database servers of services that were still running
}

// downPoll is how often Down checks whether something has stopped.
const downPoll = 20 * time.Millisecond

// namelessFor is how long a server may hold the lock without its pid in the lock
// file: it writes it after locking, and removes it before it exits.
const namelessFor = 15 * time.Second

// instanceGrace is how long Down waits for instances to stop: longer than
// ingot-init waits for its members.
const instanceGrace = 15 * time.Second

// Down stops the server of a data directory, and everything that outlives it:
// instances of apps, their networks and mounts, database servers of services. The
// data is kept, and the next start of the server starts the apps again.
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

// openContainers opens the container engine if it was used; otherwise it returns
// nil. Without instances there may still be a network to remove. If there are none
// and the engine cannot be opened, there is nothing to remove.
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
		return nil, nil //nolint:nilerr // there is nothing to stop
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// takeOver locks a data directory. If a server holds the lock, takeOver tells it
// to stop and waits.
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

// holds reports whether a process has the lock file of a data directory open. The
// pid in it may be that of another process if the server runs in another pid
// namespace.
func holds(pid int, path string) bool {
	want, err := os.Stat(filepath.Join(path, "lock"))
	if err != nil || pid == 0 {
		return false
	}
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) {
		return true // then the signal fails too, and its error is returned
	}
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && os.SameFile(info, want) {
			return true
		}
	}
	return false
}

// endInstances stops and removes all instances of an engine, also those of
// builds, and closes it.
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

// awaitEnd waits for an instance that was signalled. If it does not stop in time,
// Remove kills it.
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
