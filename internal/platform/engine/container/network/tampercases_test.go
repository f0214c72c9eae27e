//go:build linux

package network

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
)

// eventually waits for a condition.
func eventually(what string, is func() bool) error {
	for wait := time.Millisecond; !is(); wait *= 2 {
		if wait > 20*time.Second {
			return errors.New("timed out: " + what)
		}
		<-time.After(wait)
	}
	return nil
}

// cannotRestore takes the name of the table away, so that it cannot be written.
func cannotRestore() error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	var text bytes.Buffer
	n, services, err := openCase(dir, &text)
	if err != nil {
		return err
	}
	instance, err := newInstance(n, "a", services.may)
	if err == nil {
		err = instance.begin(services.targets())
	}
	if err != nil {
		return err
	}
	if err := n.Unprotected(); err != nil {
		return err
	}
	other, err := dialKernel()
	if err != nil {
		return err
	}
	err = eventually("the table is taken", func() bool {
		other.FlushRuleset()
		return other.flush() == nil && other.createOwned(&nftables.Table{Family: nftables.TableFamilyINet,
			Name: n.table}) == nil
	})
	if err != nil {
		return err
	}
	if err := eventually("instances are exposed", func() bool { return n.Unprotected() != nil }); err != nil {
		return err
	}
	if a, err := admitProcess(n, os.Getpid(), "b"); err == nil {
		return fmt.Errorf("an instance was admitted as %v", a)
	}
	if err := other.CloseLasting(); err != nil {
		return err
	}
	if err := eventually("the firewall is restored", func() bool { return n.Unprotected() == nil }); err != nil {
		return err
	}
	result, err := instance.end()
	fmt.Fprintf(os.Stdout, "%+v\n%s", result, &text)
	if n.Restored() == 0 || !strings.Contains(text.String(), "no instance starts") {
		err = errors.Join(err, fmt.Errorf("restored %d times", n.Restored()))
	}
	return errors.Join(err, services.isolated(result, false))
}

// tooManyChanges changes the firewall while the notifications are not read.
func tooManyChanges() error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	var text bytes.Buffer
	n, _, err := openCase(dir, &text)
	if err != nil {
		return err
	}
	before, err := n.summary()
	if err != nil {
		return err
	}
	if err := n.watch.close(); err != nil {
		return err
	}
	if n.watch, err = watchRules(n); err != nil {
		return err
	}
	for want, command := range []string{"true", "nft flush ruleset", "true", "nft insert rule inet " + n.table +
		" input accept"} {
		if out, err := exec.Command("bash", "-c", command).CombinedOutput(); err != nil { //nolint:noctx // ends soon
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
		n.watch.check()
		after, err := n.summary()
		if got := n.watch.restored.Load(); err != nil || got != int64(want+1)/2 || !slices.Equal(before, after) {
			return fmt.Errorf("after %s it was restored %d times, want %d; the tables have %v, want %v (%w)", command, got,
				(want+1)/2, after, before, err)
		}
	}
	fmt.Fprintf(os.Stdout, "%s", &text)
	return nil
}

// serverOf has the directory of a server, the process of its instance, and whether an earlier
// server has admitted it.
const serverOf = "INGOT_TEST_FIREWALL_SERVER"

type served struct {
	Dir     string
	PID     int
	Adopt   bool
	Address netip.Addr // of the instance
	Gateway netip.Addr
}

const allowedPort = 7000

// runServer is a server until its input ends.
func runServer() error {
	var s served
	if err := json.Unmarshal([]byte(os.Getenv(serverOf)), &s); err != nil {
		return err
	}
	n, err := newCase(s.Dir, os.Stderr)
	if err != nil {
		return err
	}
	s.Gateway = n.Gateway()
	may := netip.AddrPortFrom(s.Gateway, allowedPort)
	if s.Adopt {
		n.Adopt(s.Address, "a", Access{Reach: []netip.AddrPort{may}})
	}
	if err := n.Protect(); err != nil {
		return err
	}
	if !s.Adopt {
		if s.Address, err = admitProcess(n, s.PID, "a", may); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if s.Adopt && n.watch.restored.Load() != 1 {
		return fmt.Errorf("restored %d times, want once at the start", n.watch.restored.Load())
	}
	return errors.Join(n.Leave(), n.Remove())
}

func (s *served) start() (cmd *exec.Cmd, in io.Closer, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.Command("/proc/self/exe") //nolint:noctx // ends with its input
	cmd.Env = append(os.Environ(), caseOf+"=server", serverOf+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err = cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = json.NewDecoder(bufio.NewReader(out)).Decode(s)
	}
	return cmd, in, err
}

func ruleset() string {
	out, err := exec.Command("nft", "list", "tables").CombinedOutput() //nolint:noctx // ends soon
	return fmt.Sprint(string(out), err)
}

// noServer kills the server, removes all rules, and starts another.
func noServer() error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	instance, err := startInstance()
	if err != nil {
		return err
	}
	s := &served{Dir: dir, PID: instance.cmd.Process.Pid}
	first, _, err := s.start()
	if err != nil {
		return err
	}
	services, err := openServices(s.Gateway, allowedPort)
	if err == nil {
		err = instance.begin(services.targets())
	}
	if err == nil {
		err = first.Process.Kill()
	}
	if err != nil {
		return err
	}
	_ = first.Wait() // killed
	for range 5 {
		if out, err := exec.Command("nft", "flush", "ruleset").CombinedOutput(); err != nil { //nolint:noctx // ends soon
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	if got := ruleset(); strings.Count(got, copySuffix) != 2 {
		return fmt.Errorf("the tables are %s, want two copies", got)
	}
	s.Adopt = true
	second, in, err := s.start()
	if err != nil {
		return err
	}
	if got := ruleset(); strings.Count(got, copySuffix) != 2 || strings.Count(got, "\n") != 4 {
		return fmt.Errorf("the tables are %s, want two and their copies", got)
	}
	result, err := instance.end()
	fmt.Fprintf(os.Stdout, "%+v\n", result)
	err = errors.Join(err, services.isolated(result, false), in.Close(), second.Wait())
	if got := ruleset(); strings.Contains(got, "ingot") {
		err = errors.Join(err, fmt.Errorf("left over: %s", got))
	}
	return err
}
