package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"
)

var idleSection = Section{
	Name:  "idle",
	About: "memory of the router for connections that have made one request and are kept open, compared with haproxy",
	Run:   measureIdle,
}

// idleGoal is the maximum memory of an idle connection, in kB.
const idleGoal = 20

// openedAtOnce is how many connections are opened at the same time.
const openedAtOnce = 64

func measureIdle(ctx context.Context, r *Report) (err error) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		r.Note("skipped: this system has no /proc")
		return nil
	}
	connections, settle := 10000, 10*time.Second
	if r.Short {
		connections, settle = 500, time.Second
	}
	// The router gives two fifths of the files that a process may open to clients' connections.
	allowed, err := allowedFiles(uint64(3 * connections))
	if err != nil {
		return err
	}
	if room := int(allowed)*2/5 - 500; room < connections {
		r.Note("%d connections instead of %d: a process may open %d files here.", room, connections, allowed)
		connections = room
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	bits, err := newUpload(program, "idle")
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	app, err := p.Push(ctx, "idle", bits)
	defer func() { err = errors.Join(err, p.Remove(ctx, app)) }()
	if err != nil {
		return err
	}
	direct, err := p.address(ctx, app)
	if err != nil {
		return err
	}
	ours, err := idleMemory(ctx, p.API, p.PID, app.Host, connections, settle)
	if err != nil {
		return err
	}
	f := Figure{Name: fmt.Sprintf("an idle connection of %d", connections), Value: ours, Unit: "kB", Goal: Below(idleGoal)}
	peer, err := r.startPeer(ctx, peerKind{nameHAProxy, "haproxy", haproxyConfig, nil}, direct, app.Host)
	if peer != nil {
		defer func() { err = errors.Join(err, peer.stop()) }()
	}
	if err != nil {
		return err
	}
	if peer != nil {
		theirs, err := idleMemory(ctx, peer.addr, peer.pid, app.Host, connections, settle)
		if err != nil {
			return err
		}
		f.Beside = &Beside{nameHAProxy, theirs}
	}
	r.Add(f)
	r.Note("what the resident memory of the process grew by, %s after the last of the connections was opened and had got "+
		"its response, for each. What the kernel keeps of a connection is not in it.", settle)
	return nil
}

// allowedFiles lets this process, and those that it starts, open n files if that is allowed, and returns how many they
// may open.
func allowedFiles(n uint64) (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	if limit.Cur >= n {
		return limit.Cur, nil
	}
	more := syscall.Rlimit{Cur: n, Max: max(limit.Max, n)}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more) == nil {
		return n, nil
	}
	limit.Cur = limit.Max
	return limit.Cur, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// idleMemory returns by how many kB the memory of a process grows for each idle connection.
func idleMemory(ctx context.Context, addr string, pid int, host string, connections int,
	settle time.Duration) (float64, error) {
	// The first requests make what a process has once.
	warm := Load{Addr: addr, Requests: [][]byte{get(host, "/")}, Connections: openedAtOnce, Duration: settle / 5}
	if _, err := warm.Run(ctx); err != nil {
		return 0, err
	}
	if err := pause(ctx, settle); err != nil {
		return 0, err
	}
	before, err := residentMemory(pid)
	if err != nil {
		return 0, err
	}
	all := make([]*wire, 0, connections)
	defer func() {
		for _, w := range all {
			_ = w.conn.Close()
		}
	}()
	for range connections {
		w, err := dial(ctx, addr)
		if err != nil {
			return 0, fmt.Errorf("connection %d: %w", len(all)+1, err)
		}
		all = append(all, w)
		status, err := w.do(get(host, "/"))
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("answer %d", status)
		}
		if err != nil {
			return 0, fmt.Errorf("connection %d: %w", len(all), err)
		}
	}
	if err := pause(ctx, settle); err != nil {
		return 0, err
	}
	after, err := residentMemory(pid)
	if err != nil {
		return 0, err
	}
	// Those that the server has closed do not count as idle.
	for i, w := range all {
		if status, err := w.do(get(host, "/")); err != nil || status != http.StatusOK {
			return 0, fmt.Errorf("connection %d was not kept: %d, %w", i+1, status, err)
		}
	}
	return (after.total - before.total) * 1000 / float64(connections), ctx.Err()
}
