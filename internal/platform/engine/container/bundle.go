//go:build linux

package container

import (
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"ingot/internal/platform/engine"
)

// Paths and names inside an instance.
const (
	homeInside    = "/home/vcap"
	controlInside = "/.ingot"
	initInside    = "/.ingot-init"
	hostInside    = "/.host" // files that differ by instance; links in /etc point here

	vcapID  = 2000
	idRange = 65536
)

// Limits of instances whose Spec does not set them.
const (
	defaultMemory = 1 << 30
	defaultDisk   = 1 << 30
	defaultShares = 1024
	defaultPIDs   = 1024
	defaultFiles  = 16384

	pidsOfInit = 16 // threads of ingot-init, in addition to the members' limit

	smallestMemory = 8 << 20 // runc itself needs that much
	smallestDisk   = 2 << 20
)

// withDefaults fills in the limits that a Spec does not set.
func withDefaults(l engine.Limits) engine.Limits {
	set := func(v *int, fallback int) {
		if *v <= 0 {
			*v = fallback
		}
	}
	if l.Memory <= 0 {
		l.Memory = defaultMemory
	}
	if l.Disk <= 0 {
		l.Disk = defaultDisk
	}
	l.Memory, l.Disk = max(l.Memory, smallestMemory), max(l.Disk, smallestDisk)
	set(&l.CPU, defaultShares)
	set(&l.PIDs, defaultPIDs)
	set(&l.Files, defaultFiles)
	l.CPU = max(l.CPU, 2)
	l.Files = int(min(uint64(l.Files), hardFiles())) //nolint:gosec // both are small and positive
	return l
}

// hardFiles returns the largest allowed number of open files.
func hardFiles() uint64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return defaultFiles
	}
	return r.Max
}

// initCapabilities are the only capabilities of ingot-init: to become the members' user, to
// signal their processes, and to change the owner of their pipes.
var initCapabilities = []string{"CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN"}

// bundleOf is the input of an instance's config.json.
type bundleOf struct {
	rootfs   string
	hostname string
	cgroup   string
	ids      []syscall.SysProcIDMap
	limits   engine.Limits
	// countsSwap reports whether the machine can limit memory and swap together.
	countsSwap bool
	unified    map[string]string // files of control groups of version 2, beside the limits
	binds      []specs.Mount
	control    string
	writable   bool // the root file system
}

func bind(source, inside string, options ...string) specs.Mount {
	return specs.Mount{
		Type: "bind", Source: source, Destination: inside,
		Options: append([]string{"bind", "nosuid", "nodev", "private"}, options...),
	}
}

// spec returns the OCI specification of an instance.
func (b bundleOf) spec() *specs.Spec {
	var ids []specs.LinuxIDMapping
	for _, m := range b.ids {
		ids = append(ids, specs.LinuxIDMapping{ContainerID: uint32(m.ContainerID), //nolint:gosec // user ids
			HostID: uint32(m.HostID), Size: uint32(m.Size)})
	}
	pids := int64(b.limits.PIDs + pidsOfInit)
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755",
			"size=64k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance",
			"ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777",
			"size=65536k"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		// So that programs see their own limits: the JVM and Node size their heaps by them.
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev",
			"relatime", "ro"}},
	}
	mounts = append(mounts, b.binds...)
	mounts = append(mounts, bind(b.control, controlInside, "noexec"))
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: b.hostname,
		Root:     &specs.Root{Path: b.rootfs, Readonly: !b.writable},
		Process: &specs.Process{
			Args: []string{initInside, controlInside},
			Cwd:  "/",
			Env:  []string{"PATH=" + pathInside},
			User: specs.User{UID: 0, GID: 0},
			Capabilities: &specs.LinuxCapabilities{
				Bounding: initCapabilities, Effective: initCapabilities, Permitted: initCapabilities,
			},
			NoNewPrivileges: true,
			Rlimits:         rlimits(b.limits),
		},
		Mounts: mounts,
		Linux: &specs.Linux{
			CgroupsPath: b.cgroup,
			UIDMappings: ids,
			GIDMappings: ids,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.NetworkNamespace},
				{Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.UserNamespace},
				{Type: specs.CgroupNamespace},
			},
			Resources: &specs.LinuxResources{
				Unified: b.unified,
				Memory:  b.memory(),
				CPU:     b.cpu(),
				Pids:    &specs.LinuxPids{Limit: &pids},
				Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
			},
			// The instance may use any port of its own network. IPv6 works on loopback
			// only, since the subnet has none.
			Sysctl: map[string]string{
				"net.ipv4.ip_unprivileged_port_start": "0",
				"net.ipv6.conf.default.disable_ipv6":  "1",
			},
			Seccomp: seccomp(),
			MaskedPaths: []string{
				"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
				"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
}

// memory limits memory and swap together, so that swap adds nothing to the limit. Where
// control groups do not count swap (version 1 with swapaccount=0), a swappiness of 0 keeps
// the instance from using it.
func (b bundleOf) memory() *specs.LinuxMemory {
	limit := b.limits.Memory
	if b.countsSwap {
		return &specs.LinuxMemory{Limit: &limit, Swap: &limit}
	}
	never := uint64(0)
	return &specs.LinuxMemory{Limit: &limit, Swappiness: &never}
}

// cpu limits the share of the processors, unless unified has it.
func (b bundleOf) cpu() *specs.LinuxCPU {
	if b.unified != nil {
		return nil
	}
	shares := uint64(b.limits.CPU)
	return &specs.LinuxCPU{Shares: &shares}
}

func rlimits(l engine.Limits) []specs.POSIXRlimit {
	files := uint64(l.Files)
	return []specs.POSIXRlimit{
		{Type: "RLIMIT_NOFILE", Hard: files, Soft: files},
		{Type: "RLIMIT_CORE", Hard: 0, Soft: 0},
	}
}
