package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// bareRuntime starts containers with a container runtime alone, without Ingot.
type bareRuntime struct {
	name, program string
	root, bundle  string
	started       int
	times         []time.Duration
}

// bareRuntimes returns the runtimes that work on this machine, and adds notes
// about the others.
func bareRuntimes(ctx context.Context, r *Report, app string) ([]*bareRuntime, error) {
	var all []*bareRuntime
	for _, name := range []string{"runc", "crun"} {
		program, err := exec.LookPath(name)
		if err != nil {
			r.Note("no comparison with %s: it is not installed.", name)
			continue
		}
		b := &bareRuntime{name: name, program: program, root: filepath.Join(r.Scratch, name+"-state"),
			bundle: filepath.Join(r.Scratch, name+"-bundle")}
		if err := b.setUp(app); err != nil {
			return nil, err
		}
		// The first run is a test, and not counted.
		if err := b.round(ctx); err != nil {
			r.Note("no comparison with %s: it does not work on this machine (%s).", name, err)
			continue
		}
		b.times = nil
		all = append(all, b)
	}
	return all, nil
}

// setUp creates a root file system that contains only the app.
func (b *bareRuntime) setUp(app string) error {
	rootfs := filepath.Join(b.bundle, "rootfs")
	for _, dir := range []string{"proc", "dev"} {
		if err := os.MkdirAll(filepath.Join(rootfs, dir), 0o755); err != nil {
			return err
		}
	}
	content, err := os.ReadFile(app)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(rootfs, "app"), content, 0o755); err != nil {
		return err
	}
	return b.describe(b.bundle, b.name)
}

// describe writes the configuration of a container that has the named control group into dir. All share a root file
// system.
func (b *bareRuntime) describe(dir, group string) error {
	config, err := json.Marshal(bareConfig(filepath.Join(b.bundle, "rootfs"),
		fmt.Sprintf("/ingot-bench-%d-%s", selfPID, group)))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644)
}

// bareConfig isolates a container as an instance is isolated.
func bareConfig(rootfs, group string) map[string]any {
	type object = map[string]any
	ids := []object{{"containerID": 0, "hostID": 1 << 30, "size": 65536}}
	var namespaces []object
	for _, kind := range []string{"pid", "mount", "network", "ipc", "uts", "user", "cgroup"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	return object{
		"ociVersion": "1.0.2",
		"hostname":   "bare",
		"root":       object{"path": rootfs, "readonly": true},
		"process": object{
			"args": []string{"/app"}, "cwd": "/", "env": []string{"PORT=8080"},
			"user": object{"uid": 2000, "gid": 2000}, "noNewPrivileges": true,
		},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc", "options": []string{"nosuid", "noexec", "nodev"}},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "strictatime", "mode=755",
				"size=64k"}},
		},
		"linux": object{
			"cgroupsPath": group,
			"uidMappings": ids, "gidMappings": ids, "namespaces": namespaces,
			"resources": object{
				"memory": object{"limit": 64 << 20}, "cpu": object{"shares": 1024}, "pids": object{"limit": 1024},
				"devices": []object{{"allow": false, "access": "rwm"}},
			},
			"seccomp": object{
				"defaultAction": "SCMP_ACT_ALLOW", "architectures": []string{"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"},
				"syscalls": []object{{
					"names": []string{"add_key", "bpf", "keyctl", "mount", "open_by_handle_at", "perf_event_open", "ptrace",
						"request_key", "setns", "umount2", "unshare", "userfaultfd"},
					"action": "SCMP_ACT_ERRNO",
				}},
			},
			"maskedPaths":   []string{"/proc/kcore", "/proc/keys", "/proc/timer_list"},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"},
		},
	}
}

// round starts a container, measures the time until its program writes a line,
// and stops it.
func (b *bareRuntime) round(ctx context.Context) error {
	b.started++
	began := time.Now()
	c, err := b.launch(b.bundle, fmt.Sprintf("ingot-bench-%d-%s-%d", selfPID, b.name, b.started))
	if err != nil {
		return err
	}
	took := time.Since(began)
	if err := c.stop(); err != nil {
		return err
	}
	b.times = append(b.times, took)
	return ctx.Err()
}

// bareContainer is a container that runs.
type bareContainer struct {
	*bareRuntime
	id  string
	cmd *exec.Cmd
}

// launch starts a container and waits until its program writes a line.
func (b *bareRuntime) launch(bundle, id string) (*bareContainer, error) {
	// Without the context: killing the command would leave its container behind.
	c := &bareContainer{b, id, exec.Command(b.program, "--root", b.root, "run", "--bundle", bundle, id)}
	var says bytes.Buffer
	c.cmd.Stderr = &says
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "listening" {
		err = errors.Join(err, c.stop())
		return nil, fmt.Errorf("%s run: %w: %q %s", b.name, err, line, bytes.TrimSpace(says.Bytes()))
	}
	return c, nil
}

// stop kills the container, and waits until the runtime has removed it.
func (c *bareContainer) stop() error {
	err := exec.Command(c.program, "--root", c.root, "kill", c.id, "KILL").Run()
	_ = c.cmd.Wait() // it returns the status of the killed program
	return err
}
