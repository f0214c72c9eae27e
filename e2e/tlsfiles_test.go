package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// startSecured starts a server with a certificate in files.
func startSecured(t *testing.T, authority *testkit.Authority, dir string) (s *Server, at string) {
	t.Helper()
	cert, key := authority.Write(dir, "example.test", "*.example.test")
	host := loopback()
	s = start(t, options{Args: []string{"--domain", "example.test", "--tls-listen", host + ":0", "--tls-cert", cert,
		"--tls-key", key, "--tcp-ports", "none"}})
	_, ports := s.public(t)
	return s, fmt.Sprintf("%s:%d", host, ports.TLS)
}

// TestTLSFiles reads a changed certificate again, keeps the old one when the new one is
// broken, and refuses what OpenSSL can try: old protocols, weak ciphers and renegotiation.
func TestTLSFiles(t *testing.T) {
	t.Parallel()
	authority, dir := testkit.NewAuthority(t), t.TempDir()
	s, at := startSecured(t, authority, dir)
	s.mayFail = true // it logs the broken file as an error
	serial := func() string {
		t.Helper()
		cert, err := handshake(t, at, "api.example.test", authority.Pool())
		if err != nil {
			t.Fatal(err)
		}
		return cert.SerialNumber.String()
	}
	first := serial()
	authority.Write(dir, "example.test", "*.example.test")
	testkit.Eventually(t, "the changed certificate is used", func() bool { return serial() != first })
	second := serial()
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the broken file is noticed", func() bool {
		return strings.Contains(s.Stderr.String(), "the previous one stays in use")
	})
	if got := serial(); got != second {
		t.Errorf("with a broken file, the certificate is %s, want %s", got, second)
	}
	openSSL(t, at)
	s.Stop(t)
}

// openSSL tries connections that must fail, and some that must not.
func openSSL(t *testing.T, at string) {
	t.Helper()
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Log("without openssl: old protocols, weak ciphers and renegotiation are not tried")
		return
	}
	for _, c := range []struct {
		args []string
		in   string
		want string
	}{
		{[]string{"-tls1"}, "", "alert protocol version"},
		{[]string{"-tls1_1"}, "", "alert protocol version"},
		{[]string{"-tls1_2"}, "", "Cipher is ECDHE-ECDSA-"},
		{[]string{"-tls1_3"}, "", "Cipher is TLS_"},
		{[]string{"-tls1_2", "-cipher", "AES128-GCM-SHA256:AES256-SHA"}, "", "alert handshake failure"},
		{[]string{"-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA256"}, "", "alert handshake failure"},
		{[]string{"-tls1_2"}, "R\n", "alert unexpected message"},
		{[]string{"-alpn", "h2,http/1.1"}, "", "ALPN protocol: h2"},
		{[]string{"-alpn", "spdy/3"}, "", "alert no application protocol"},
	} {
		cmd := exec.CommandContext(t.Context(), program,
			append([]string{"s_client", "-connect", at, "-servername", "api.example.test"}, c.args...)...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out := newOutput()
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(in, c.in)
		done := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(done)
		}()
		deadline := time.After(patience)
		for waiting := true; waiting && !strings.Contains(out.String(), c.want); {
			select {
			case <-done:
				waiting = false
			case <-deadline:
				waiting = false
			case <-time.After(10 * time.Millisecond):
			}
		}
		in.Close()
		_ = cmd.Process.Kill()
		<-done
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("openssl s_client %v, input %q: want %q in\n%s", c.args, c.in, c.want, out)
		}
	}
}

// h2specFails are the tests of h2spec that fail, all because of Go's HTTP/2 server: it
// announces frames of 1 MiB and h2spec assumes less, it closes a connection whose SETTINGS
// have a value twice, and it answers 400 where a reset is expected.
var h2specFails = []string{
	"Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE",
	"Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE",
	"Sends a HEADERS frame that contains the connection-specific header field",
	`Sends a HEADERS frame that contains the TE header field with any value other than "trailers"`,
}

// TestHTTP2Soak runs h2spec with TLS.
func TestHTTP2Soak(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") == "" {
		t.Skip("INGOT_SOAK is not set")
	}
	s, at := startSecured(t, testkit.NewAuthority(t), t.TempDir())
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(cfProgram(t)), "h2spec"), "-t", "-k", "-h", host,
		"-p", port, "-o", "5")
	out, err := cmd.CombinedOutput()
	_, failures, found := bytes.Cut(out, []byte("Failures:"))
	if !found || err == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	for line := range strings.Lines(string(failures)) {
		if _, name, ok := strings.Cut(line, "× "); ok {
			_, name, _ = strings.Cut(name, ": ")
			got = append(got, strings.TrimSpace(name))
		}
	}
	if !slices.Equal(got, h2specFails) {
		t.Errorf("these fail:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(h2specFails, "\n"))
	}
	t.Log(strings.TrimSpace(string(failures[bytes.LastIndexByte(bytes.TrimSpace(failures), '\n')+1:])))
	s.Stop(t)
}
