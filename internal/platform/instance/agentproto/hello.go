package agentproto

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Greeting is the first frame of a server.
type Greeting struct {
	Newest, Oldest uint16 // the versions that the server speaks
	Purpose        Purpose
	Instance       string
}

const (
	greetingHeader = 5
	maxInstance    = 128
)

// Append appends the payload of the greeting.
func (g Greeting) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, g.Newest)
	b = binary.BigEndian.AppendUint16(b, g.Oldest)
	b = append(b, byte(g.Purpose))
	return append(b, g.Instance...)
}

// ParseGreeting parses the payload of a greeting. A newer server may add purposes, but not
// change the form.
func ParseGreeting(b []byte) (Greeting, error) {
	if len(b) <= greetingHeader || len(b) > greetingHeader+maxInstance {
		return Greeting{}, fmt.Errorf("%w: hello of %d bytes", ErrFrame, len(b))
	}
	g := Greeting{
		Newest: binary.BigEndian.Uint16(b), Oldest: binary.BigEndian.Uint16(b[2:]),
		Purpose: Purpose(b[4]), Instance: string(b[greetingHeader:]),
	}
	if g.Oldest == 0 || g.Oldest > g.Newest {
		return Greeting{}, fmt.Errorf("%w: versions %d to %d", ErrFrame, g.Oldest, g.Newest)
	}
	return g, nil
}

// common returns the newest version that both sides speak.
func common(newest, oldest, otherNewest, otherOldest uint16) (uint16, bool) {
	v := min(newest, otherNewest)
	return v, v >= max(oldest, otherOldest)
}

// Greet sends the greeting of a server and returns the version to speak.
func Greet(c *Conn, p Purpose, instance string) (uint16, error) {
	g := Greeting{Newest: Version, Oldest: Oldest, Purpose: p, Instance: instance}
	if err := c.Send(Hello, g.Append(nil)); err != nil {
		return 0, err
	}
	answer, err := c.Expect(Hello, maxInstance)
	if err != nil {
		return 0, err
	}
	if len(answer) < 2 {
		return 0, fmt.Errorf("%w: hello of %d bytes", ErrFrame, len(answer))
	}
	v := binary.BigEndian.Uint16(answer)
	if v < Oldest || v > Version {
		return 0, Errorf(BadVersion, "the agent speaks version %d, this server %d to %d", v, Oldest, Version)
	}
	return v, nil
}

// Welcome receives the greeting of a server and answers it. If it fails, the refusal was
// sent.
func Welcome(c *Conn, instance string) (Purpose, error) {
	p, err := welcome(c, instance)
	if err != nil {
		c.SendError(err)
		return 0, err
	}
	return p, c.SetReadDeadline(time.Time{})
}

func welcome(c *Conn, instance string) (Purpose, error) {
	if err := c.SetReadDeadline(time.Now().Add(HelloTime)); err != nil {
		return 0, err
	}
	payload, err := c.Expect(Hello, greetingHeader+maxInstance)
	if err != nil {
		return 0, err
	}
	g, err := ParseGreeting(payload)
	if err != nil {
		return 0, Errorf(Malformed, "%s", err)
	}
	v, ok := common(Version, Oldest, g.Newest, g.Oldest)
	switch {
	case !ok:
		return 0, Errorf(BadVersion, "the server speaks versions %d to %d, this agent %d to %d", g.Oldest, g.Newest,
			Oldest, Version)
	case g.Instance != instance:
		return 0, Errorf(BadInstance, "this is the agent of another instance")
	case !g.Purpose.valid():
		return 0, Errorf(Malformed, "unknown %s", g.Purpose)
	}
	return g.Purpose, c.Send(Hello, binary.BigEndian.AppendUint16(nil, v))
}
