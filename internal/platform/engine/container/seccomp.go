//go:build linux

package container

import (
	"runtime"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// allowed are the system calls of instances, on all supported architectures:
// names that one does not have are skipped there. Other calls return EPERM, or
// ENOSYS if they are newer than libseccomp. The list has what ordinary programs
// call, and leaves out, even where capabilities would be needed as well:
//
//   - mounts, namespaces and chroot, and files by handle, which bypass
//     directories
//   - the kernel itself: modules, kexec, bpf, perf_event_open, its log, swap,
//     quotas, accounting, ports of the machine, clocks
//   - keys, which namespaces do not isolate
//   - userfaultfd and io_uring: many vulnerabilities, and programs work without them
//   - memory placement, also of other processes: mbind, move_pages, kcmp
//
// ptrace and process_vm_readv are allowed, as in Docker: a debugger reaches the
// processes of its own user and instance only, and not ingot-init. Since Linux
// 4.8 the filter runs after a tracer has changed a call.
var allowed = [][]string{
	{ // files
		"access", "cachestat", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat", "dup",
		"dup2", "dup3",
		"faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown",
		"fchownat", "fcntl",
		"fdatasync", "fgetxattr", "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync",
		"ftruncate",
		"futimesat", "getcwd", "getdents", "getdents64", "getxattr", "inotify_add_watch", "inotify_init", "inotify_init1",
		"inotify_rm_watch", "ioctl", "lchown", "lgetxattr", "link", "linkat", "listxattr", "llistxattr",
		"lremovexattr", "lseek",
		"lsetxattr", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat", "open", "openat", "openat2",
		"pread64", "preadv",
		"preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv",
		"removexattr", "rename",
		"renameat", "renameat2", "rmdir", "sendfile", "setxattr", "splice", "stat", "statfs", "statx", "symlink",
		"symlinkat", "sync",
		"sync_file_range", "syncfs", "tee", "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat",
		"utimes", "vmsplice",
		"write", "writev",
	},
	{ // memory
		"brk", "madvise", "map_shadow_stack", "membarrier", "memfd_create", "memfd_secret", "mincore", "mlock",
		"mlock2", "mlockall",
		"mmap", "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free",
		"pkey_mprotect",
		"remap_file_pages",
	},
	{ // processes, threads and signals; clone is below
		"alarm", "arch_prctl", "capget", "capset", "execve", "execveat", "exit", "exit_group", "fork", "futex",
		"futex_requeue",
		"futex_wait", "futex_waitv", "futex_wake", "get_robust_list", "get_thread_area", "getcpu", "getegid",
		"geteuid", "getgid",
		"getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getresgid", "getresuid", "getrlimit",
		"getrusage",
		"getsid", "gettid", "getuid", "ioprio_get", "ioprio_set", "kill", "landlock_add_rule", "landlock_create_ruleset",
		"landlock_restrict_self", "pause", "pidfd_open", "pidfd_send_signal", "prctl", "prlimit64", "process_mrelease",
		"process_vm_readv", "process_vm_writev", "ptrace", "restart_syscall", "riscv_flush_icache", "rseq", "rt_sigaction",
		"rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
		"rt_tgsigqueueinfo", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
		"sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
		"sched_setparam",
		"sched_setscheduler", "sched_yield", "seccomp", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid",
		"setfsuid", "setgid", "setgroups", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid",
		"setrlimit",
		"setsid", "setuid", "sigaltstack", "tgkill", "tkill", "uname", "vfork", "wait4", "waitid",
	},
	{ // network; socket is below
		"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom",
		"recvmmsg", "recvmsg",
		"sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "socketpair",
	},
	{ // waiting, pipes and messages
		"epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait", "epoll_pwait2", "epoll_wait",
		"epoll_wait_old",
		"eventfd", "eventfd2", "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit",
		"mq_getsetattr",
		"mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd",
		"pipe", "pipe2",
		"poll", "ppoll", "pselect6", "select", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl",
		"shmdt", "shmget",
		"signalfd", "signalfd4", "timerfd_create", "timerfd_gettime", "timerfd_settime",
	},
	{ // time and the rest
		"clock_getres", "clock_gettime", "clock_nanosleep", "getitimer", "getrandom", "gettimeofday", "nanosleep",
		"setitimer",
		"sysinfo", "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "times",
	},
}

// newNamespaces are the flags of clone that create a namespace.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// families are the address families of sockets that programs use. Others bypass the network
// namespace (vsock) or reach rarely used kernel code.
var families = []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// lastFamily is above all address families of Linux.
const lastFamily = 64

// personalities are those of Linux itself, with and without the old layout of the address
// space, and the query of the current one.
var personalities = []uint64{0x0, 0x8, 0x20000, 0x20008, 0xffffffff}

// seccomp returns the filter of every process of an instance. Programs of another
// instruction set than the host's, whose calls have other numbers, are killed by the
// kernel.
func seccomp() *specs.LinuxSeccomp {
	eperm, enosys, eafnosupport := uint(unix.EPERM), uint(unix.ENOSYS), uint(unix.EAFNOSUPPORT)
	s := &specs.LinuxSeccomp{
		DefaultAction: specs.ActErrno, DefaultErrnoRet: &eperm,
		Architectures: []specs.Arch{architecture()},
		Syscalls: []specs.LinuxSyscall{
			// Its flags are in memory, where a filter cannot see them: C libraries fall
			// back to clone.
			{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: &enosys},
			{Names: []string{"clone"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{
				{Index: cloneFlags(), Value: newNamespaces, ValueTwo: 0, Op: specs.OpMaskedEqual},
			}},
		},
	}
	for _, names := range allowed {
		s.Syscalls = append(s.Syscalls, specs.LinuxSyscall{Names: names, Action: specs.ActAllow})
	}
	for _, p := range personalities {
		s.Syscalls = append(s.Syscalls, specs.LinuxSyscall{
			Names: []string{"personality"}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Index: 0, Value: p, Op: specs.OpEqualTo}},
		})
	}
	open := map[uint64]bool{}
	for _, family := range families {
		open[family] = true
	}
	// Each with its own rule, for an error that programs understand.
	for family := range uint64(lastFamily) {
		rule := specs.LinuxSyscall{
			Names: []string{"socket"}, Action: specs.ActErrno, ErrnoRet: &eafnosupport,
			Args: []specs.LinuxSeccompArg{{Index: 0, Value: family, Op: specs.OpEqualTo}},
		}
		if open[family] {
			rule.Action, rule.ErrnoRet = specs.ActAllow, nil
		}
		s.Syscalls = append(s.Syscalls, rule)
	}
	return s
}

// cloneFlags returns the position of clone's flags among its arguments.
func cloneFlags() uint {
	if runtime.GOARCH == "s390x" {
		return 1
	}
	return 0
}

func architecture() specs.Arch {
	switch runtime.GOARCH {
	case "arm64":
		return specs.ArchAARCH64
	case "riscv64":
		return specs.ArchRISCV64
	case "ppc64le":
		return specs.ArchPPC64LE
	case "s390x":
		return specs.ArchS390X
	default:
		return specs.ArchX86_64
	}
}
