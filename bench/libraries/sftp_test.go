package libraries

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/pkg/sftp"

	ours "ingot/internal/platform/edge/sshd/sftp"
)

// sftpServers are both servers.
var sftpServers = map[string]func(net.Conn) error{
	"ours": func(c net.Conn) error { return ours.Serve(c, c) },
	"pkg-sftp": func(c net.Conn) error {
		s, err := sftp.NewServer(c)
		if err != nil {
			return err
		}
		return s.Serve()
	},
}

// sftpClient returns a client of a server.
func sftpClient(t testing.TB, serve func(net.Conn) error) *sftp.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			_ = serve(c) // ends with the connection
			c.Close()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := sftp.NewClientPipe(c, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		c.Close()
		l.Close()
		<-done
	})
	return client
}

// TestSFTP has what speaks against the library's server (decision 15). If it fails for
// "pkg-sftp", the library has changed and can be considered again.
func TestSFTP(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{"ours": true, "pkg-sftp": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, dir := sftpClient(t, sftpServers[name]), t.TempDir()
			write := func(name string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			content := func(path string) string {
				b, _ := os.ReadFile(path)
				return string(b)
			}
			check := func(what string, got bool) {
				t.Helper()
				if got != good {
					t.Errorf("%s: %t, want %t", what, got, good)
				}
			}
			file, other := write("file"), write("other")
			check("rmdir leaves a file", c.RemoveDirectory(file) != nil && content(file) == "file")
			file = write("file")
			check("rename replaces no file", c.Rename(file, other) != nil && content(other) == "other")
			f, err := c.OpenFile(write("log"), os.O_WRONLY|os.O_APPEND)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Write([]byte("+"))
			check("append appends", err == nil && f.Close() == nil && content(f.Name()) == "log+")
			for _, extension := range []string{"fsync@openssh.com", "limits@openssh.com"} {
				_, ok := c.HasExtension(extension)
				check(extension, ok)
			}
		})
	}
}

// BenchmarkSFTP has the client of pkg/sftp fetch a file from both servers.
func BenchmarkSFTP(b *testing.B) {
	const size = 16 << 20
	file := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
		b.Fatal(err)
	}
	for name, serve := range sftpServers {
		b.Run(name, func(b *testing.B) {
			client := sftpClient(b, serve)
			b.SetBytes(size)
			for b.Loop() {
				f, err := client.Open(file)
				if err != nil {
					b.Fatal(err)
				}
				if n, err := f.WriteTo(io.Discard); err != nil || n != size {
					b.Fatalf("fetched %d bytes, want %d: %v", n, size, err)
				}
				f.Close()
			}
		})
	}
}
