package system

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshLink is what the root document says of the gateway.
func sshLink(t *testing.T, s *System) (address, fingerprint string) {
	t.Helper()
	links, _ := call(t, http.MethodGet, s.Endpoints().API+"/", "", nil).json(t)["links"].(map[string]any)
	link, _ := links["app_ssh"].(map[string]any)
	meta, _ := link["meta"].(map[string]any)
	if meta["oauth_client"] != "ssh-proxy" {
		t.Errorf("app_ssh: %v", links["app_ssh"])
	}
	address, _ = link["href"].(string)
	fingerprint, _ = meta["host_key_fingerprint"].(string)
	return address, fingerprint
}

func TestSSHIsAnnounced(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	s := startSystem(t, c)
	address, fingerprint := sshLink(t, s)
	if address != s.Endpoints().SSH || len(fingerprint) != 43 {
		t.Errorf("address %q, fingerprint %q, endpoints %q", address, fingerprint, s.Endpoints().SSH)
	}
	// A stranger meets the host key that was announced, and no more.
	var seen string
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{
		User: "cf:nothing/0", Auth: []ssh.AuthMethod{ssh.Password("a guess")}, Timeout: time.Minute,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			seen = strings.TrimPrefix(ssh.FingerprintSHA256(key), "SHA256:")
			return nil
		},
	})
	if err == nil {
		client.Close()
		t.Error("a stranger is let in")
	}
	if seen != fingerprint {
		t.Errorf("the host key is %s, announced is %s", seen, fingerprint)
	}
	s.Stop()
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the gateway answers after the stop")
	}

	// The next start has the same key; on all addresses it is reached by the
	// name that the client knows.
	c.SSHListen = "0.0.0.0:0"
	s = startSystem(t, c)
	address, again := sshLink(t, s)
	here := netip.MustParseAddrPort(s.Endpoints().SSH)
	if again != fingerprint || address != here.String() || !here.Addr().IsLoopback() {
		t.Errorf("address %q, fingerprint %q; endpoints %s, fingerprint before %q", address, again, here, fingerprint)
	}
}
