package support

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"ingot/internal/base/mounts"
)

// Machine returns the parts about the machine and the data directory.
func Machine(dataDir string) []Part {
	return []Part{
		{Name: "system/kernel.txt", Collect: func(context.Context) ([]byte, error) { return kernel() }},
		{Name: "system/os-release", Collect: files("/etc/os-release")},
		{Name: "system/memory.txt", Collect: files("/proc/meminfo", "/proc/loadavg", "/proc/uptime",
			"/proc/pressure/memory", "/proc/pressure/cpu", "/proc/pressure/io")},
		{Name: "system/cgroup.txt", Collect: func(context.Context) ([]byte, error) { return groups() }},
		{Name: "system/mounts.txt", Collect: func(context.Context) ([]byte, error) { return mountTable() }},
		{Name: "system/disks.txt", Collect: func(context.Context) ([]byte, error) {
			return disks(dataDir, "/", os.TempDir(), "/var", "/run")
		}},
		{Name: "system/firewall.txt", Collect: func(context.Context) ([]byte, error) { return firewall() }},
		{Name: "data-directory.txt", Collect: func(ctx context.Context) ([]byte, error) { return sizes(ctx, dataDir) }},
		{Name: "engine.json", Collect: files(filepath.Join(dataDir, "engine.json"))},
	}
}

// files returns a function that reads files, each below its name if there are several.
func files(paths ...string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		var b bytes.Buffer
		var failed []error
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				failed = append(failed, err)
				continue
			}
			if len(paths) > 1 {
				fmt.Fprintf(&b, "%s:\n", path)
			}
			b.Write(text)
		}
		return b.Bytes(), errors.Join(failed...)
	}
}

func kernel() ([]byte, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s %s %s %s\n%s %s\n", unix.ByteSliceToString(u.Sysname[:]),
		unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:]), unix.ByteSliceToString(u.Machine[:]),
		time.Now().Format(time.RFC3339), time.Now().Location()), nil
}

// groups says which version of control groups the machine has, and with which controllers.
func groups() ([]byte, error) {
	text := "version 1 or none\n"
	controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err == nil {
		text = "version 2, controllers: " + string(controllers)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	return append([]byte(text+"groups of this command:\n"), own...), err
}

// mountTable lists mounts without the options of their file systems, which can have passwords.
func mountTable() ([]byte, error) {
	table, err := mounts.Table()
	var b bytes.Buffer
	for _, m := range table {
		fmt.Fprintf(&b, "%-12s %s\n", m.Kind, m.Point)
	}
	return b.Bytes(), err
}

// disks shows the space of the file systems of directories.
func disks(dirs ...string) ([]byte, error) {
	var b bytes.Buffer
	var failed []error
	fmt.Fprintf(&b, "%12s %12s %12s %12s\n", "MiB", "free MiB", "inodes", "free inodes")
	for _, dir := range dirs {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", dir, err))
			continue
		}
		size := uint64(s.Bsize) //nolint:gosec // of a block
		fmt.Fprintf(&b, "%12d %12d %12d %12d %s\n", s.Blocks*size>>20, s.Bavail*size>>20, s.Files, s.Ffree, dir)
	}
	return b.Bytes(), errors.Join(failed...)
}

// firewall lists the tables and chains, not their rules: these have addresses of apps.
func firewall() ([]byte, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, err
	}
	chains, err := c.ListChains()
	if err != nil {
		return nil, fmt.Errorf("the firewall's tables cannot be listed, which needs root: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d chains\n", len(chains))
	for _, chain := range chains {
		hook := ""
		if chain.Hooknum != nil && chain.Priority != nil {
			hook = fmt.Sprintf("hook %d, priority %d", *chain.Hooknum, *chain.Priority)
		}
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("family %d %s %s %s", chain.Table.Family, chain.Table.Name, chain.Name,
			hook)))
	}
	return b.Bytes(), nil
}

// sizes lists the entries of the data directory with the space that they take.
func sizes(ctx context.Context, dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	type entry struct {
		name         string
		bytes, files int64
	}
	var all []entry
	for _, e := range entries {
		one := entry{name: e.Name()}
		if e.IsDir() {
			one.name += "/"
		}
		walk := func(_ string, d fs.DirEntry, failed error) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if failed != nil || d.IsDir() {
				return nil //nolint:nilerr // it was removed meanwhile, or is an instance's
			}
			if info, err := d.Info(); err == nil {
				one.files++
				if s, ok := info.Sys().(*syscall.Stat_t); ok {
					one.bytes += s.Blocks * 512
				}
			}
			return nil
		}
		err = errors.Join(err, filepath.WalkDir(filepath.Join(dir, e.Name()), walk))
		all = append(all, one)
		if ctx.Err() != nil {
			break
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(b.bytes, a.bytes) })
	var b bytes.Buffer
	fmt.Fprintf(&b, "%12s %9s\n", "KiB", "files")
	for _, e := range all {
		fmt.Fprintf(&b, "%12d %9d %s\n", e.bytes>>10, e.files, e.name)
	}
	return b.Bytes(), err
}
