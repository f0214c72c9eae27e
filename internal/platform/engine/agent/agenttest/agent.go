//go:build linux

package agenttest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/agentproto"
)

// InstallKey is the key of the installation in tests.
var InstallKey = []byte("the key of an installation for tests")

// Address returns an address of this machine that probably nothing uses.
func Address() string {
	return fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(64), rand.IntN(256), 1+rand.IntN(254))
}

// Port returns the address of an agent's protocol.
func Port(ip string) string { return net.JoinHostPort(ip, strconv.Itoa(agentproto.Port)) }

// Key returns the key that the agent of an instance must have.
func Key(id string) ed25519.PublicKey { return agent.PublicKey(agent.Seed(InstallKey, id)) }

// Command returns the command of an agent: the first process of an instance.
func Command(program, id, ip, home string, ca []byte, user, group int) *exec.Cmd {
	cmd := exec.Command(program, "--agent", "--home", home)
	cmd.Dir = "/"
	for name, value := range agent.Environment(id, agent.Seed(InstallKey, id), ca) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, agentproto.EnvIP+"="+ip, "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 && user != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(group)}
	}
	return cmd
}

// AwaitListening waits until something listens on an address.
func AwaitListening(ctx context.Context, address string) error {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		if !background.Sleep(ctx, 5*time.Millisecond) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// killAll kills every process that has a directory in its command, its environment or as
// its working directory, and waits until there is none. In a Pod the kernel does this.
func killAll(ctx context.Context, dir string) error {
	for {
		table, err := local.Processes()
		if err != nil {
			return err
		}
		left := 0
		for pid, s := range table {
			if pid != os.Getpid() && !s.Zombie() && mentions(pid, dir) {
				left++
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		if left == 0 {
			return nil
		}
		if !background.Sleep(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// mentions reports whether a process belongs to a directory.
func mentions(pid int, dir string) bool {
	proc := "/proc/" + strconv.Itoa(pid)
	for _, name := range []string{"cmdline", "environ"} {
		if b, err := os.ReadFile(filepath.Join(proc, name)); err == nil && bytes.Contains(b, []byte(dir+"/")) {
			return true
		}
	}
	cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
	return err == nil && strings.HasPrefix(cwd+"/", dir+"/")
}

// Leftovers lists the processes of a directory, after they had a little time to end.
func Leftovers(dir string) []string {
	var left []string
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left = nil
		table, err := local.Processes()
		if err != nil {
			return []string{err.Error()}
		}
		for pid, s := range table {
			zombie := s.Zombie() && s.Parent == os.Getpid()
			if pid != os.Getpid() && (zombie || mentions(pid, dir)) {
				left = append(left, fmt.Sprintf("process %d (%c)", pid, s.State))
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}
