//go:build linux

package container_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ingot/internal/platform/engine/container"
)

// System calls that are not on the list are denied, whatever they need besides:
// the arguments are such that without the filter they answer something else.
func TestSystemCalls(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	start(t, e, idle("a"))
	if _, status := inside(t, e, "a", `command -v python3`); status != 0 {
		t.Skip("the host has no python3 to make system calls with")
	}
	const eperm, enosys, eafnosupport = int(unix.EPERM), int(unix.ENOSYS), int(unix.EAFNOSUPPORT)
	for name, c := range map[string]struct {
		number int
		args   string
		want   int // error number; 0 is none
	}{
		"keyctl":            {unix.SYS_KEYCTL, "0, -3, 0", eperm},
		"add_key":           {unix.SYS_ADD_KEY, "0, 0, 0, 0, 0", eperm},
		"request_key":       {unix.SYS_REQUEST_KEY, "0, 0, 0, 0", eperm},
		"bpf":               {unix.SYS_BPF, "99, 0, 0", eperm},
		"userfaultfd":       {unix.SYS_USERFAULTFD, "-1", eperm},
		"mount":             {unix.SYS_MOUNT, "0, 0, 0, 0, 0", eperm},
		"umount2":           {unix.SYS_UMOUNT2, "0, 0", eperm},
		"fsopen":            {unix.SYS_FSOPEN, "0, 0", eperm},
		"open_tree":         {unix.SYS_OPEN_TREE, "-1, 0, 0", eperm},
		"move_mount":        {unix.SYS_MOVE_MOUNT, "-1, 0, -1, 0, 0", eperm},
		"mount_setattr":     {unix.SYS_MOUNT_SETATTR, "-1, 0, 0, 0, 0", eperm},
		"unshare":           {unix.SYS_UNSHARE, fmt.Sprint(unix.CLONE_NEWUSER), eperm},
		"unshare nothing":   {unix.SYS_UNSHARE, "0", eperm},
		"setns":             {unix.SYS_SETNS, "-1, 0", eperm},
		"clone3":            {unix.SYS_CLONE3, "0, 0", enosys},
		"clone user":        {unix.SYS_CLONE, fmt.Sprint(unix.CLONE_NEWUSER | int(unix.SIGCHLD)), eperm},
		"clone mount":       {unix.SYS_CLONE, fmt.Sprint(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | int(unix.SIGCHLD)), eperm},
		"clone cgroup":      {unix.SYS_CLONE, fmt.Sprint(unix.CLONE_NEWCGROUP | int(unix.SIGCHLD)), eperm},
		"io_uring_setup":    {unix.SYS_IO_URING_SETUP, "0, 0", eperm},
		"io_uring_enter":    {unix.SYS_IO_URING_ENTER, "-1, 0, 0, 0, 0", eperm},
		"io_uring_register": {unix.SYS_IO_URING_REGISTER, "-1, 0, 0, 0", eperm},
		"perf_event_open":   {unix.SYS_PERF_EVENT_OPEN, "0, 0, -1, -1, 0", eperm},
		"open_by_handle_at": {unix.SYS_OPEN_BY_HANDLE_AT, "-1, 0, 0", eperm},
		"name_to_handle_at": {unix.SYS_NAME_TO_HANDLE_AT, "-1, 0, 0, 0, 0", eperm},
		"fanotify_init":     {unix.SYS_FANOTIFY_INIT, "-1, 0", eperm},
		"pidfd_getfd":       {unix.SYS_PIDFD_GETFD, "-1, 0, 0", eperm},
		"kcmp":              {unix.SYS_KCMP, "-1, -1, 0, 0, 0", eperm},
		"move_pages":        {unix.SYS_MOVE_PAGES, "-1, 0, 0, 0, 0, 0", eperm},
		"mbind":             {unix.SYS_MBIND, "0, 0, 99, 0, 0, 0", eperm},
		"finit_module":      {unix.SYS_FINIT_MODULE, "-1, 0, 0", eperm},
		"kexec_load":        {unix.SYS_KEXEC_LOAD, "0, 0, 0, -1", eperm},
		"syslog":            {unix.SYS_SYSLOG, "3, 0, 0", eperm},
		"quotactl":          {unix.SYS_QUOTACTL, "-1, 0, 0, 0", eperm},
		"adjtimex":          {unix.SYS_ADJTIMEX, "0", eperm},
		"personality":       {unix.SYS_PERSONALITY, "0x0400000", eperm}, // the address space is read, too
		"fanotify_mark":     {unix.SYS_FANOTIFY_MARK, "-1, 0, 0, 0, 0", eperm},
		"unheard of":        {5000, "", enosys},
		"vsock":             {unix.SYS_SOCKET, fmt.Sprint(unix.AF_VSOCK, ", 1, 0"), eafnosupport},
		"alg":               {unix.SYS_SOCKET, fmt.Sprint(unix.AF_ALG, ", 5, 0"), eafnosupport},
		"rds":               {unix.SYS_SOCKET, fmt.Sprint(unix.AF_RDS, ", 5, 0"), eafnosupport},
		"bluetooth":         {unix.SYS_SOCKET, fmt.Sprint(unix.AF_BLUETOOTH, ", 3, 0"), eafnosupport},
		"packet":            {unix.SYS_SOCKET, fmt.Sprint(unix.AF_PACKET, ", 3, 0"), eafnosupport},
		// What programs do need.
		"ask personality": {unix.SYS_PERSONALITY, "ctypes.c_ulong(0xffffffff)", 0},
		"unix":            {unix.SYS_SOCKET, fmt.Sprint(unix.AF_UNIX, ", 1, 0"), 0},
		"inet6":           {unix.SYS_SOCKET, fmt.Sprint(unix.AF_INET6, ", 1, 0"), 0},
		"netlink":         {unix.SYS_SOCKET, fmt.Sprint(unix.AF_NETLINK, ", 3, 0"), 0},
		"getpid":          {unix.SYS_GETPID, "", 0},
		"memfd_create":    {unix.SYS_MEMFD_CREATE, `b"x", 0`, 0},
		"ptrace":          {unix.SYS_PTRACE, "0, 0, 0, 0", 0}, // be traced
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			args := fmt.Sprint(c.number)
			if c.args != "" {
				args += ", " + c.args
			}
			out, status := inside(t, e, "a", `python3 -c '
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
r = libc.syscall(`+args+`)
print("number", ctypes.get_errno() if r == -1 else 0)'`)
			if want := fmt.Sprint("number ", c.want); status != 0 || out != want {
				t.Errorf("status %d, %q, want %q", status, out, want)
			}
		})
	}
}

// What people do in instances with more than ordinary calls.
func TestSystemCallsOfPrograms(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	s := idle("a")
	s.Limits.Memory, s.Limits.Disk = 1<<30, 512<<20
	start(t, e, s)
	for name, c := range map[string]struct{ program, script string }{
		"bash":    {"bash", `for i in 1 2 3; do (sleep 0.01 & wait) | cat; done; mkfifo ~/p; echo x >~/p & cat ~/p; diff <(echo a) <(echo a); ulimit -a`},
		"node":    {"node", `node -e 'const {Worker} = require("worker_threads"); const fs = require("fs"); fs.watch("/tmp"); require("child_process").execSync("true"); require("http").createServer((q, r) => r.end("ok")).listen(3000, async () => { const a = await fetch("http://127.0.0.1:3000"); new Worker("1", {eval: true}).on("exit", () => process.exit(a.status === 200 ? 0 : 1)); })'`},
		"python3": {"python3", `python3 -c 'import multiprocessing, asyncio, tempfile, sqlite3, socket, subprocess, threading; multiprocessing.Pool(2).map(abs, [1, 2]); asyncio.run(asyncio.sleep(0)); sqlite3.connect("/tmp/x.db").execute("create table t (a)"); subprocess.check_call(["true"]); t = threading.Thread(target=lambda: None); t.start(); t.join(); socket.create_server(("", 3001))'`},
		"java":    {"java", `mkdir -p ~/j && cd ~/j && printf 'public class A { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.out.println("thread")); t.start(); t.join(); new java.net.ServerSocket(3002).close(); new ProcessBuilder("true").start().waitFor(); System.gc(); } }' >A.java && java -Xmx128m A.java`},
		"ruby":    {"ruby", `ruby -e 'require "socket"; TCPServer.new(3003); fork { exit }; Process.wait; Thread.new { 1 }.join; system("true")'`},
		"php":     {"php", `php -r '$s = stream_socket_server("tcp://127.0.0.1:3004"); shell_exec("true"); echo 1;'`},
		"go":      {"go", `export HOME=/home/vcap GOCACHE=/home/vcap/c GOFLAGS=-mod=mod; mkdir -p ~/g && cd ~/g && printf 'package main\nimport ("fmt"; "net"; "os/exec"; "runtime")\nfunc main() { l, err := net.Listen("tcp", ":3005"); if err != nil { panic(err) }; l.Close(); if err := exec.Command("true").Run(); err != nil { panic(err) }; runtime.GC(); fmt.Println("ok") }\n' >m.go && go run m.go`},
		"gdb":     {"gdb", `gdb -batch -ex run /bin/true`},
		"strace":  {"strace", `strace -f true`},
		"tar":     {"tar", `cd ~ && mkdir -p d && touch d/f && tar cf d.tar d && tar xf d.tar`},
		"git":     {"git", `cd && git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, status := inside(t, e, "a", `command -v `+c.program); status != 0 {
				t.Skipf("the host has no %s", c.program)
			}
			if out, status := inside(t, e, "a", "set -e\n"+c.script); status != 0 {
				t.Errorf("status %d:\n%s", status, out)
			}
		})
	}
}
