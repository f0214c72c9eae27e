//go:build linux

package container_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/rootless"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/instance/initproto"
)

// idle is an instance that does nothing.
func idle(id string) engine.Spec {
	return engine.Spec{
		ID:     id,
		Limits: engine.Limits{Memory: 512 << 20, Disk: 64 << 20},
		Launch: initproto.Spec{
			Instance: id, LogRate: -1, Health: initproto.Check{Kind: initproto.CheckProcess}, Grace: time.Second,
			Members: []initproto.Member{{
				Name: "web", Source: "APP/PROC/WEB", Args: []string{"/bin/sleep", "100000"},
				Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin", "HOME={{home}}"}, Dir: "{{home}}",
			}},
		},
	}
}

// opened is an engine that is closed, and all it had removed, at the end of the
// test.
func opened(t *testing.T, o container.Options) (*container.Engine, string) {
	t.Helper()
	need(t)
	dir := enginetest.TempDir(t)
	o.Root, o.Init = dir, enginetest.InitPath()
	e, err := container.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		list, _ := e.List(context.Background(), nil)
		for _, i := range list {
			if err := e.Remove(context.Background(), i.ID); err != nil {
				t.Error(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("left over:\n%s", strings.Join(left, "\n"))
		}
	})
	return e, dir
}

func start(t *testing.T, e *container.Engine, s engine.Spec) engine.Instance {
	t.Helper()
	if err := e.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	i, err := e.Get(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// inside runs a script as a member's user and returns what it wrote.
func inside(t *testing.T, e *container.Engine, id, script string) (out string, status int) {
	t.Helper()
	p, err := e.Exec(t.Context(), id, engine.ExecRequest{Args: []string{"/bin/bash", "-c", "exec 2>&1\n" + script}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Error(err)
	}
	if status, err = p.Wait(); err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(b)), status
}

func TestEscape(t *testing.T) {
	t.Parallel()
	escape(t)
}

// escape tries to get out of an instance, and to get at another one.
func escape(t *testing.T) {
	t.Helper()
	e, dir := opened(t, container.Options{})
	start(t, e, idle("a"))
	start(t, e, idle("b"))
	inside(t, e, "b", `echo secret >~/secret; echo secret >/tmp/secret`)

	for name, script := range map[string]string{
		"HostShadow":      `cat /etc/shadow`,
		"HostRoot":        `test -n "$(ls -A /root)"`,
		"HostHome":        `test "$(ls /home)" != vcap`,
		"HostRun":         `test -n "$(ls -A /run)"`,
		"HostKeys":        `ls /etc/ssh || ls /etc/ssl/private`,
		"DataDirectory":   `ls ` + dir,
		"RuntimeDir":      `ls /run/ingot-*`,
		"Docker":          `ls /var/run/docker.sock /run/containerd`,
		"Boot":            `ls /boot /lost+found`,
		"ProcOfHost":      `ls /proc/` + strconv.Itoa(os.Getpid()) + `/cwd`,
		"RootOfInit":      `ls /proc/1/root/`,
		"EnvironOfInit":   `cat /proc/1/environ`,
		"MemoryOfInit":    `head -c1 /proc/1/mem || cat /proc/1/maps`,
		"FilesOfInit":     `ls /proc/1/fd`,
		"KillInit":        `kill -9 1`,
		"StopInit":        `kill -STOP 1`,
		"KillHost":        `kill -0 ` + strconv.Itoa(os.Getpid()),
		"ReadControl":     `ls /.ingot`,
		"ReadSpec":        `cat /.ingot/spec.json`,
		"ForgeRecord":     `echo "v 1 99 0 {}" >>/.ingot/records/00000000000000000001.rec`,
		"ForgeState":      `echo {} >/.ingot/state.json`,
		"ReplaceInit":     `echo x >/.ingot-init || rm /.ingot-init`,
		"WriteUsr":        `touch /usr/x || touch /usr/local/bin/x || touch /bin/x`,
		"WriteEtc":        `touch /etc/x || echo x >>/etc/passwd || echo x >>/etc/hosts`,
		"WriteRoot":       `touch /x || mkdir /y || touch /var/x || touch /opt/x || touch /run/x || touch /home/x`,
		"WriteSysctl":     `echo 1 >/proc/sys/net/ipv4/ip_forward || echo x >/proc/sys/kernel/core_pattern`,
		"SysRq":           `echo b >/proc/sysrq-trigger`,
		"WriteCgroup":     `echo -1 >/sys/fs/cgroup/memory/memory.limit_in_bytes || echo max >/sys/fs/cgroup/memory.max`,
		"JoinCgroup":      `mkdir /sys/fs/cgroup/memory/x || mkdir /sys/fs/cgroup/x`,
		"Kcore":           `test -s /proc/kcore && head -c1 /proc/kcore | grep -q .`,
		"Mount":           `mount -t tmpfs none /tmp`,
		"BindMount":       `mount --bind /usr /home/vcap`,
		"Remount":         `mount -o remount,rw /usr`,
		"UserNamespace":   `unshare -U true`,
		"MountNamespace":  `unshare -rm true`,
		"NetNamespace":    `unshare -n true`,
		"EnterInit":       `nsenter -t 1 -a true || nsenter -t 1 -m true`,
		"Chroot":          `chroot /usr /bin/true`,
		"Device":          `mknod /home/vcap/d b 254 0 || mknod /tmp/m c 1 1`,
		"Module":          `insmod /dev/null || modprobe loop`,
		"KernelLog":       `dmesg`,
		"Hostname":        `hostname other`,
		"Clock":           `date -s 2000-01-01`,
		"SetUID":          `su -c true || sudo true`,
		"RawSocket":       `ping -c1 -W1 127.0.0.1`,
		"NetAdmin":        `ip link set eth0 down || ip addr add 10.1.2.3/24 dev eth0`,
		"HostSecret":      `env | grep ` + hostSecret,
		"OthersFiles":     `cat /home/vcap/secret /tmp/secret`,
		"OthersProcesses": `test "$(cat /proc/[0-9]*/comm | grep -c sleep)" -gt 1`,
		"Capabilities":    `grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):' /proc/self/status | grep -v 0000000000000000`,
		"NoSeccomp":       `! grep -q '^Seccomp:.2' /proc/self/status`,
		"NewPrivileges":   `! grep -q '^NoNewPrivs:.1' /proc/self/status`,
		"IPv6":            `cut -c34- /proc/net/if_inet6 | grep -v ' lo$'`,
		"Reboot":          `python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).reboot(0x01234567) != 0)'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, status := inside(t, e, "a", script); status == 0 {
				t.Errorf("that worked:\n%s", out)
			}
		})
	}
	t.Run("Members", func(t *testing.T) {
		t.Parallel()
		// What runs from the start has no more rights than what Exec runs.
		awaitHealthy(t, e, "a")
		out, status := inside(t, e, "a", `cat /proc/$(pgrep -x sleep)/status`)
		if status != 0 {
			t.Fatalf("reading the status of the member: exit status %d: %s", status, out)
		}
		for _, want := range []string{"Uid:\t2000\t2000\t2000\t2000", "Gid:\t2000\t2000\t2000\t2000",
			"CapEff:\t0000000000000000",
			"CapPrm:\t0000000000000000", "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1",
			"Seccomp:\t2"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
	t.Run("Users", func(t *testing.T) {
		t.Parallel()
		users := map[string]bool{}
		for _, id := range []string{"a", "b"} {
			info, err := os.Stat(fmt.Sprintf("/proc/%d", containertest.Of(dir).InitPID(t, id)))
			if err != nil {
				t.Fatal(err)
			}
			st, ok := info.Sys().(*syscall.Stat_t)
			least := uint32(1 << 30)
			if s := rootless.Current(); s != nil {
				least, _ = s.ForInstances() // as seen in the user namespace of the server
			}
			if !ok || st.Uid < least {
				t.Errorf("instance %s is user %d on the host", id, st.Uid)
			}
			users[fmt.Sprint(st.Uid)] = true
		}
		if len(users) != 2 {
			t.Errorf("two instances are the same user: %v", users)
		}
	})
	t.Run("Allowed", func(t *testing.T) {
		t.Parallel()
		// What apps have to be able to do.
		for _, script := range []string{
			`echo x >~/f && echo x >/tmp/f && echo x >/var/tmp/f && test -O ~/f`,
			`test "$(hostname)" = a && getent hosts a && getent hosts localhost`,
			`test "$(id -un)" = vcap && test ~ = /home/vcap`,
			`echo x >/dev/null && head -c1 /dev/urandom >/dev/null && test -w /dev/shm`,
			`echo 'echo ran' >~/s && chmod +x ~/s && sh ~/s`,
			`ulimit -n | grep -q '^[0-9]' && test "$(ulimit -c)" = 0`,
			`python3 -c 'import socket; s = socket.socket(); s.bind(("0.0.0.0", 80))'`,
		} {
			if out, status := inside(t, e, "a", script); status != 0 {
				t.Errorf("%s: status %d\n%s", script, status, out)
			}
		}
	})
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	start(t, e, idle("a"))
	b := start(t, e, idle("b"))
	// Something on the host that listens on all of its addresses.
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello\n")
			_ = c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	connect := func(host, port string) (string, int) {
		return inside(t, e, "a", fmt.Sprintf(`exec 3<>/dev/tcp/%s/%s && head -n1 <&3`, host, port))
	}
	hosts := []string{e.Gateway().String()}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			hosts = append(hosts, p.Addr().String())
		}
	}
	for _, host := range hosts {
		began := time.Now()
		if out, status := connect(host, port); status == 0 {
			t.Errorf("%s is reached: %s", host, out)
		}
		if d := time.Since(began); d > time.Minute { // dropped packets would take longer
			t.Errorf("%s: refused only after %v", host, d)
		}
	}
	// Another instance, on a port that is open there.
	p, err := e.Exec(t.Context(), "b", engine.ExecRequest{Args: []string{"python3", "-u", "-m", "http.server", "8000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if line := make([]byte, 7); true {
		if _, err := io.ReadFull(p.Stdout(), line); err != nil || string(line) != "Serving" {
			t.Fatalf("first output is %q, %v, want Serving", line, err)
		}
	}
	if c, err := net.DialTimeout("tcp", net.JoinHostPort(b.Internal, "8000"), time.Minute); err != nil {
		t.Errorf("from the host: %v", err)
	} else {
		c.Close()
	}
	if out, status := connect(b.Internal, "8000"); status == 0 {
		t.Errorf("one instance reaches another: %s", out)
	}
	// What is allowed is allowed, and nothing beside it.
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Allow(t.Context(), []container.Endpoint{netip.AddrPortFrom(e.Gateway(), uint16(number))},
		nil); err != nil {
		t.Fatal(err)
	}
	if out, status := connect(hosts[0], port); status != 0 || out != "hello" {
		t.Errorf("what is allowed: %q, %d", out, status)
	}
	if out, status := connect(hosts[0], strconv.FormatUint(number^1, 10)); status == 0 {
		t.Errorf("beside it: %s", out)
	}
	if err := e.Allow(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if out, status := connect(hosts[0], port); status == 0 {
		t.Errorf("what is no longer allowed: %s", out)
	}
	// Names of sockets without a file belong to a network.
	u, err := net.Listen("unix", "@ingot-test-"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if c, err := e.Dial(t.Context(), "a", "unix", "@ingot-test-"+port); err == nil {
		c.Close()
		t.Error("an abstract socket of the host is reached")
	}
}

// Links inside must not lead a server that connects to a socket to the host's.
func TestDialUnix(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	start(t, e, idle("a"))
	dir := enginetest.TempDir(t)
	l, err := net.Listen("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if out, status := inside(t, e, "a", `ln -s `+dir+`/s ~/link; ln -s ../../../../../../../../`+dir+
		`/s ~/far`); status != 0 {
		t.Fatalf("making the links: exit status %d: %s", status, out)
	}
	for _, path := range []string{"/home/vcap/link", "/home/vcap/far", dir + "/s"} {
		if c, err := e.Dial(t.Context(), "a", "unix", path); err == nil {
			c.Close()
			t.Errorf("%s leads to a socket of the host", path)
		}
	}
	p, err := e.Exec(t.Context(), "a", engine.ExecRequest{Args: []string{"python3", "-u", "-c",
		`import socket; s = socket.socket(socket.AF_UNIX); s.bind("/tmp/own"); s.listen(); print("ready"); c, _ = s.accept(); c.send(b"own")`}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if line := make([]byte, 6); true {
		if _, err := io.ReadFull(p.Stdout(), line); err != nil {
			t.Fatal(err)
		}
	}
	c, err := e.Dial(t.Context(), "a", "unix", "/tmp/own")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, err := io.ReadAll(c); string(b) != "own" {
		t.Errorf("read %q, %v, want own", b, err)
	}
}

// The languages of the host work inside.
func TestLanguages(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	start(t, e, idle("a"))
	for program, script := range map[string]string{
		"java":    `java -Xmx64m -version`,
		"node":    `node -e 'require("http"); console.log(process.version)'`,
		"python3": `python3 -c 'import ssl, socket, json; socket.gethostbyname("localhost")'`,
		"go":      `HOME=/tmp go version`,
		"ruby":    `ruby -e 'require "json"; require "openssl"'`,
		"php":     `php -r 'echo 1;'`,
		"curl":    `curl --version`,
		"git":     `cd && git init -q x`,
		"perl":    `perl -e 'print 1'`,
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			if _, status := inside(t, e, "a", `command -v `+program); status != 0 {
				t.Skipf("the host has no %s", program)
			}
			if out, status := inside(t, e, "a", script); status != 0 {
				t.Errorf("status %d:\n%s", status, out)
			}
		})
	}
}

// The JVM sizes its heap by what it takes for the machine's memory.
func TestLimitsAreSeen(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	s := idle("a")
	s.Limits.Memory = 256 << 20
	start(t, e, s)
	out, status := inside(t, e, "a",
		`cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max`)
	if status != 0 || out != strconv.Itoa(256<<20) {
		t.Errorf("memory limit as seen from inside: %q", out)
	}
	if _, status := inside(t, e, "a", `command -v java`); status != 0 {
		t.Skip("the host has no java")
	}
	out, _ = inside(t, e, "a", `java -XX:+PrintFlagsFinal -version 2>/dev/null | awk '$2 == "MaxHeapSize" { print $4 }'`)
	if n, err := strconv.Atoi(out); err != nil || n > 192<<20 {
		t.Errorf("the JVM's heap: %q", out)
	}
}

// On machines that can do less, instances run all the same.
func TestDegraded(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	container.Degrade(e)
	s := idle("a")
	s.Files = []engine.Archive{keyedArchive("degraded")}
	start(t, e, s)
	if out, status := inside(t, e, "a",
		`cat app/file && echo x >app/file && head -c 1000000 /dev/zero >big && test -O app/file`); status != 0 ||
		out != "text" {
		t.Errorf("exit status %d, output %s, want 0 and text", status, out)
	}
	if u, err := e.Usage(t.Context(), "a"); err != nil || u.Disk < 1000000 {
		t.Errorf("usage is %+v, %v, want at least 1000000 bytes of disk", u, err)
	}
}

// Unused layers are removed when there is no room for them; others stay.
func TestLayerSpace(t *testing.T) {
	t.Parallel()
	e, dir := opened(t, container.Options{LayerSpace: 1})
	for _, id := range []string{"a", "b", "c"} {
		s := idle(id)
		s.Files = []engine.Archive{keyedArchive(id)}
		start(t, e, s)
		if id == "a" {
			if err := e.Remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	for {
		layers, err := os.ReadDir(filepath.Join(dir, "layers"))
		if err != nil {
			t.Fatal(err)
		}
		if len(layers) == 2 {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("layers are %v, want 2", layers)
		}
	}
	for _, id := range []string{"b", "c"} {
		if out, status := inside(t, e, id, `cat app/file app/sub/other`); status != 0 || out != "text\ntext" {
			t.Errorf("%s: exit status %d, output %q, want 0 and both files", id, status, out)
		}
	}
}

// The disk is as large as its limit, the shared files counted.
func TestDiskLimit(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	s := idle("a")
	s.Limits.Disk = 32 << 20
	start(t, e, s)
	out, status := inside(t, e, "a",
		`head -c 30000000 /dev/zero >~/most && rm ~/most && head -c 40000000 /dev/zero >/tmp/more`)
	if status == 0 || !strings.Contains(out, "No space left") {
		t.Errorf("exit status %d, output %q, want no space left", status, out)
	}
	u, err := e.Usage(t.Context(), "a")
	if err != nil || u.Disk < 28<<20 || u.Disk > 36<<20 {
		t.Errorf("usage is %+v, %v, want about 32 MiB of disk", u, err)
	}
}
