// Tcp-echo is an app without HTTP: it greets each connection with the index of its
// instance and the address of the client, and returns what it receives until the
// client ends its output.
//
// PROXY_PROTOCOL=v1 expects that version of the PROXY protocol, which gives it the
// address of the client instead of the router's. The route needs the option
// proxy_protocol=v1.
package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", sample.WebAddress())
		if err != nil {
			return err
		}
		slog.Info("listening", "address", l.Addr().String())
		return serve(ctx, l, cmp.Or(os.Getenv("CF_INSTANCE_INDEX"), "0"), os.Getenv("PROXY_PROTOCOL") == "v1")
	})
}

// serve serves connections until ctx is done.
func serve(ctx context.Context, l net.Listener, index string, proxied bool) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		serving.Go(func() {
			defer c.Close()
			end := context.AfterFunc(ctx, func() { c.Close() })
			defer end()
			if err := echo(c, index, proxied); err != nil && ctx.Err() == nil {
				slog.Info("connection failed", "error", err.Error())
			}
		})
	}
}

func echo(c net.Conn, index string, proxied bool) error {
	in, from := bufio.NewReader(c), c.RemoteAddr().String()
	if proxied {
		var err error
		if from, err = client(in); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(c, "instance %s, you are %s\n", index, from); err != nil {
		return err
	}
	_, err := io.Copy(c, in)
	return err
}

// client reads the header of the PROXY protocol, version 1, and returns the address
// of the client: "PROXY TCP4 192.0.2.1 192.0.2.9 56324 1024".
func client(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	words := strings.Fields(line)
	if len(words) != 6 || words[0] != "PROXY" {
		return "",
			fmt.Errorf("the connection begins with %q and not with the PROXY protocol: does the route have the option "+
				"proxy_protocol=v1?", line)
	}
	return net.JoinHostPort(words[2], words[4]), nil
}
