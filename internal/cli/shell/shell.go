package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// Login is the address and the credentials of a connection.
type Login struct {
	Address     string // host:port
	Fingerprint string
	User        string
	Password    string
}

// Client is a connection to an instance.
type Client struct{ ssh *ssh.Client }

// keepAlive is the interval of keep-alive requests.
const keepAlive = 30 * time.Second

// Dial connects to an instance.
func Dial(ctx context.Context, l Login) (*Client, error) {
	conn, err := (&net.Dialer{Timeout: 15 * time.Second}).DialContext(ctx, "tcp", l.Address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // a connection without deadlines is closed by the context
	c, channels, requests, err := ssh.NewClientConn(conn, l.Address, &ssh.ClientConfig{
		User: l.User, Auth: []ssh.AuthMethod{ssh.Password(l.Password)}, HostKeyCallback: hostKey(l.Fingerprint),
		ClientVersion: "SSH-2.0-ingot",
	})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	client := &Client{ssh.NewClient(c, channels, requests)}
	go client.keepAlive(ctx)
	return client, nil
}

func (c *Client) keepAlive(ctx context.Context) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = c.ssh.Close()
			return
		case <-tick.C:
			if _, _, err := c.ssh.SendRequest("keepalive@cloudfoundry.org", true, nil); err != nil {
				return
			}
		}
	}
}

// Close closes the connection.
func (c *Client) Close() { _ = c.ssh.Close() }

// Terminal is the user's terminal.
type Terminal struct {
	Kind string // $TERM
	// Size returns its height and width.
	Size func() (rows, columns int)
	// Raw switches it to raw mode until the returned function is called.
	Raw func() (restore func(), err error)
	// Changed receives a value when the size may have changed.
	Changed <-chan struct{}
}

// Run runs a command, or a shell if command is empty, and returns its exit code.
func (c *Client) Run(ctx context.Context, command string, in io.Reader, out, errs io.Writer, t *Terminal) (int, error) {
	session, err := c.ssh.NewSession()
	if err != nil {
		return 0, err
	}
	defer session.Close()
	session.Stdin, session.Stdout, session.Stderr = in, out, errs
	if t != nil {
		rows, columns := t.Size()
		modes := ssh.TerminalModes{ssh.ECHO: 1, ssh.TTY_OP_ISPEED: 115200, ssh.TTY_OP_OSPEED: 115200}
		if err := session.RequestPty(t.Kind, rows, columns, modes); err != nil {
			return 0, fmt.Errorf("the instance cannot allocate a terminal: %w", err)
		}
		if t.Raw != nil {
			restore, err := t.Raw()
			if err != nil {
				return 0, err
			}
			defer restore()
		}
		done := make(chan struct{})
		defer close(done)
		go func() {
			for {
				select {
				case <-t.Changed:
					before := [2]int{rows, columns}
					if rows, columns = t.Size(); before != [2]int{rows, columns} {
						_ = session.WindowChange(rows, columns) // a wrong size is not fatal
					}
				case <-done:
					return
				}
			}
		}()
	}
	if command == "" {
		err = session.Shell()
	} else {
		err = session.Start(command)
	}
	if err != nil {
		return 0, err
	}
	finished := make(chan error, 1)
	go func() { finished <- session.Wait() }()
	select {
	case err = <-finished:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return exit.ExitStatus(), nil
	}
	return 0, err
}

// Wait returns when the connection is closed.
func (c *Client) Wait(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- c.ssh.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}
