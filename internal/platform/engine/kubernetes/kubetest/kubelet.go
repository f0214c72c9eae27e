//go:build linux

package kubetest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ingot/internal/platform/engine/local"
)

const (
	logFile = "log"
	sigStop = syscall.SIGSTOP
	// user is the user of containers, if this process may change to it.
	user = 2000
)

// container is the container of one Pod.
type container struct {
	pod, uid, node, dir string

	mu      sync.Mutex
	cmd     *exec.Cmd     // nil before the start
	done    chan struct{} // closed when all processes have ended
	removed chan struct{} // closed when the Pod is deleted before its container was started
	once    sync.Once

	// Of the cluster, under its lock.
	oom     bool
	evicted string
}

// startKubelet runs a new Pod.
func (c *Cluster) startKubelet(o object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &container{
		pod: text(o, "metadata", "name"), uid: text(o, "metadata", "uid"), node: Nodes[c.placed%len(Nodes)],
		done: make(chan struct{}), removed: make(chan struct{}),
	}
	for range Nodes {
		if c.lost[one.node] {
			c.placed++
			one.node = Nodes[c.placed%len(Nodes)]
		}
	}
	c.placed++
	one.dir = filepath.Join(c.root, one.pod)
	c.pods[one.uid] = one
	c.kubelets.Go("kubelet", func() { c.kubelet(one, o) })
}

func (c *Cluster) kubelet(one *container, o object) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pods, one.uid)
	}()
	defer close(one.done)
	if !c.wait(one, func(f Faults) bool { return c.schedule(one, o, f) }) {
		return
	}
	c.update(one, func(o object) {
		set(o, one.node, "spec", "nodeName")
		setCondition(o, "PodScheduled", "True", "", "")
	})
	if !c.wait(one, func(f Faults) bool { return c.pull(one, o, f) }) {
		return
	}
	if err := c.run(one, o); err != nil {
		c.update(one, func(o object) {
			set(o, "Failed", "status", "phase")
			terminated(o, 128, "StartError", err.Error())
		})
		return
	}
	err := one.cmd.Wait()
	kill(one.dir) // the rest of the Pod ends with its first process
	c.mu.Lock()
	oom, evicted, lost := one.oom, one.evicted, c.lost[one.node]
	c.mu.Unlock()
	if lost {
		return // no kubelet reports it
	}
	code := one.cmd.ProcessState.ExitCode()
	if ws, ok := one.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	c.update(one, func(o object) {
		phase, reason, message := "Succeeded", "Completed", ""
		if err != nil {
			phase, reason = "Failed", "Error"
		}
		switch {
		case oom:
			phase, reason = "Failed", "OOMKilled"
		case evicted != "":
			phase, message = "Failed", evicted
			set(o, "Evicted", "status", "reason")
			set(o, evicted, "status", "message")
		}
		set(o, phase, "status", "phase")
		setCondition(o, "Ready", "False", "PodCompleted", "")
		terminated(o, code, reason, message)
	})
}

// update changes a Pod, unless it was deleted meanwhile.
func (c *Cluster) update(one *container, f func(object)) {
	c.store.put("pods", one.pod, false, func(o object) {
		if text(o, "metadata", "uid") == one.uid {
			f(o)
		}
	})
}

func terminated(o object, code int, reason, message string) {
	set(o, []any{object{"name": "app", "ready": false, "state": object{"terminated": object{
		"exitCode": code, "reason": reason, "message": message, "finishedAt": now(),
	}}}}, "status", "containerStatuses")
}

// wait calls step until it succeeds, again whenever the faults change. It returns false if
// the Pod was deleted before.
func (c *Cluster) wait(one *container, step func(Faults) bool) bool {
	for {
		f, changed, _ := c.current()
		if step(f) {
			return true
		}
		select {
		case <-changed:
		case <-one.removed:
			return false
		}
		if _, ok := c.store.get("pods", one.pod); !ok {
			return false
		}
	}
}

// schedule reports whether a Pod can be placed, and sets its condition if not.
func (c *Cluster) schedule(one *container, o object, f Faults) bool {
	why := f.Unschedulable
	list, _ := get(o, "spec", "containers").([]any)
	for _, one := range list {
		requests := get(one, "resources", "requests")
		switch {
		case quantity(text(requests, "memory")) > Memory:
			why = "0/2 nodes are available: 2 Insufficient memory. preemption: 0/2 nodes are available: 2 Preemption is not " +
				"helpful for scheduling."
		case quantity(text(requests, "ephemeral-storage")) > Disk:
			why = "0/2 nodes are available: 2 Insufficient ephemeral-storage. preemption: 0/2 nodes are available: 2 " +
				"Preemption is not helpful for scheduling."
		}
	}
	if why == "" {
		return true
	}
	c.update(one, func(o object) { setCondition(o, "PodScheduled", "False", "Unschedulable", why) })
	return false
}

// pull reports whether the image is there, and sets the status if not.
func (c *Cluster) pull(one *container, o object, f Faults) bool {
	if f.NodeRefusal != "" {
		c.update(one, func(o object) {
			set(o, "Failed", "status", "phase")
			set(o, "Evicted", "status", "reason")
			set(o, f.NodeRefusal, "status", "message")
		})
		return false
	}
	containers, _ := get(o, "spec", "containers").([]any)
	image, message, status := text(containers[0], "image"), f.ImageError, "containerStatuses"
	if !strings.HasPrefix(image, Stack) {
		var waits bool
		if message, waits = c.pullOther(one, o, f); waits {
			return false
		}
		if f.StackError != "" {
			message, status = f.StackError, "initContainerStatuses"
		}
	}
	if message == "" {
		return true
	}
	for _, reason := range []string{"ErrImagePull", "ImagePullBackOff"} {
		c.update(one, func(o object) {
			set(o, []any{object{"name": "app", "state": object{"waiting": object{"reason": reason, "message": message}}}},
				"status", status)
		})
	}
	return false
}

// pullOther pulls the image of an app. waits means that there is no answer yet.
func (c *Cluster) pullOther(one *container, o object, f Faults) (message string, waits bool) {
	c.update(one, func(o object) {
		set(o, []any{object{"name": "app", "state": object{"waiting": object{"reason": "PodInitializing"}}}}, "status",
			"containerStatuses")
	})
	var credentials []byte
	if secrets, _ := get(o, "spec", "imagePullSecrets").([]any); len(secrets) > 0 {
		secret, ok := c.store.get("secrets", text(secrets[0], "name"))
		if !ok {
			return "", true // its first container still runs
		}
		credentials, _ = base64.StdEncoding.DecodeString(text(secret, "data", ".dockerconfigjson"))
	}
	containers, _ := get(o, "spec", "containers").([]any)
	if f.Pull != nil {
		message = f.Pull(text(containers[0], "image"), credentials)
	}
	return message, message == PullSlow
}

// hasPrograms reports whether the image of a Pod has ingot-init, or gets it from a container
// that runs before.
func hasPrograms(o object, spec any) bool {
	if strings.HasPrefix(text(spec, "image"), Stack) {
		return true
	}
	first, _ := get(o, "spec", "initContainers").([]any)
	mounts, _ := get(spec, "volumeMounts").([]any)
	return len(first) == 1 && strings.HasPrefix(text(first[0], "image"), Stack) &&
		slices.ContainsFunc(mounts, func(m any) bool { return text(m, "mountPath") == "/ingot" })
}

// run starts ingot-init of a Pod.
func (c *Cluster) run(one *container, o object) error {
	ip, err := address()
	if err != nil {
		return err
	}
	home := filepath.Join(one.dir, "home")
	_ = os.RemoveAll(one.dir) // of an earlier Pod of this name
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(one.dir, 0o711), os.Mkdir(filepath.Join(one.dir, "tmp"), 0o700)); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(one.dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	containers, _ := get(o, "spec", "containers").([]any)
	spec := containers[0]
	command, _ := get(spec, "command").([]any)
	if len(command) < 2 || command[0] != "/ingot/ingot-init" || !hasPrograms(o, spec) {
		return fmt.Errorf("the image has no program %v", command)
	}
	args := []string{"--home", home}
	for _, a := range command[1:] {
		args = append(args, fmt.Sprint(a))
	}
	cmd := exec.Command(c.init, args...) //nolint:noctx // lives as long as its Pod
	cmd.Dir, cmd.Stdout, cmd.Stderr = home, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(one.dir, "tmp")}
	variables, _ := get(spec, "env").([]any)
	for _, v := range variables {
		value := text(v, "value")
		if text(v, "valueFrom", "fieldRef", "fieldPath") == "status.podIP" {
			value = ip
		}
		cmd.Env = append(cmd.Env, text(v, "name")+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		uid, gid := uint32(user), uint32(user)
		if n, ok := get(spec, "securityContext", "runAsUser").(float64); ok {
			uid = uint32(n)
		}
		if n, ok := get(spec, "securityContext", "runAsGroup").(float64); ok {
			gid = uint32(n)
		}
		// The volumes belong to the group of the Pod, and its processes to that group.
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid, Groups: []uint32{user}}
		if err := errors.Join(os.Chown(home, int(uid), user),
			os.Chown(filepath.Join(one.dir, "tmp"), int(uid), user)); err != nil {
			return err
		}
	}
	one.mu.Lock()
	err = cmd.Start()
	one.cmd = cmd
	one.mu.Unlock()
	if err != nil {
		return err
	}
	c.update(one, func(o object) {
		set(o, "Running", "status", "phase")
		set(o, ip, "status", "podIP")
		set(o, []any{object{"ip": ip}}, "status", "podIPs")
		set(o, "10.250.0.1", "status", "hostIP")
		set(o, []any{object{"name": "app", "ready": true, "state": object{"running": object{"startedAt": now()}}}}, "status",
			"containerStatuses")
	})
	return nil
}

// address returns a free loopback address.
func address() (string, error) {
	for range 100 {
		ip := fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(64), rand.IntN(256), 1+rand.IntN(254))
		l, err := net.Listen("tcp", ip+":61001")
		if err == nil {
			return ip, l.Close()
		}
	}
	return "", errors.New("no free address")
}

func graceOf(o object) time.Duration {
	seconds, _ := get(o, "spec", "terminationGracePeriodSeconds").(float64)
	return time.Duration(seconds) * time.Second
}

// delete ends a Pod and removes it. On a lost node nothing confirms that, so that only a
// grace of 0 removes it.
func (c *Cluster) delete(o object, grace time.Duration) {
	name, uid := text(o, "metadata", "name"), text(o, "metadata", "uid")
	c.mu.Lock()
	one := c.pods[uid]
	lost := c.lost[text(o, "spec", "nodeName")]
	c.mu.Unlock()
	if grace == 0 || one == nil && !lost {
		c.forget(name, uid)
		if one != nil {
			one.kill()
		}
		return
	}
	c.store.put("pods", name, false, func(o object) {
		if text(o, "metadata", "deletionTimestamp") == "" {
			set(o, now(), "metadata", "deletionTimestamp")
		}
		set(o, int64(grace/time.Second), "metadata", "deletionGracePeriodSeconds")
	})
	if lost {
		return
	}
	c.kubelets.Go("kubelet delete", func() {
		one.stop(min(preStop(o), grace), grace)
		<-one.done
		c.forget(name, uid)
	})
}

// forget removes a Pod, and the Secrets that belong to it.
func (c *Cluster) forget(name, uid string) {
	if !c.store.remove("pods", name, uid) {
		return
	}
	secrets, _ := c.store.list("secrets", "")
	for _, o := range secrets {
		owners, _ := get(o, "metadata", "ownerReferences").([]any)
		if slices.ContainsFunc(owners, func(owner any) bool { return text(owner, "uid") == uid }) {
			c.store.remove("secrets", text(o, "metadata", "name"), "")
		}
	}
}

// preStop returns how long the Pod's hook sleeps.
func preStop(o object) time.Duration {
	containers, _ := get(o, "spec", "containers").([]any)
	seconds, _ := get(containers[0], "lifecycle", "preStop", "sleep", "seconds").(float64)
	return time.Duration(seconds) * time.Second
}

// stop ends a container as the kubelet does: hook, SIGTERM, SIGKILL.
func (one *container) stop(hook, grace time.Duration) {
	one.once.Do(func() { close(one.removed) })
	late := time.NewTimer(grace)
	defer late.Stop()
	if one.started() {
		select {
		case <-time.After(hook):
		case <-one.done:
			return
		}
		one.signal(syscall.SIGTERM)
	}
	select {
	case <-late.C:
		one.kill()
	case <-one.done:
	}
}

func (one *container) started() bool {
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.cmd != nil && one.cmd.Process != nil
}

func (one *container) signal(s syscall.Signal) {
	if !one.started() {
		return
	}
	if s == sigStop {
		for _, p := range mentioning(one.dir) {
			_ = syscall.Kill(p.pid, s)
		}
	}
	_ = one.cmd.Process.Signal(s)
}

// kill ends all processes of a container.
func (one *container) kill() {
	one.once.Do(func() { close(one.removed) })
	if one.started() {
		_ = one.cmd.Process.Kill()
	}
	kill(one.dir)
}

func kill(dir string) {
	for range 10 { // new ones may appear meanwhile
		found := mentioning(dir)
		if len(found) == 0 {
			return
		}
		for _, p := range found {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

type process struct {
	pid     int
	command string
}

func (p process) String() string { return fmt.Sprintf("process %d: %s", p.pid, p.command) }

// mentioning returns the processes with this directory in their command, environment or as
// their working directory.
func mentioning(dir string) []process {
	table, err := local.Processes()
	if err != nil {
		return nil
	}
	var found []process
	for pid, s := range table {
		if pid == os.Getpid() || s.Zombie() {
			continue
		}
		proc := "/proc/" + strconv.Itoa(pid)
		line, _ := os.ReadFile(proc + "/cmdline")
		environ, _ := os.ReadFile(proc + "/environ")
		cwd, _ := os.Readlink(proc + "/cwd")
		if bytes.Contains(line, []byte(dir+"/")) || bytes.Contains(environ, []byte(dir+"/")) ||
			strings.HasPrefix(cwd, dir+"/") {
			found = append(found, process{pid, strings.ReplaceAll(string(line), "\x00", " ")})
		}
	}
	slices.SortFunc(found, func(a, b process) int { return a.pid - b.pid })
	return found
}
