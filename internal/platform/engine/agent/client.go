package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

// ErrWrongAgent means that another agent than the expected one answers at the address.
var ErrWrongAgent = agentproto.ErrWrongAgent

// ErrLaunched means that the instance was launched before.
var ErrLaunched = errors.New("the instance is already launched")

// errLaunching means that another launch is in progress, which may still fail.
var errLaunching = errors.New("another launch is in progress")

// ErrNotLaunched means that the instance was not launched yet.
var ErrNotLaunched = errors.New("the instance is not launched yet")

// ErrEnded means that the instance has ended.
var ErrEnded = errors.New("the instance has ended")

// ErrUnreached means that there was no connection to the agent.
var ErrUnreached = errors.New("no connection")

// dialTime limits how long a connection may take: a node that is cut off does not refuse it.
const dialTime = 3 * time.Second

// Dialer connects to agents.
type Dialer struct {
	// Certificate is this server's, issued by the installation's Authority.
	Certificate tls.Certificate
	// Dial connects to an address; nil means a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// At returns the client of one instance, whose agent is at address, as host:port. key is
// what the agent must prove to have; with another key calls fail with ErrWrongAgent.
func (d *Dialer) At(id, address string, key ed25519.PublicKey) *Client {
	return &Client{d: d, id: id, address: address, key: key}
}

// Client talks to the agent of one instance. It holds no connection between calls and is
// safe for concurrent use.
type Client struct {
	d           *Dialer
	id, address string
	key         ed25519.PublicKey
}

// connect opens a connection for a purpose. Until the returned stop is called, it is closed
// when ctx ends.
func (c *Client) connect(ctx context.Context, p agentproto.Purpose) (conn *agentproto.Conn, stop func() bool,
	err error) {
	dial := c.d.Dial
	if dial == nil {
		d := net.Dialer{Timeout: dialTime}
		dial = d.DialContext
	}
	short, cancel := context.WithTimeout(ctx, agentproto.HelloTime)
	defer cancel()
	raw, err := dial(short, "tcp", c.address)
	if err != nil {
		return nil, nil, fmt.Errorf("agent of %s: %w: %w", c.id, ErrUnreached, err)
	}
	secured := tls.Client(raw, agentproto.ClientConfig(c.d.Certificate, c.key))
	stop = background.OnDone(ctx, "agent connection", func() { _ = raw.Close() })
	conn = agentproto.NewConn(secured)
	err = secured.HandshakeContext(short)
	if err == nil {
		err = conn.SetReadDeadline(time.Now().Add(agentproto.HelloTime))
	}
	if err == nil {
		_, err = agentproto.Greet(conn, p, c.id)
	}
	if err != nil {
		stop()
		_ = raw.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, nil, fmt.Errorf("agent of %s: %w", c.id, translate(err))
	}
	return conn, stop, conn.SetReadDeadline(time.Time{})
}

// call connects, runs f and closes the connection. When ctx ends, f's reads and writes
// fail.
func (c *Client) call(ctx context.Context, p agentproto.Purpose, f func(conn *agentproto.Conn) error) error {
	conn, stop, err := c.connect(ctx, p)
	if err != nil {
		return err
	}
	defer stop()
	defer conn.Close()
	err = f(conn)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s by the agent of %s: %w", p, c.id, translate(err))
}

// translate returns the error of this package or the engine for an agent's refusal.
func translate(err error) error {
	var refused *agentproto.Error
	if !errors.As(err, &refused) {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // the agent closed the connection
		}
		return err
	}
	switch refused.Code {
	case agentproto.BadInstance:
		return ErrWrongAgent
	case agentproto.Launched:
		return ErrLaunched
	case agentproto.Launching:
		return errLaunching
	case agentproto.NotLaunched:
		return ErrNotLaunched
	case agentproto.Ended:
		return ErrEnded
	case agentproto.NotFound:
		return fmt.Errorf("%w: %s", os.ErrNotExist, refused.Text)
	case agentproto.TooLarge:
		return fault.Wrap(refused, fault.Unprocessable,
			"the files of the app need more than its disk limit: raise it with 'cf scale APP -k' or 'cf push -k'")
	}
	return refused
}

// receive receives an answer, for which the agent has time until limit is over.
func receive(conn *agentproto.Conn, limit time.Duration, v any) error {
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	return conn.ExpectJSON(agentproto.Document, agentproto.MaxDocument, v)
}

// Launch is what an instance needs to run.
type Launch struct {
	// Spec has no placeholders: the caller replaces them.
	Spec initproto.Spec
	// Files are unpacked in order before anything runs.
	Files []engine.Archive
	// Limits are for the files, the reported memory, open files and processes. The others
	// are not the agent's.
	Limits engine.Limits
	// Linger is how long the agent waits after the end for its last record to be
	// acknowledged; 0 means 15 minutes.
	Linger time.Duration
}

// Facts are what an agent reports about itself.
type Facts = agentproto.Facts

// launchTime limits a launch.
const launchTime = 15 * time.Minute

// launchPause is the pause before the next try while another launch is in progress.
const launchPause = 250 * time.Millisecond

// Launch sends the instance's files and starts its members. It returns ErrLaunched if it
// was launched before. If it fails otherwise, the agent forgets what was sent and can be
// launched again. While another server launches it, Launch waits for the result of that.
func (c *Client) Launch(ctx context.Context, l Launch) (Facts, error) {
	l.Spec.Protocol = l.Spec.Needs()
	spec, err := json.Marshal(l.Spec)
	if err != nil {
		return Facts{}, err
	}
	if len(spec) > agentproto.MaxSpec/2 {
		return Facts{}, fault.New(fault.Unprocessable, "the environment of the app is too large")
	}
	for {
		facts, err := c.launch(ctx, l, spec)
		if !errors.Is(err, errLaunching) {
			return facts, err
		}
		if !background.Sleep(ctx, launchPause) {
			return Facts{}, ctx.Err()
		}
	}
}

func (c *Client) launch(ctx context.Context, l Launch, spec []byte) (facts Facts, err error) {
	err = c.call(ctx, agentproto.ForLaunch, func(conn *agentproto.Conn) error {
		// The agent may refuse in the middle: then there is no use in sending the rest.
		answer := background.Async("agent launch", func() error {
			err := receive(conn, launchTime, &facts)
			if err != nil {
				conn.Abort()
			}
			return err
		})
		sent := l.send(ctx, conn, spec)
		if sent != nil {
			conn.Abort()
		}
		answered := <-answer
		var refused *agentproto.Error
		if sent == nil || errors.As(answered, &refused) {
			return answered
		}
		return sent
	})
	return facts, err
}

func (l Launch) send(ctx context.Context, conn *agentproto.Conn, spec []byte) error {
	err := conn.SendJSON(agentproto.Document, agentproto.Launch{
		Spec: spec, Disk: l.Limits.Disk, Memory: l.Limits.Memory, Files: l.Limits.Files, PIDs: l.Limits.PIDs,
		Linger: l.Linger,
	})
	if err != nil {
		return err
	}
	for i, a := range l.Files {
		if err := sendArchive(ctx, conn, a); err != nil {
			return fmt.Errorf("files %d, into %q: %w", i+1, a.Target, err)
		}
	}
	return conn.Send(agentproto.End)
}

func sendArchive(ctx context.Context, conn *agentproto.Conn, a engine.Archive) error {
	r, err := a.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := conn.SendJSON(agentproto.Document, agentproto.Archive{Target: a.Target, ReadOnly: a.ReadOnly}); err != nil {
		return err
	}
	sum := sha256.New()
	size := int64(0)
	buf := make([]byte, agentproto.Chunk)
	for {
		n, err := io.ReadFull(r, buf)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if n > 0 {
			sum.Write(buf[:n])
			size += int64(n)
			if err := conn.Send(agentproto.Data, buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return conn.SendJSON(agentproto.End, agentproto.Sum{Size: size, SHA256: sum.Sum(nil)})
}

// answerTime limits short answers.
const answerTime = 20 * time.Second

// maxMembers limits the members of a state.
const maxMembers = 1000

// State returns the newest state of the instance, and whether it was launched.
func (c *Client) State(ctx context.Context) (initproto.State, bool, error) {
	var answer agentproto.State
	var state initproto.State
	err := c.call(ctx, agentproto.ForState, func(conn *agentproto.Conn) error {
		if err := receive(conn, answerTime, &answer); err != nil || !answer.Launched {
			return err
		}
		if err := json.Unmarshal(answer.State, &state); err != nil {
			return fmt.Errorf("%w: %w", agentproto.ErrFrame, err)
		}
		if len(state.Members) > maxMembers {
			return fmt.Errorf("%w: a state with %d members", agentproto.ErrFrame, len(state.Members))
		}
		return nil
	})
	if err != nil {
		return initproto.State{}, false, err
	}
	return state, answer.Launched, nil
}

// Usage returns what the instance uses.
func (c *Client) Usage(ctx context.Context) (engine.Usage, error) {
	var u agentproto.Usage
	err := c.call(ctx, agentproto.ForUsage, func(conn *agentproto.Conn) error { return receive(conn, answerTime, &u) })
	if err != nil {
		return engine.Usage{}, err
	}
	used := engine.Usage{
		Time: time.Now().UTC(), CPUTime: max(0, u.CPUTime), Memory: max(0, u.Memory), MemoryLimit: max(0, u.MemoryLimit),
		Disk: max(0, u.Disk), OOMKills: max(0, u.OOMKills),
	}
	for _, m := range u.Members[:min(len(u.Members), maxMembers)] {
		one := engine.MemberUsage{CPUTime: max(0, m.CPUTime), Memory: max(0, m.Memory)}
		if err := json.Unmarshal(m.State, &one.State); err != nil {
			return engine.Usage{}, fmt.Errorf("%w: state of a member: %w", agentproto.ErrFrame, err)
		}
		used.Members = append(used.Members, one)
	}
	return used, nil
}

// Stop stops the instance: gracefully, and then the agent stays until its last record is
// acknowledged; or, with kill, at once, and the agent leaves without waiting for anything.
// It returns when the agent has accepted the request.
func (c *Client) Stop(ctx context.Context, kill bool) error {
	return c.call(ctx, agentproto.ForStop, func(conn *agentproto.Conn) error {
		if err := conn.SendJSON(agentproto.Document, agentproto.Stop{Kill: kill}); err != nil {
			return err
		}
		return receive(conn, answerTime, new(struct{}))
	})
}

// maxCollect limits what an agent sends: more than any disk limit.
const maxCollect = 64 << 30

// Collect writes a path below the instance's home to w as a tar stream; see engine.Engine.
// The path is relative to home.
func (c *Client) Collect(ctx context.Context, path string, w io.Writer) error {
	return c.call(ctx, agentproto.ForCollect, func(conn *agentproto.Conn) error {
		if err := conn.SendJSON(agentproto.Document, agentproto.Collect{Path: path}); err != nil {
			return err
		}
		sum := sha256.New()
		for size := int64(0); ; {
			if err := conn.SetReadDeadline(time.Now().Add(agentproto.Patience)); err != nil {
				return err
			}
			t, payload, err := conn.Receive(agentproto.MaxFrame)
			switch {
			case err != nil:
				return err
			case t == agentproto.Data:
				size += int64(len(payload))
				if size > maxCollect {
					return fmt.Errorf("%w: too much data", agentproto.ErrFrame)
				}
				sum.Write(payload)
				if _, err := w.Write(payload); err != nil {
					return err
				}
			case t == agentproto.End:
				var told agentproto.Sum
				if json.Unmarshal(payload, &told) != nil || told.Size != size || string(told.SHA256) != string(sum.Sum(nil)) {
					return fmt.Errorf("%w: checksum", agentproto.ErrFrame)
				}
				return nil
			default:
				return fmt.Errorf("%w: type %d", agentproto.ErrFrame, t)
			}
		}
	})
}

// Dial connects to an address as seen from inside the instance. ctx limits the connecting
// only.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, stop, err := c.connect(ctx, agentproto.ForDial)
	if err != nil {
		return nil, err
	}
	err = conn.SendJSON(agentproto.Document, agentproto.Dial{Network: network, Address: address})
	if err == nil {
		err = receive(conn, answerTime, new(struct{}))
	}
	if err == nil {
		err = errors.Join(conn.SetReadDeadline(time.Time{}), conn.SetWriteDeadline(time.Time{}))
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("dial %s %s by the agent of %s: %w", network, address, c.id, translate(err))
	}
	return conn.Conn, nil
}
