package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// acceptPause is the delay after a connection could not be accepted.
const acceptPause = 50 * time.Millisecond

// Forward maps a local port to a remote address.
type Forward struct{ Local, Remote string }

// ParseForward parses [BIND:]PORT:HOST:PORT. An IPv6 address is in brackets.
func ParseForward(text string) (Forward, error) {
	wrong := fmt.Errorf("%q is not [BIND:]PORT:HOST:PORT", text)
	var parts []string
	for rest := text; ; {
		var part string
		if strings.HasPrefix(rest, "[") {
			end := strings.Index(rest, "]")
			if end < 0 {
				return Forward{}, wrong
			}
			part, rest = rest[1:end], rest[end+1:]
		} else if i := strings.Index(rest, ":"); i >= 0 {
			part, rest = rest[:i], rest[i:]
		} else {
			part, rest = rest, ""
		}
		parts = append(parts, part)
		if rest == "" {
			break
		}
		if rest[0] != ':' {
			return Forward{}, wrong
		}
		rest = rest[1:]
	}
	bind := "localhost"
	if len(parts) == 4 {
		bind, parts = parts[0], parts[1:]
	}
	if len(parts) != 3 || parts[1] == "" {
		return Forward{}, wrong
	}
	for _, port := range []string{parts[0], parts[2]} {
		if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
			return Forward{}, wrong
		}
	}
	return Forward{net.JoinHostPort(bind, parts[0]), net.JoinHostPort(parts[1], parts[2])}, nil
}

// Forward listens locally until ctx is done. It returns the local address.
func (c *Client) Forward(ctx context.Context, f Forward, failed func(error)) (net.Addr, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.Local)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // too many open files, which is no reason to close the tunnel
				time.Sleep(acceptPause)
				continue
			}
			go func() {
				if err := c.pass(ctx, conn, f.Remote); err != nil && ctx.Err() == nil {
					failed(fmt.Errorf("%s: %w", f.Remote, err))
				}
			}()
		}
	}()
	return listener.Addr(), nil
}

func (c *Client) pass(ctx context.Context, here net.Conn, remote string) error {
	defer here.Close()
	there, err := c.ssh.DialContext(ctx, "tcp", remote)
	if err != nil {
		return err
	}
	defer there.Close()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{here, there}, {there, here}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // one side closed
			if w, ok := pair[0].(interface{ CloseWrite() error }); ok {
				_ = w.CloseWrite()
			}
		})
	}
	both.Wait()
	return nil
}
