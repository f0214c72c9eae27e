package mailtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// Postfix starts Debian's mail server with its own configuration, queue and port, and returns its address. It relays
// everything to next, except for mail to the domain in.ingot.example, which goes to reports. The test is skipped if
// Postfix is not installed, or cannot be started by this user.
func Postfix(t *testing.T, next, reports string) (addr string) {
	t.Helper()
	program, err := exec.LookPath("postfix")
	if err != nil {
		program = "/usr/sbin/postfix"
		if _, err := os.Stat(program); err != nil {
			t.Skip("postfix is not installed: scripts/setup test installs it")
		}
	}
	owner, err := user.Lookup("postfix")
	if err != nil || os.Getuid() != 0 {
		t.Skip("postfix can only be started by root")
	}
	// Its own folder below /tmp: the path of a test's folder is too long for
	// some of its sockets, and not every user may enter it.
	dir, err := os.MkdirTemp("", "postfix")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))

	chain, err := Chain()
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"config", "queue", "data"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	uid, _ := strconv.Atoi(owner.Uid)
	if err := os.Chown(filepath.Join(dir, "data"), uid, -1); err != nil {
		t.Fatal(err)
	}
	bracket := func(addr string) string {
		host, port, _ := net.SplitHostPort(addr)
		return "[" + host + "]:" + port
	}
	for name, text := range map[string]string{
		"chain.pem": string(chain),
		"main.cf": fmt.Sprintf(`compatibility_level = 3.6
queue_directory = %[1]s/queue
data_directory = %[1]s/data
maillog_file = %[1]s/log
maillog_file_prefixes = %[1]s
myhostname = mx.test
mydestination =
alias_maps =
alias_database =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
smtp_dns_support_level = disabled
smtpd_tls_security_level = may
smtpd_tls_chain_files = %[1]s/config/chain.pem
default_transport = smtp:%[2]s
transport_maps = inline:{ in.ingot.example=smtp:%[3]s }
smtpd_client_connection_rate_limit = 0
smtputf8_enable = yes
`, dir, bracket(next), bracket(reports)),
		"master.cf": addr + ` inet n - n - - smtpd
postlog unix-dgram n - n - 1 postlogd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, "config", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "config", "chain.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		return string(text)
	}
	var out bytes.Buffer
	server := exec.Command(program, "-c", filepath.Join(dir, "config"), "start-fg")
	server.Stdout, server.Stderr = &out, &out
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = exec.Command(program, "-c", filepath.Join(dir, "config"), "stop").Run()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = server.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("the log of postfix:\n%s", log())
		}
	})
	for timeout := time.After(3 * time.Minute); ; {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return addr
		}
		select {
		case <-ended:
			t.Fatalf("postfix does not start: %s\n%s", out.String(), log())
		case <-timeout:
			t.Fatalf("postfix does not listen: %s", log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
