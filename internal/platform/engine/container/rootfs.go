//go:build linux

package container

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"ingot/internal/platform/engine/container/network"
)

const pathInside = "/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin"

// fromEtc are the files of the host's /etc that programs in /usr need: alternatives,
// library paths, certificates. None is secret, and only world-readable files are copied.
var fromEtc = []string{
	"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "os-release",
	"debian_version", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted", "crypto-policies",
	"java-*", "java", "maven", "python3*", "php", "nodejs", "fonts", "terminfo", "services", "protocols",
	"mime.types", "inputrc", "locale.alias", "ImageMagick-*", "nginx/mime.types", "nginx/*_params", "nginx/fastcgi.conf",
}

const largestFromEtc = 8 << 20 // per file; a bundle of certificates has 0.2 MB

// etcFiles are files of /etc that do not come from the host.
var etcFiles = map[string]string{
	"passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n" +
		"vcap:x:2000:2000:vcap:/home/vcap:/bin/bash\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"group":         "root:x:0:\ntty:x:5:\nvcap:x:2000:\nnogroup:x:65534:\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	"shells":        "/bin/sh\n/bin/bash\n",
	"gai.conf":      "",
	"bash.bashrc":   `[ -z "$PS1" ] || PS1='\u@\h:\w\$ '` + "\n",
}

// buildRootfs creates the root file system that all instances share, or updates it: running
// instances always see a complete one. programs are programs of the host to copy.
// hostFiles.refresh adds the rest of the host's files.
func buildRootfs(root string, programs map[string]string) error {
	for _, dir := range []string{
		"", "etc", "usr", "proc", "dev", "sys/fs/cgroup", "tmp", "var/tmp", "var/lib", "var/log", "home/vcap", "root",
		"run", "opt",
		"srv", "mnt", "media", controlInside, hostInside,
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := link("../run", filepath.Join(root, "var", "run")); err != nil {
		return err
	}
	for inside, program := range programs {
		if program == "" {
			continue
		}
		if err := replace(filepath.Join(root, inside), program, 0o755); err != nil {
			return fmt.Errorf("copying %s: %w", program, err)
		}
	}
	for name, text := range etcFiles {
		if err := write(filepath.Join(root, "etc", name), strings.NewReader(text), 0o644); err != nil {
			return err
		}
	}
	release, err := os.ReadFile("/etc/lsb-release")
	if err != nil {
		other, _ := os.ReadFile("/etc/os-release")
		release = []byte(lsbRelease(string(other)))
	}
	if err := write(filepath.Join(root, "etc", "lsb-release"), bytes.NewReader(release), 0o644); err != nil {
		return err
	}
	for _, name := range []string{"hosts", "hostname", "resolv.conf"} {
		if err := link(path.Join(hostInside, name), filepath.Join(root, "etc", name)); err != nil {
			return err
		}
	}
	if err := link(path.Join(homeInside, BindingsTarget), filepath.Join(root, BindingsInside)); err != nil {
		return err
	}
	if err := link("/proc/mounts", filepath.Join(root, "etc", "mtab")); err != nil {
		return err
	}
	return nil
}

// lsbRelease returns the content of /etc/lsb-release, which buildpacks read, from that of
// /etc/os-release. Debian has only the latter.
func lsbRelease(osRelease string) string {
	values := map[string]string{}
	for line := range strings.Lines(osRelease) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[name] = strings.Trim(value, `"'`)
		}
	}
	id, _, _ := strings.Cut(values["NAME"], " ")
	return fmt.Sprintf("DISTRIB_ID=%s\nDISTRIB_RELEASE=%s\nDISTRIB_CODENAME=%s\nDISTRIB_DESCRIPTION=%q\n",
		id, values["VERSION_ID"], values["VERSION_CODENAME"], values["PRETTY_NAME"])
}

// hostFiles are the host's files in instances. They change while the server runs:
// installing a language needs no restart of the server. So every instance starts with the
// current files; copied files change in running ones too.
type hostFiles struct {
	root string // of instances
	etc  string // of the host

	asked  atomic.Uint64
	mu     sync.Mutex
	done   uint64 // number of finished calls of refresh
	mounts []specs.Mount
	looked time.Time        // when the mounts were found
	seen   map[string]stamp // the host's files as they were copied
}

// stamp identifies a version of a file or directory. Changing a link changes its directory.
type stamp struct {
	mode fs.FileMode
	size int64
	time time.Time
}

func stampOf(name string) stamp {
	info, err := os.Lstat(name)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Mode(), info.Size(), info.ModTime()}
}

// tick is more than the resolution of file times. A file that changed within it may change
// again without a new time.
const tick = time.Second

// unchanged reports whether the host's files are those that were copied.
func (h *hostFiles) unchanged() bool {
	for name, old := range h.seen {
		if stampOf(name) != old {
			return false
		}
	}
	return len(h.seen) > 0
}

// refresh updates the root file system, and returns the host's directories to be mounted
// into it. Concurrent calls share their work, but none gets a result from before it began.
// With an error the mounts are those of the last call.
func (h *hostFiles) refresh() ([]specs.Mount, error) {
	ticket := h.asked.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done >= ticket {
		return h.mounts, nil
	}
	upTo := h.asked.Load()
	if err := h.copyEtc(); err != nil {
		return h.mounts, err
	}
	if h.mounts == nil || time.Since(h.looked) >= mountsKept {
		mounts, err := hostMounts(h.root)
		if err != nil {
			return h.mounts, err
		}
		h.mounts, h.looked = mounts, time.Now()
	}
	h.done = upTo
	return h.mounts, nil
}

// mountsKept is how long the mounts of the host's programs are used before they are looked for again. Finding them
// reads all mounts of the machine, and each instance has some: a start would take longer with every instance.
const mountsKept = 5 * time.Second

// copyEtc copies the files in fromEtc, and removes those that the host no longer has.
func (h *hostFiles) copyEtc() error {
	if h.unchanged() {
		return nil
	}
	h.seen = nil
	began, seen, wanted := time.Now(), map[string]stamp{}, map[string]bool{}
	for _, pattern := range fromEtc {
		parent := filepath.Dir(filepath.Join(h.etc, pattern))
		seen[parent] = stampOf(parent)
		names, err := filepath.Glob(filepath.Join(h.etc, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := copyTree(name, h.inside(name), wanted, seen); err != nil {
				return err
			}
		}
	}
	for _, pattern := range fromEtc {
		names, err := filepath.Glob(filepath.Join(h.root, "etc", pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := removeOthers(name, wanted); err != nil {
				return err
			}
		}
	}
	for _, s := range seen {
		if s.time.After(began.Add(-tick)) {
			return nil
		}
	}
	h.seen = seen
	return nil
}

func (h *hostFiles) inside(name string) string {
	return filepath.Join(h.root, "etc", strings.TrimPrefix(name, h.etc))
}

// removeOthers removes files that are not wanted.
func removeOthers(path string, wanted map[string]bool) error {
	return filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || wanted[p] {
			return err
		}
		if err := os.RemoveAll(p); err != nil { //nolint:gosec // only the engine writes there
			return err
		}
		if e.IsDir() {
			return filepath.SkipDir
		}
		return nil
	})
}

// hostMounts returns the mounts of the host's programs: /usr, and the directories beside it
// on systems without a merged /usr.
func hostMounts(root string) ([]specs.Mount, error) {
	below, err := mountPoints()
	if err != nil {
		return nil, err
	}
	var mounts []specs.Mount
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		info, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		at := filepath.Join(root, dir)
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(dir)
			if err == nil {
				err = link(to, at)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			return nil, err
		}
		m := bind(dir, dir, "ro")
		for _, p := range below {
			if strings.HasPrefix(p, dir+"/") {
				// With everything mounted below, because a user namespace may not uncover
				// what is under a mount.
				m.Options[0] = "rbind"
				m.Options = append(m.Options, "rro")
				break
			}
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// link creates a symbolic link, replacing another one if needed.
func link(to, at string) error {
	// The host has hundreds, of certificates: most are new, or stay as they are.
	if err := os.Symlink(to, at); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	if now, err := os.Readlink(at); err == nil && now == to {
		return nil
	}
	tmp := at + ".new"
	_ = os.Remove(tmp)
	if err := os.Symlink(to, tmp); err != nil {
		return err
	}
	if info, err := os.Lstat(at); err == nil && info.IsDir() {
		if err := os.RemoveAll(at); err != nil {
			return err
		}
	}
	return os.Rename(tmp, at)
}

// replace copies a file of the host, replacing an older one if needed.
func replace(at, from string, mode fs.FileMode) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return write(at, f, mode)
}

// write replaces a file atomically, unless it is the same.
func write(at string, r io.Reader, mode fs.FileMode) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(at); err == nil && bytes.Equal(old, b) {
		return nil
	}
	tmp := at + ".new"
	err = os.WriteFile(tmp, b, mode)
	if err == nil {
		err = os.Chmod(tmp, mode) // whatever the umask
	}
	if err == nil {
		err = os.Rename(tmp, at)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}

// copyTree copies world-readable files, and records the copies in copied and the originals
// in seen. Links stay links: they point into /usr, or nowhere.
func copyTree(from, to string, copied map[string]bool, seen map[string]stamp) error {
	return filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // not readable, or just removed
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // the same
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			seen[p] = stamp{info.Mode(), info.Size(), info.ModTime()}
		}
		at := filepath.Join(to, strings.TrimPrefix(p, from))
		switch mode := info.Mode(); {
		case mode.IsDir():
			if mode.Perm()&0o005 != 0o005 {
				return filepath.SkipDir
			}
			err = makeDir(at)
		case mode&fs.ModeSymlink != 0:
			var target string
			if target, err = os.Readlink(p); err == nil {
				err = os.MkdirAll(filepath.Dir(at), 0o755)
			}
			if err == nil {
				err = link(target, at)
			}
		case mode.IsRegular() && mode.Perm()&0o004 != 0 && info.Size() <= largestFromEtc:
			err = copyFile(p, at, info)
		default:
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		copied[at] = true
		return nil
	})
}

// makeDir creates a directory, replacing something else if needed.
func makeDir(at string) error {
	if info, err := os.Lstat(at); err == nil && !info.IsDir() {
		if err := os.Remove(at); err != nil {
			return err
		}
	}
	return os.MkdirAll(at, 0o755)
}

// copyFile copies a file unless its copy is equal. The copy keeps the modification time:
// that of a package's file is the package's, however recently it was installed.
func copyFile(from, at string, info fs.FileInfo) error {
	mode := info.Mode().Perm() & 0o755
	old, err := os.Lstat(at)
	if err == nil && old.Mode() == mode && old.Size() == info.Size() && old.ModTime().Equal(info.ModTime()) {
		return nil
	}
	if err == nil && !old.Mode().IsRegular() {
		if err := os.RemoveAll(at); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := replace(at, from, mode); err != nil {
		return err
	}
	return errors.Join(os.Chmod(at, mode), os.Chtimes(at, time.Time{}, info.ModTime()))
}

// mostServers is the number of name servers that a resolver uses.
const mostServers = 3

// UseResolver makes instances that are started from now on use a name server on the host
// before others. If it is down they use those of the machine.
func (e *Engine) UseResolver(server netip.Addr) {
	var out strings.Builder
	fmt.Fprintf(&out, "nameserver %s\n", server)
	count := 1
	for line := range strings.Lines(network.ResolvConf(e.options.Egress)) {
		if strings.HasPrefix(line, "nameserver ") {
			if count++; count > mostServers {
				continue
			}
		}
		out.WriteString(line)
	}
	text := out.String()
	e.resolv.Store(&text)
}
