package main

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const suite = "bookworm"

// smallPackages are in every image, beside the packages that Debian needs itself.
var smallPackages = []string{"bash", "ca-certificates", "curl", "git", "locales", "procps", "tzdata", "unzip",
	"xz-utils", "zip"}

// stackPackages returns the packages of the stack: also the runtimes that the
// bundled buildpacks use, and what compiles the native parts of their packages.
func stackPackages() []string {
	return slices.Concat(smallPackages, []string{
		"nodejs", "npm",
		"python3", "python3-dev", "python3-pip", "python3-venv",
		"ruby", "ruby-dev", "bundler",
		"php-cli", "php-curl", "php-mbstring", "php-xml", "composer",
		"default-jdk-headless", "tomcat10-common",
		"golang-go",
		"nginx-light",
		"g++", "gcc", "libc6-dev", "make", "pkg-config",
	})
}

// hooks change the root file system after the packages are installed: the user, a
// locale, the release for buildpacks, one place for temporary files (the root is read-only in a Pod), and no
// traces of the installation, some of which differ each time.
var hooks = []string{
	`chroot "$1" groupadd --gid ` + userID + ` ` + userName,
	`chroot "$1" useradd --uid ` + userID + ` --gid ` + userID + ` --create-home --home-dir ` + home +
		` --shell /bin/bash ` + userName,
	`echo "en_US.UTF-8 UTF-8" >"$1/etc/locale.gen" && chroot "$1" locale-gen >/dev/null`,
	`(. "$1/etc/os-release" && printf 'DISTRIB_ID=%s\nDISTRIB_RELEASE=%s\nDISTRIB_CODENAME=%s\nDISTRIB_DESCRIPTION="%s"\n' "${NAME%% *}" "$VERSION_ID" "$VERSION_CODENAME" "$PRETTY_NAME" >"$1/etc/lsb-release")`,
	`rm -rf "$1/var/tmp" && ln -s /tmp "$1/var/tmp"`,
	`rm -rf "$1"/var/cache/* "$1"/var/lib/apt/lists/* "$1"/var/log/* "$1"/run/* "$1"/tmp/*`,
	`rm -f "$1"/var/lib/dpkg/*-old "$1"/etc/*- "$1"/etc/hostname "$1"/etc/resolv.conf && : >"$1/etc/machine-id"`,
}

// debianLayer returns the layer with Debian and the packages, from the cache if it
// has one for this list.
func debianLayer(ctx context.Context, o options, arch string, packages []string, when time.Time) (v1.Layer, error) {
	packages = slices.Clone(packages)
	slices.Sort(packages)
	packages = slices.Compact(packages)
	args := debianArguments(arch, packages, o.mirror)
	file := cacheFile(o.cache, args, when)
	if layer, err := cachedLayer(file); err == nil && !o.refresh {
		return layer, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(o.cache, 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "stack: installing Debian %s for %s and %d packages\n", suite, arch, len(packages))
	if err := store(file, func(to io.Writer) error { return mmdebstrap(ctx, to, args, when) }); err != nil {
		return nil, err
	}
	return cachedLayer(file)
}

// cacheFile returns the name of a cached layer: everything that goes into it decides.
func cacheFile(dir string, args []string, when time.Time) string {
	key := sha256.Sum256([]byte(strings.Join(append(args, when.String()), "\x00")))
	return filepath.Join(dir, hex.EncodeToString(key[:8])+".tar.gz")
}

// debianArguments returns the arguments of mmdebstrap. For an architecture other than the
// machine's it needs qemu-user-static, because packages run programs when they are
// installed.
func debianArguments(arch string, packages []string, mirror string) []string {
	args := []string{
		"--quiet", "--variant=minbase", "--format=tar", "--include=" + strings.Join(packages, ","),
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/info/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright",
		// Packages of Java register manual pages here.
		`--essential-hook=mkdir -p "$1/usr/share/man/man1"`,
	}
	if arch != runtime.GOARCH {
		args = append(args, "--architectures="+arch)
	}
	for _, hook := range hooks {
		args = append(args, "--customize-hook="+hook)
	}

	return append(args, suite, "-",
		"deb "+mirror+" "+suite+" main", "deb "+mirror+" "+suite+"-updates main", "deb "+mirror+"-security "+suite+
			"-security main")
}

// mmdebstrap writes the root file system as a tar archive.
func mmdebstrap(ctx context.Context, to io.Writer, args []string, when time.Time) error {
	cmd := exec.CommandContext(ctx, "mmdebstrap", args...)
	// Its directory is on a disk: /tmp may be in memory.
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", when.Unix()), "TMPDIR=/var/tmp")
	var messages strings.Builder
	cmd.Stdout, cmd.Stderr = to, &messages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s", err, messages.String())
	}
	return nil
}

// store writes a layer, compressed, to a file, and its description beside it.
func store(file string, write func(io.Writer) error) error {
	out, err := os.Create(file + ".new")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	compressed := &counter{to: out, sum: sha256.New()}
	z := gzip.NewWriter(compressed)
	plain := &counter{to: z, sum: sha256.New()}
	if err := write(plain); err != nil {
		return err
	}
	if err := errors.Join(z.Close(), out.Close()); err != nil {
		return err
	}
	text, err := json.Marshal(debian{Sum: compressed.digest(), PlainSum: plain.digest(), Bytes: compressed.n})
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".json", text, 0o644); err != nil { //nolint:gosec // not a secret
		return err
	}
	return os.Rename(out.Name(), file)
}

// counter counts and hashes what is written through it.
type counter struct {
	to  io.Writer
	sum hash.Hash
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.sum.Write(p[:n])
	c.n += int64(n)
	return n, err
}

func (c *counter) digest() v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(c.sum.Sum(nil))}
}

// debian is a cached layer. Its hashes are in a file beside it, because computing
// them takes longer than everything else.
type debian struct {
	file     string
	Sum      v1.Hash
	PlainSum v1.Hash
	Bytes    int64
}

func cachedLayer(file string) (v1.Layer, error) {
	d := debian{file: file}
	text, err := os.ReadFile(file + ".json")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s.json: %w", file, err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() != d.Bytes {
		return nil, fmt.Errorf("%s has %d bytes, want %d: remove it", file, info.Size(), d.Bytes)
	}
	return partial.CompressedToLayer(d)
}

func (d debian) Digest() (v1.Hash, error) { return d.Sum, nil }

//nolint:unparam // of the interface of layers whose hash is known
func (d debian) DiffID() (v1.Hash, error) { return d.PlainSum, nil }

func (d debian) Size() (int64, error)                { return d.Bytes, nil }
func (d debian) MediaType() (types.MediaType, error) { return types.OCILayer, nil }
func (d debian) Compressed() (io.ReadCloser, error)  { return os.Open(d.file) }
