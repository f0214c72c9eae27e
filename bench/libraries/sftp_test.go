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

// BenchmarkSFTP has the client of pkg/sftp fetch a file from both servers.
func BenchmarkSFTP(b *testing.B) {
	const size = 16 << 20
	file := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
		b.Fatal(err)
	}
	for name, serve := range map[string]func(net.Conn) error{
		"ours": func(c net.Conn) error { return ours.Serve(c, c) },
		"pkg-sftp": func(c net.Conn) error {
			s, err := sftp.NewServer(c)
			if err != nil {
				return err
			}
			return s.Serve()
		},
	} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
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
				b.Fatal(err)
			}
			client, err := sftp.NewClientPipe(c, c)
			if err != nil {
				b.Fatal(err)
			}
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
			client.Close()
			c.Close()
			<-done
		})
	}
}
