//go:build linux

package network

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/base/mounts"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/engine/local"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(caseOf); what != "" {
		os.Exit(runCase(what))
	}
	enginetest.Main(m)
}

// caseOf is set in processes of TestOtherFirewalls: a case in its own network, or an
// instance of it.
const (
	caseOf    = "INGOT_TEST_FIREWALL"
	initOf    = "INGOT_TEST_FIREWALL_INIT"
	commandOf = "INGOT_TEST_FIREWALL_COMMAND"
)

// otherFirewall is what another program does to the firewall of this machine. In its commands
// TABLE, SOURCE and GATEWAY stand for ours, and PORT for that of a service that is not allowed.
type otherFirewall struct {
	name  string
	needs string // a program
	run   []string
	// harmless means that our tables are not touched.
	harmless bool
	// cuts means that what is allowed may be cut off until it is restored.
	cuts bool
	// warns is what our log says about it.
	warns string
}

const stockDebian = "#!/usr/sbin/nft -f\nflush ruleset\ntable inet filter {\n" +
	"chain input { type filter hook input priority filter; }\nchain forward { type filter hook forward priority filter; " +
	"}\n" +
	"chain output { type filter hook output priority filter; }\n}\n"

// firewalldReload is what firewalld sends for a reload, shortened: it replaces its own table.
const firewalldReload = "add table inet firewalld\ndelete table inet firewalld\nadd table inet firewalld\n" +
	"add chain inet firewalld filter_INPUT { type filter hook input priority filter + 10; }\n" +
	"add chain inet firewalld filter_FORWARD { type filter hook forward priority filter + 10; }\n" +
	"add chain inet firewalld nat_POSTROUTING { type nat hook postrouting priority srcnat + 10; }\n" +
	"add rule inet firewalld filter_INPUT ct state { established, related } accept\n" +
	"add rule inet firewalld filter_INPUT iifname lo accept\n" +
	"add rule inet firewalld filter_INPUT ct state invalid drop\n" +
	"add rule inet firewalld filter_INPUT tcp dport 22 ct state new accept\n" +
	"add rule inet firewalld nat_POSTROUTING oifname != lo masquerade\n"

const savedIPTables = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A INPUT -p tcp " +
	"--dport 22 -j ACCEPT\nCOMMIT\n" +
	"*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n"

// here returns a command with an input.
func here(command, input string) string { return command + " <<'EOF'\n" + input + "EOF" }

var otherFirewalls = []otherFirewall{
	{name: "nft flush ruleset", needs: "nft", run: []string{"nft flush ruleset"}},
	{name: "restart of Debian's nftables", needs: "nft", run: []string{here("nft -f -", stockDebian)}},
	{name: "nft delete table", needs: "nft", run: []string{"nft delete table inet TABLE",
		"nft delete table bridge TABLE"}},
	{name: "nft flush table", needs: "nft", run: []string{"nft flush table inet TABLE", "nft flush table bridge TABLE"}},
	{name: "nft flush chain", needs: "nft", run: []string{"nft flush chain inet TABLE input",
		"nft flush chain inet TABLE forward", "nft flush chain bridge TABLE guard"}},
	{name: "nft delete chain", needs: "nft",
		run: []string{"nft 'flush chain inet TABLE input; delete chain inet TABLE input'"}},
	{name: "nft flush set and map", needs: "nft", run: []string{"nft flush set inet TABLE reach",
		"nft flush map inet TABLE zones", "nft flush set bridge TABLE sources"}, cuts: true},
	{name: "nft insert rule", needs: "nft", run: []string{"nft insert rule inet TABLE input accept",
		"nft insert rule inet TABLE forward accept"}},
	{name: "nft add element", needs: "nft", run: []string{"nft 'add element inet TABLE reach { SOURCE . GATEWAY . PORT }'",
		"nft 'add element inet TABLE allowed { GATEWAY . PORT }'"}},
	{name: "firewalld reload", needs: "nft", run: []string{here("nft -f -", firewalldReload)}, harmless: true},
	{name: "iptables-restore", needs: "iptables-nft-restore", run: []string{here("iptables-nft-restore", savedIPTables),
		"iptables-nft -F", "iptables-nft -t nat -F"}, harmless: true},
	{name: "iptables-legacy-restore", needs: "iptables-legacy-restore",
		run: []string{here("iptables-legacy-restore", savedIPTables), "iptables-legacy -F"}, harmless: true},
	{name: "ufw", needs: "ufw", run: []string{"ufw --force enable && ufw reload"}, harmless: true, cuts: true,
		warns: "ip filter INPUT"},
	{name: "Docker", needs: "iptables-nft", run: []string{
		"iptables-nft -t filter -N DOCKER || true", "iptables-nft -P FORWARD DROP", "iptables-nft -t nat -N DOCKER || true",
		"iptables-nft -t nat -C PREROUTING -m addrtype --dst-type LOCAL -j DOCKER || iptables-nft -t nat -A PREROUTING -m " +
			"addrtype --dst-type LOCAL -j DOCKER",
	}, harmless: true, warns: "ip filter FORWARD"},
}

// Whatever another program does to the firewall of the machine, an instance reaches nothing
// for a moment that it did not reach before, and what it may reach stays reachable. What was
// changed of our tables is restored and counted.
func TestOtherFirewalls(t *testing.T) {
	t.Parallel()
	for i, other := range otherFirewalls {
		t.Run(other.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(other.needs); err != nil {
				t.Skipf("%s is not installed", other.needs)
			}
			inOwnNetwork(t, strconv.Itoa(i))
		})
	}
}

// firewallCases are those with more than a command.
var firewallCases = map[string]func() error{
	"instance":         func() error { return inInstance(os.Stdin, os.Stdout) },
	"server":           runServer,
	"cannot restore":   cannotRestore,
	"too many changes": tooManyChanges,
	"no server":        noServer,
	"listed":           listAll,
	"own files":        withOwnFiles,
}

// While the firewall cannot be restored no instance starts, and it is tried until it can.
func TestFirewallCannotBeRestored(t *testing.T) {
	t.Parallel()
	inOwnNetwork(t, "cannot restore")
}

// When the kernel has dropped notifications, the firewall is restored as well.
func TestTooManyFirewallChanges(t *testing.T) {
	t.Parallel()
	inOwnNetwork(t, "too many changes")
}

// A server is killed, and another program removes all rules before the next one starts:
// instances reach nothing more.
func TestFirewallWithoutServer(t *testing.T) {
	t.Parallel()
	inOwnNetwork(t, "no server")
}

// inOwnNetwork runs a case in a process with its own network.
func inOwnNetwork(t *testing.T, what string) {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil || os.Getuid() != 0 {
		t.Skip("this needs root and nft")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), caseOf+"="+what, initOf+"="+enginetest.InitPath(), "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if text, skipped := strings.CutPrefix(string(out), errSkip.Error()); skipped {
		t.Skip(text)
	}
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// runCase runs a process of these tests.
func runCase(what string) int {
	run := firewallCases[what]
	if i, err := strconv.Atoi(what); err == nil {
		run = otherFirewalls[i].try
	}
	err := run()
	if n := opened; n != nil && what != "server" {
		err = errors.Join(err, n.Leave(), n.Remove())
	}
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
	}
	if err != nil && !errors.Is(err, errSkip) {
		return 1
	}
	return 0
}

// errSkip is the beginning of the reason why a case is skipped.
var errSkip = errors.New("skip: ")

// opened is the network of this process.
var opened *Network

// targets are what an instance connects to.
type targets struct {
	May, MayNot []string
	Silent      []string // gets datagrams, and must receive none
}

// attempts is what came of it.
type attempts struct {
	Tries    int
	Failed   []string // of those that are allowed
	Reached  map[string]int
	Problems map[string]int
}

// inInstance listens on port 8080, reads the targets, and connects to them until there is no
// more input.
func inInstance(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return nil
	}
	var to targets
	if err := json.Unmarshal(lines.Bytes(), &to); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", ":8080")
	if err != nil {
		return err
	}
	background.Go("test listener", func() { acceptAll(l) })
	fmt.Fprintln(out, "ready")
	var done atomic.Bool
	background.Go("test input", func() {
		lines.Scan()
		done.Store(true)
	})
	result := attempts{Reached: map[string]int{}, Problems: map[string]int{}}
	connect := func(address string, timeout time.Duration) error {
		c, err := net.DialTimeout("tcp4", address, timeout)
		if err == nil {
			err = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
		return err
	}
	for !done.Load() {
		result.Tries++
		for _, a := range to.May {
			if err := connect(a, 10*time.Second); err != nil {
				result.Failed = append(result.Failed, err.Error())
			}
		}
		for _, a := range to.MayNot {
			if err := connect(a, time.Second); err == nil {
				result.Reached[a]++
			} else {
				result.Problems[err.Error()]++
			}
		}
		for _, a := range to.Silent {
			if c, err := net.Dial("udp4", a); err == nil {
				_, _ = c.Write([]byte("x"))
				_ = c.Close()
			}
		}
	}
	return json.NewEncoder(out).Encode(result)
}

func acceptAll(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
	}
}

// fakeInstance is a process in its own network, which is connected as an instance.
type fakeInstance struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	addr netip.Addr
}

func startInstance() (*fakeInstance, error) {
	f := &fakeInstance{cmd: exec.Command("/proc/self/exe")} //nolint:noctx // ends with its input
	f.cmd.Env = append(os.Environ(), caseOf+"=instance")
	f.cmd.Stderr = os.Stderr
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	in, err := f.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.in, f.out = in, bufio.NewReader(out)
	return f, f.cmd.Start()
}

// admitProcess connects a process as an instance.
func admitProcess(n *Network, pid int, id string, reach ...netip.AddrPort) (netip.Addr, error) {
	process, err := local.Identify(pid)
	if err != nil {
		return netip.Addr{}, err
	}
	a, err := n.Take(id)
	if err != nil {
		return netip.Addr{}, err
	}
	return a, errors.Join(n.Admit(a, &Access{Reach: reach}), n.Connect(process, a))
}

func newInstance(n *Network, id string, reach ...netip.AddrPort) (*fakeInstance, error) {
	f, err := startInstance()
	if err == nil {
		f.addr, err = admitProcess(n, f.cmd.Process.Pid, id, reach...)
	}
	return f, err
}

func (f *fakeInstance) begin(to targets) error {
	if err := json.NewEncoder(f.in).Encode(to); err != nil {
		return err
	}
	_, err := f.out.ReadString('\n')
	return err
}

func (f *fakeInstance) end() (result attempts, err error) {
	err = errors.Join(f.in.Close(), json.NewDecoder(f.out).Decode(&result), f.cmd.Wait())
	return result, err
}

// try runs a case, in its own network.
func (o otherFirewall) try() error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	var text bytes.Buffer
	n, services, err := openCase(dir, &text)
	if err != nil {
		return err
	}
	before, err := n.summary()
	if err != nil {
		return err
	}
	instance, err := newInstance(n, "a", services.may)
	if err != nil {
		return err
	}
	other, err := newInstance(n, "b")
	if err != nil {
		return err
	}
	if err := other.begin(targets{}); err != nil {
		return err
	}
	if err := instance.begin(services.targets(other.addr)); err != nil {
		return err
	}
	did, err := o.commands(n, instance.addr, services.mayNot.Port())
	if err != nil {
		return err
	}
	if err := o.restored(n, before, did, &text); err != nil {
		return err
	}
	result, err := instance.end()
	fmt.Fprintf(os.Stdout, "%+v\n%s", result, &text)
	err = errors.Join(err, services.isolated(result, o.cuts))
	if o.warns != "" && !strings.Contains(text.String(), o.warns) {
		err = errors.Join(err, fmt.Errorf("the log does not mention %s", o.warns))
	}
	return err
}

// commands runs the commands several times, and returns how many succeeded.
func (o otherFirewall) commands(n *Network, source netip.Addr, port uint16) (did int64, err error) {
	words := strings.NewReplacer("TABLE", n.table, "SOURCE", source.String(), "GATEWAY", n.Gateway().String(), "PORT",
		fmt.Sprint(port))
	rounds := 5
	if o.harmless {
		rounds = 1
	}
	for round := range rounds {
		for _, command := range o.run {
			out, err := o.command(words.Replace(command))
			switch {
			case err == nil:
				did++
			case round == 0 && did == 0:
				return 0, fmt.Errorf("%w%s: %w: %s", errSkip, command, err, out)
			case o.harmless:
				return 0, fmt.Errorf("%s: %w: %s", command, err, out)
			}
		}
	}
	return did, nil
}

// command runs a command; ufw with its own settings, which it changes.
func (o otherFirewall) command(text string) ([]byte, error) {
	cmd := exec.Command("bash", "-c", text) //nolint:noctx // ends soon
	if o.needs == "ufw" {
		cmd = exec.Command("/proc/self/exe") //nolint:noctx // the same
		cmd.Env = append(os.Environ(), caseOf+"=own files", commandOf+"="+text)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	}
	return cmd.CombinedOutput()
}

// withOwnFiles runs a command with its own settings of ufw.
func withOwnFiles() error {
	if err := ownFiles(); err != nil {
		return err
	}
	cmd := exec.Command("bash", "-c", os.Getenv(commandOf)) //nolint:noctx // ends soon
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// restored waits until the tables are as before.
func (o otherFirewall) restored(n *Network, before []string, did int64, text *bytes.Buffer) error {
	var said string
	var after []string
	err := eventually("the tables are restored", func() bool {
		n.mu.Lock()
		list, err := n.summary()
		after, said = list, text.String()
		n.mu.Unlock()
		// What changes nothing, because the change before is not yet restored, is not counted.
		count := n.watch.restored.Load()
		counted := count > 0 && count <= did && strings.Contains(said, "another program changed")
		return err == nil && slices.Equal(before, after) && counted != o.harmless && strings.Contains(said, o.warns)
	})
	if err != nil {
		return fmt.Errorf("%w: %d times after %d changes, they have %v, want %v\n%s", err, n.watch.restored.Load(), did,
			after, before, said)
	}
	return nil
}

// services are those of the machine, by whether the instance may connect to them.
type services struct {
	may, mayNot, elsewhere, silent netip.AddrPort
	heard                          atomic.Int64 // datagrams
}

// openCase opens a network of instances, and services of the machine.
func openCase(dir string, log io.Writer) (*Network, *services, error) {
	n, err := newCase(dir, log)
	if err == nil {
		err = n.Protect()
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := openServices(n.Gateway(), 0)
	return n, s, err
}

// newCase opens a network of instances.
func newCase(dir string, log io.Writer) (*Network, error) {
	sum := fnv.New32a()
	fmt.Fprint(sum, dir)
	n := &Network{name: "igtest", table: fmt.Sprintf("ingot-test-%x", sum.Sum32()), root: dir, holder: os.Getenv(initOf)}
	n.log = slog.New(slog.NewTextHandler(&lockedWriter{n, log}, nil))
	if err := n.open(); err != nil {
		return nil, err
	}
	opened = n
	n.rules = engine.Rules{
		Groups: map[string]engine.Group{"g": {Name: "g", Rules: []platform.SecurityRule{{Protocol: "tcp",
			Destination: "198.51.100.1", Ports: "80"}}}},
		Zones: map[engine.Zone][]string{{}: {"g"}},
	}
	return n, nil
}

// openServices opens services of the machine, that which is allowed on a port.
func openServices(gateway netip.Addr, port uint16) (*services, error) {
	outside := netip.MustParseAddr("192.0.2.1")
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = errors.Join(netlink.LinkSetUp(lo), netlink.AddrAdd(lo, &netlink.Addr{IPNet: ipNet(outside, 32)}))
	}
	if err != nil {
		return nil, err
	}
	s := &services{}
	for _, one := range []struct {
		at *netip.AddrPort
		on netip.AddrPort
	}{{&s.may, netip.AddrPortFrom(gateway, port)}, {&s.mayNot, netip.AddrPortFrom(gateway, 0)},
		{&s.elsewhere, netip.AddrPortFrom(outside, 0)}} {
		l, err := net.Listen("tcp4", one.on.String())
		if err != nil {
			return nil, err
		}
		background.Go("test service", func() { acceptAll(l) })
		*one.at = l.Addr().(*net.TCPAddr).AddrPort()
	}
	silent, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(gateway, 0)))
	if err != nil {
		return nil, err
	}
	s.silent = silent.LocalAddr().(*net.UDPAddr).AddrPort()
	background.Go("test service", func() {
		for {
			if _, _, err := silent.ReadFrom(make([]byte, 9)); err != nil {
				return
			}
			s.heard.Add(1)
		}
	})
	return s, nil
}

// targets are the services, and others that are not allowed.
func (s *services) targets(others ...netip.Addr) targets {
	to := targets{May: []string{s.may.String()}, MayNot: []string{s.mayNot.String(), s.elsewhere.String()},
		Silent: []string{s.silent.String()}}
	for _, a := range others {
		to.MayNot = append(to.MayNot, netip.AddrPortFrom(a, 8080).String())
	}
	return to
}

// isolated checks what an instance has reached.
func (s *services) isolated(result attempts, cut bool) error {
	if len(result.Failed) > 0 && !cut || len(result.Reached) > 0 || result.Tries == 0 || s.heard.Load() > 0 {
		return fmt.Errorf("%d datagrams arrived, attempts: %+v", s.heard.Load(), result)
	}
	return nil
}

// lockedWriter lets the log be read while the network is locked.
type lockedWriter struct {
	n *Network
	w io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	return l.w.Write(b)
}

// ownFiles gives this process its own settings of ufw.
func ownFiles() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	table, err := mounts.Table()
	if err != nil {
		return err
	}
	// What instances of other tests have mounted must not stay in use here.
	for _, m := range slices.Backward(table) {
		if !slices.Contains([]string{"", "proc", "sys", "dev"}, strings.Split(m.Point, "/")[1]) {
			_ = unix.Unmount(m.Point, unix.MNT_DETACH) // with those below it
		}
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return err
	}
	for _, dir := range []string{"/etc/ufw", "/etc/default"} {
		own := filepath.Join(runDir, filepath.Base(dir))
		if err := os.CopyFS(own, os.DirFS(dir)); err != nil {
			return err
		}
		if err := unix.Mount(own, dir, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}
