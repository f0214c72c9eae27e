//go:build linux

package container

import (
	"runtime"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// denied are the system calls that no app has a use for, and that are a way to
// the kernel's less trodden parts. Most need capabilities that members lack
// anyway; this is the second lock. They answer EPERM.
var denied = []string{
	// Mounts and namespaces.
	"mount", "umount", "umount2", "pivot_root", "chroot", "unshare", "setns", "mount_setattr", "open_tree",
	"open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "quotactl", "quotactl_fd",
	// Files by handle lead around directories.
	"open_by_handle_at", "name_to_handle_at",
	// The kernel itself.
	"init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms", "query_module",
	"kexec_load", "kexec_file_load", "reboot", "bpf", "perf_event_open", "syslog", "_sysctl", "sysfs",
	"lookup_dcookie", "nfsservctl", "vm86", "vm86old", "iopl", "ioperm", "modify_ldt",
	// Keys are not kept apart by namespaces.
	"keyctl", "add_key", "request_key",
	// Much code, many holes.
	"userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "fanotify_init",
	// The machine as a whole.
	"swapon", "swapoff", "acct", "vhangup", "sethostname", "setdomainname", "settimeofday", "stime",
	"clock_settime", "clock_settime64", "clock_adjtime", "clock_adjtime64", "adjtimex",
	// Where memory lies, also that of others.
	"mbind", "set_mempolicy", "migrate_pages", "move_pages", "kcmp",
}

// newNamespaces are the flags of clone that make a namespace.
var newNamespaces = []uint64{
	unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC,
	unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET,
}

// closedFamilies are the address families of sockets that reach past the
// network namespace (vsock) or into little-used kernel code.
var closedFamilies = []uint64{unix.AF_VSOCK, unix.AF_ALG, unix.AF_RDS, unix.AF_TIPC, unix.AF_KCM, unix.AF_SMC}

// seccomp is the filter of every process of an instance. Programs of another
// instruction set than the host's, whose calls have other numbers, are ended
// by the kernel.
func seccomp() *specs.LinuxSeccomp {
	eperm, enosys, eafnosupport := uint(unix.EPERM), uint(unix.ENOSYS), uint(unix.EAFNOSUPPORT)
	s := &specs.LinuxSeccomp{
		DefaultAction: specs.ActAllow,
		Architectures: []specs.Arch{architecture()},
		Syscalls: []specs.LinuxSyscall{
			{Names: denied, Action: specs.ActErrno, ErrnoRet: &eperm},
			// Its flags are in memory, out of sight: C libraries then use clone.
			{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: &enosys},
		},
	}
	for _, flag := range newNamespaces {
		s.Syscalls = append(s.Syscalls, specs.LinuxSyscall{
			Names: []string{"clone"}, Action: specs.ActErrno, ErrnoRet: &eperm,
			Args: []specs.LinuxSeccompArg{{Index: 0, Value: flag, ValueTwo: flag, Op: specs.OpMaskedEqual}},
		})
	}
	for _, family := range closedFamilies {
		s.Syscalls = append(s.Syscalls, specs.LinuxSyscall{
			Names: []string{"socket"}, Action: specs.ActErrno, ErrnoRet: &eafnosupport,
			Args: []specs.LinuxSeccompArg{{Index: 0, Value: family, Op: specs.OpEqualTo}},
		})
	}
	return s
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
