//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// Files of an image's directory. All are there, or the directory does not exist.
const (
	diskFile    = "disk.img"
	kernelFile  = "vmlinuz"
	initrdFile  = "initrd.img"
	keyFile     = "key"      // logs in as root and as dev
	hostKeyFile = "host.pub" // the guest's
)

// image returns the directory of the image in the cache, and makes it if there is none.
func image(ctx context.Context, cache, mirror string) (string, error) {
	dir := filepath.Join(cache, imageName(mirror))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return dir, err
	}
	if os.Getuid() != 0 {
		return "", errors.New(cache + " does not have the image yet, and making it needs root: run 'sudo make vm-image'")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	// Another process may be making the same image.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	work := dir + ".new"
	if err := os.RemoveAll(work); err != nil { // of a process that was killed
		return "", err
	}
	if err := os.Mkdir(work, 0o755); err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	fmt.Fprintf(os.Stderr, "vm: making an image of Debian %s with %d packages (some minutes)\n", suite, len(packages))
	if err := makeImage(ctx, work, mirror); err != nil {
		return "", err
	}
	return dir, os.Rename(work, dir)
}

// makeImage installs Debian and writes the files of an image.
func makeImage(ctx context.Context, dir, mirror string) error {
	if err := writeKey(filepath.Join(dir, keyFile)); err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	defer os.RemoveAll(root)
	script := filepath.Join(dir, "setup")
	if err := os.WriteFile(script, []byte(setup), 0o600); err != nil {
		return err
	}
	args := append([]string{"--quiet", "--mode=root", "--variant=minbase", "--include=" + strings.Join(packages, ","),
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		"--dpkgopt=path-exclude=/usr/share/doc/*", `--customize-hook=sh "$SETUP" "$1"`, suite, root}, sources(mirror)...)
	env := []string{"KEY=" + filepath.Join(dir, keyFile+".pub"), "SETUP=" + script}
	if err := command(ctx, env, "mmdebstrap", args...); err != nil {
		return err
	}
	for pattern, name := range map[string]string{
		"boot/vmlinuz-*": kernelFile, "boot/initrd.img-*": initrdFile, "etc/ssh/ssh_host_ed25519_key.pub": hostKeyFile,
	} {
		found, _ := filepath.Glob(filepath.Join(root, pattern))
		if len(found) != 1 {
			return fmt.Errorf("the new system has %d files %s instead of one", len(found), pattern)
		}
		content, err := os.ReadFile(found[0])
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	disk := filepath.Join(dir, diskFile)
	return command(ctx, nil, "mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", root, disk, diskSize)
}

// writeKey writes a new key, and its public half to a file beside it.
func writeKey(file string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return err
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	return os.WriteFile(file+".pub", ssh.MarshalAuthorizedKey(line), 0o644)
}

// command runs a program. Its output is part of the error.
func command(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	// Programs of administrators are not in the PATH of others. TMPDIR is on a disk: /tmp may be in memory.
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "TMPDIR=/var/tmp")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, &out)
	}
	return nil
}
