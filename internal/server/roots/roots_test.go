package roots_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/server/roots"
)

// A server with a certificate of a private authority is reached with its file, and not
// without.
func TestRoots(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	// Several, with text between them, as bundles have.
	if err := os.WriteFile(file, append(append([]byte("# ours\n"), certificate...),
		append([]byte("\n# again\n"), certificate...)...), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "certificate", file: ""} {
		trusted, err := roots.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{TLSClientConfig: trusted.TLS()}
		t.Cleanup(transport.CloseIdleConnections)
		res, err := (&http.Client{Transport: transport}).Get(server.URL)
		if err == nil {
			_ = res.Body.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with %q: %v, want %q", name, err, want)
		}
		if has := strings.Contains(string(trusted.Bundle()), string(certificate)); has != (name != "") {
			t.Errorf("with %q: the bundle has the certificate: %t", name, has)
		}
	}
}

func TestFilesWithoutCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"nothing": "it contains no certificate in PEM form",
		"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n": `it contains a block "PRIVATE KEY"; only certificates are expected`,
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n": "certificate 1: ",
	} {
		file := filepath.Join(dir, "ca.pem")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := roots.Load(file); err == nil || !strings.Contains(err.Error(), file+": "+want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := roots.Load(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that does not exist: %v", err)
	}
}
