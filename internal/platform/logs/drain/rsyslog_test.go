package drain_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/logs/drain"
	"ingot/internal/platform/logs/logfiles"
)

// rsyslog is the syslog server of most Linux systems, with a configuration and
// folder of its own.
type rsyslog struct {
	program, dir, port string
	cmd                *exec.Cmd
	errs               *bytes.Buffer
}

func findRsyslog(t *testing.T) *rsyslog {
	t.Helper()
	program, err := exec.LookPath("rsyslogd")
	if err != nil {
		program = "/usr/sbin/rsyslogd"
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("rsyslog is not installed (scripts/setup test installs it)")
	}
	port := strconv.Itoa(testkit.FreePort(t))
	r := &rsyslog{program: program, dir: t.TempDir(), port: port}
	config := fmt.Sprintf(`
global(workDirectory=%[1]q maxMessageSize="64k")
module(load="imtcp")
input(type="imtcp" address="127.0.0.1" port=%[2]q)
template(name="plain" type="string" string="%%pri%%|%%hostname%%|%%app-name%%|%%procid%%|%%structured-data%%|%%msg%%\n")
action(type="omfile" file=%[3]q template="plain" flushOnTXEnd="on")
`, r.dir, port, r.file())
	if err := os.WriteFile(filepath.Join(r.dir, "rsyslog.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rsyslog) file() string { return filepath.Join(r.dir, "messages") }

// start returns when the server listens.
func (r *rsyslog) start(t *testing.T) {
	t.Helper()
	r.errs = &bytes.Buffer{}
	// -n: stay in the foreground.
	r.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), r.program, "-n", "-f",
		filepath.Join(r.dir, "rsyslog.conf"), "-i", filepath.Join(r.dir, "pid"))
	r.cmd.Stdout, r.cmd.Stderr = r.errs, r.errs
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.stop(syscall.SIGKILL) })
	testkit.Eventually(t, "rsyslog listens", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+r.port)
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

func (r *rsyslog) stop(sig os.Signal) {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Signal(sig)
	_ = r.cmd.Wait() // ended by a signal
	r.cmd = nil
	_ = os.Remove(filepath.Join(r.dir, "pid"))
}

func (r *rsyslog) lines(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(r.file())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(string(b), "\n")
}

// A real receiver that is stopped and started, and once killed, while lines are
// written gets every line.
func TestRsyslogRestarts(t *testing.T) {
	t.Parallel()
	r := findRsyslog(t)
	r.start(t)
	s := open(t, logfiles.Options{})
	o := options(t.TempDir())
	o.Settle = 0 // the default, of real life
	m := start(t, s, one("the-app", drain.Drain{ID: "d", URL: "syslog://127.0.0.1:" + r.port, Host: "o.s.a"}), o)
	settled(t, s, m)
	total := 0
	more := func(n int) {
		write(t, s, "the-app", total, total+n)
		total += n
	}
	arrived := func(n int) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("%d lines arrive", n), func() bool { return len(numbers(bare(r.lines(t)))) >= n })
	}
	more(500)
	arrived(500)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		writing, before := make(chan struct{}), total
		go func() {
			defer close(writing)
			more(3000)
		}()
		arrived(before + 400) // in the middle of it
		r.stop(sig)
		<-writing
		more(300)
		r.start(t)
		arrived(total)
	}
	got := bare(r.lines(t))
	seen := map[int]bool{}
	for _, n := range numbers(got) {
		seen[n] = true
	}
	for n := range total {
		if !seen[n] {
			t.Fatalf("line %d of %d did not arrive; rsyslog says %s", n, total, r.errs)
		}
	}
	if first := r.lines(t)[0]; first != `14|o.s.a|the-app|[APP/PROC/WEB/0]|[tags@47450 app_id="the-app" instance_id="0" job="diego-cell" origin="rep" process_instance_id="s-the-app" process_type="web" source_id="the-app" source_type="APP/PROC/WEB"]| line 0` &&
		first != `14|o.s.a|the-app|[APP/PROC/WEB/0]|[tags@47450 app_id="the-app" instance_id="0" job="diego-cell" origin="rep" process_instance_id="s-the-app" process_type="web" source_id="the-app" source_type="APP/PROC/WEB"]|line 0` {
		t.Errorf("the first line is %q", first)
	}
}

// bare gives lines the shape that numbers looks for.
func bare(lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		if i := strings.LastIndex(l, "|"); i >= 0 {
			out = append(out, "] "+strings.TrimSpace(l[i+1:]))
		}
	}
	return out
}
