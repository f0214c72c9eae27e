//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// trialTimeout is for the start of a kernel with KVM, which takes a second.
const trialTimeout = 20 * time.Second

// bootTimeout is how long a guest may take until it can be used, by emulation on a busy
// machine.
const bootTimeout = 30 * time.Minute

// A guest is a running machine. Its disk is a layer over that of the image, which stays
// as it is.
type guest struct {
	image   string // directory
	dir     string // of the disk, the console's log and QEMU's messages
	sshAddr string
	webAddr string // of port 8080 of the guest, on this machine
	ended   chan struct{}
	stop    context.CancelFunc

	mu      sync.Mutex
	clients map[string]*ssh.Client // by user
}

// start starts a guest with a new disk in dir. files is a directory that the guest has, read-only, in
// /files, or "".
func start(ctx context.Context, image, dir, files string, kvm bool) (*guest, error) {
	g := &guest{image: image, dir: dir, ended: make(chan struct{}), clients: map[string]*ssh.Client{}}
	base, err := filepath.Abs(filepath.Join(image, diskFile))
	if err != nil {
		return nil, err
	}
	if err := command(ctx, nil, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base,
		filepath.Join(dir, "disk.qcow2")); err != nil {
		return nil, err
	}
	if files != "" {
		// As large as its content, and a tenth more for ext4's own data.
		if err := command(ctx, nil, "sh", "-c", `mke2fs -q -t ext4 -m 0 -O ^has_journal -E root_owner=0:0 -L files -d "$1" "$2" "$(($(du -sm "$1" | cut -f 1) * 11 / 10 + 16))M"`,
			"sh", files, filepath.Join(dir, "files.img")); err != nil {
			return nil, err
		}
	}
	if g.sshAddr, err = freeAddress(); err == nil {
		g.webAddr, err = freeAddress()
	}
	if err != nil {
		return nil, err
	}
	args := append(arguments(image, dir, "root=/dev/vda rw", kvm),
		"-drive", "file="+filepath.Join(dir, "disk.qcow2")+",if=virtio,format=qcow2,cache=unsafe,discard=unmap",
		// Without a way out: only these two ports, from this machine.
		"-nic", "user,model=virtio-net-pci,restrict=on,hostfwd=tcp:"+g.sshAddr+"-:22,hostfwd=tcp:"+g.webAddr+"-:8080")
	if files != "" {
		args = append(args, "-drive", "file="+filepath.Join(dir, "files.img")+",if=virtio,format=raw,readonly=on")
	}
	log, err := os.Create(filepath.Join(dir, "qemu.log"))
	if err != nil {
		return nil, err
	}
	ctx, g.stop = context.WithCancel(ctx)
	go func() {
		defer close(g.ended)
		defer log.Close()
		fmt.Fprintln(log, run(ctx, log, args))
	}()
	return g, nil
}

// arguments returns QEMU's arguments for a guest without disks and network.
func arguments(image, dir, kernel string, kvm bool) []string {
	accel := []string{"-accel", "kvm", "-cpu", "host"}
	if !kvm {
		// Each character on the console and each level of page tables takes time here, and a guest that waits
		// for a processor of this machine does not hang.
		accel = []string{"-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max,la57=off"}
		kernel += " quiet systemd.show_status=false mitigations=off nowatchdog rcupdate.rcu_cpu_stall_suppress=1"
	}
	return append(accel, "-smp", "2", "-m", "3072", "-display", "none", "-vga", "none", "-monitor", "none",
		"-device", "virtio-rng-pci", "-serial", "file:"+filepath.Join(dir, "console.log"),
		"-kernel", filepath.Join(image, kernelFile), "-initrd", filepath.Join(image, initrdFile),
		"-append", kernel+" console=ttyS0 panic=-1")
}

// run runs QEMU until it ends or the context does. It ends with this process, too.
func run(ctx context.Context, out io.Writer, args []string) error {
	// The kernel sends the signal when the thread ends that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd.Run()
}

// freeAddress returns an address of this machine that nothing listens on.
func freeAddress() (string, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// trial starts the image's kernel with KVM and returns an error if that does not work, as on
// machines that are virtual themselves. The kernel stops as soon as the first program has ended.
func trial(ctx context.Context, image string) error {
	dir, err := os.MkdirTemp("", "ingot-vm-trial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	var out bytes.Buffer
	err = run(ctx, &out, append(arguments(image, dir, "rdinit=/bin/true", true), "-nic", "none", "-no-reboot"))
	console, _ := os.ReadFile(filepath.Join(dir, "console.log"))
	if err == nil && bytes.Contains(console, []byte("Kernel panic - not syncing: Attempted to kill init")) {
		return nil
	}
	if reason, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n"); reason != "" {
		return errors.New(reason)
	}
	return fmt.Errorf("the kernel did not start a program within %s", trialTimeout)
}

// await waits until the guest has started.
func (g *guest) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	// "degraded" is a system where a unit has failed: the tests look at those they need.
	_, err := g.run(ctx, "root", `s=$(systemctl is-system-running --wait) || [ "$s" = degraded ]`)
	return err
}

// client returns a connection, also after a restart of the guest.
func (g *guest) client(ctx context.Context, user string) (*ssh.Client, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.clients[user]; c != nil {
		if _, _, err := c.SendRequest("keepalive@openssh.com", true, nil); err == nil {
			return c, nil
		}
		_ = c.Close() // it is lost
		delete(g.clients, user)
	}
	config, err := g.config(user)
	if err != nil {
		return nil, err
	}
	for {
		c, err := dial(ctx, g.sshAddr, config)
		if err == nil {
			g.clients[user] = c
			return c, nil
		}
		select {
		case <-g.ended:
			log, _ := os.ReadFile(filepath.Join(g.dir, "qemu.log"))
			return nil, fmt.Errorf("the guest has ended: %s", log)
		case <-ctx.Done():
			return nil, fmt.Errorf("no connection to the guest: %w; its console is in %s", err, g.dir)
		case <-time.After(time.Second):
		}
	}
}

func (g *guest) config(user string) (*ssh.ClientConfig, error) {
	text, err := os.ReadFile(filepath.Join(g.image, keyFile))
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, err
	}
	if text, err = os.ReadFile(filepath.Join(g.image, hostKeyFile)); err != nil {
		return nil, err
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil, err
	}
	return &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(host),
		HostKeyAlgorithms: []string{host.Type()}, Timeout: 30 * time.Second,
	}, nil
}

// dial connects. QEMU accepts connections before the guest does, so the whole handshake has
// a timeout.
func dial(ctx context.Context, address string, config *ssh.ClientConfig) (*ssh.Client, error) {
	conn, err := (&net.Dialer{Timeout: config.Timeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(config.Timeout)); err != nil {
		conn.Close()
		return nil, err
	}
	c, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), conn.SetDeadline(time.Time{})
}

// run runs a shell script in the guest and returns its output. The error has it, too.
func (g *guest) run(ctx context.Context, user, script string) (string, error) {
	var out bytes.Buffer
	err := g.stream(ctx, user, script, nil, &out)
	text := strings.TrimSpace(out.String())
	if err != nil {
		return text, fmt.Errorf("%s: %w\n%s", script, err, text)
	}
	return text, nil
}

// stream runs a shell script with the given input and output.
func (g *guest) stream(ctx context.Context, user, script string, in io.Reader, out io.Writer) error {
	c, err := g.client(ctx, user)
	if err != nil {
		return err
	}
	s, err := c.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })() // ends Run
	both := &lockedWriter{to: out}
	s.Stdin, s.Stdout, s.Stderr = in, both, both
	err = s.Run("set -euo pipefail\n" + script)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// close stops the guest at once.
func (g *guest) close() {
	g.stop()
	if g.ended != nil {
		<-g.ended
	}
}

// lockedWriter lets the two outputs of a command share one.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
