package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/internal/platform/instance/initproto"
)

const (
	firstPause   = 2 * time.Millisecond // between checks while starting; it grows
	longestPause = 500 * time.Millisecond
	// maxFailures is the number of failures in a row that make a healthy instance
	// unhealthy.
	maxFailures = 3
	loopback    = "127.0.0.1"
)

// needsCheck reports whether there is anything to check.
func needsCheck(c initproto.Check) bool {
	return c.Kind == initproto.CheckHTTP || c.Kind == initproto.CheckPort && len(c.Ports) > 0
}

// watchHealth runs the health check until the instance is unhealthy or ctx is
// done. The rules are in the comment of initproto.Check.
func watchHealth(ctx context.Context, c initproto.Check, of subject, post func(event)) {
	c = c.WithDefaults()
	deadline := time.Now().Add(c.Startup)
	var wrong elsewhere
	for pause := firstPause; ; pause = min(pause*3/2, longestPause) {
		err := of.probe(ctx, c, false)
		if err == nil {
			break
		}
		if reason, certain := wrong.look(time.Now(), of, err, c.Ports); certain {
			post(event{kind: evUnhealthy, reason: fmt.Sprintf("%s not healthy: %s", of, reason), final: true})
			return
		} else if reason != "" {
			post(event{kind: evWaiting, reason: reason})
		}
		left := time.Until(deadline)
		if left <= 0 {
			post(event{kind: evUnhealthy, reason: fmt.Sprintf("%s never healthy after %s: %s", of, c.Startup,
				of.explained(err, c.Ports))})
			return
		}
		if !sleep(ctx, min(pause, left)) {
			return
		}
	}
	post(event{kind: evHealthy})
	for failures, pause := 0, c.Interval; sleep(ctx, pause); {
		err := of.probe(ctx, c, failures == 0)
		if err == nil {
			failures, pause = 0, c.Interval
			continue
		}
		if failures++; failures == maxFailures {
			post(event{kind: evUnhealthy, reason: fmt.Sprintf("%s became unhealthy: %s", of, of.explained(err, c.Ports))})
			return
		}
		pause = min(c.Interval, c.Invocation)
	}
}

// watchReadiness runs the readiness check until ctx is done.
func watchReadiness(ctx context.Context, c initproto.Check, of subject, post func(event)) {
	c = c.WithDefaults()
	for retry, ready := firstPause, false; ; {
		err := of.probe(ctx, c, ready)
		if ctx.Err() != nil {
			return
		}
		pause := c.Interval
		if ready = err == nil; ready {
			post(event{kind: evReady})
			retry = firstPause
		} else {
			post(event{kind: evNotReady, reason: err.Error()})
			pause = retry
			retry = min(retry*3/2, c.Interval, initproto.ReadinessRetry)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// sleep waits for d and reports whether it passed before ctx was done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// probe runs a check once. One that succeeds although another program listens on the port
// has failed: requests would go to that program. It is not asked again whose the port is
// while the check keeps succeeding.
func (s subject) probe(ctx context.Context, c initproto.Check, succeeding bool) error {
	err := probe(ctx, c)
	if err != nil || succeeding || s.taken == nil || !needsCheck(c) {
		return err
	}
	ports := c.Ports
	if c.Kind == initproto.CheckHTTP {
		ports = ports[:1]
	}
	for _, port := range ports {
		if s.taken(port) {
			return &closedPort{port, "another program on this machine uses it"}
		}
	}
	return nil
}

// probe runs a check once. Its error is a message for users.
func probe(ctx context.Context, c initproto.Check) error {
	ctx, cancel := context.WithTimeout(ctx, c.Invocation)
	defer cancel()
	if c.Kind == initproto.CheckHTTP {
		return lookHTTP(ctx, c)
	}
	for _, port := range c.Ports {
		conn, err := connect(ctx, c, port)
		if err != nil {
			return err
		}
		conn.Close()
	}
	return nil
}

// connect connects to a port of the instance, on any address it listens on.
func connect(ctx context.Context, c initproto.Check, port int) (net.Conn, error) {
	var d net.Dialer
	number := strconv.Itoa(port)
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(loopback, number))
	if err == nil {
		return conn, nil
	}
	for _, address := range ownAddresses() {
		if conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(address, number)); err == nil {
			return conn, nil
		}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		// Something listens there, but is busy or stuck.
		return nil, fmt.Errorf("port %d does not accept connections: %s", port, why(err, c.Invocation))
	}
	return nil, &closedPort{port, why(err, c.Invocation)}
}

// ownAddresses returns the addresses at which others reach the instance.
func ownAddresses() []string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var addresses []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			addresses = append(addresses, n.IP.String())
		}
	}
	return addresses
}

func lookHTTP(ctx context.Context, c initproto.Check) error {
	port := c.Ports[0]
	conn, err := connect(ctx, c, port)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	request := fmt.Sprintf("GET /%s HTTP/1.1\r\nHost: %s:%d\r\nUser-Agent: ingot-init\r\nAccept: */*\r\nConnection: "+
		"close\r\n\r\n",
		strings.TrimPrefix(c.Endpoint, "/"), loopback, port)
	if _, err := conn.Write([]byte(request)); err != nil {
		return fmt.Errorf("no HTTP answer: %s", why(err, c.Invocation))
	}
	line, err := bufio.NewReaderSize(conn, 256).ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("no HTTP answer: %s", why(err, c.Invocation))
	}
	status, ok := parseStatus(string(line))
	switch {
	case !ok:
		return errors.New("the answer is not HTTP")
	case status != 200:
		return fmt.Errorf("HTTP status %d", status)
	}
	return nil
}

// parseStatus parses a status line such as "HTTP/1.1 200 OK".
func parseStatus(line string) (status int, ok bool) {
	version, rest, _ := strings.Cut(line, " ")
	digits, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	status, err := strconv.Atoi(digits)
	return status, strings.HasPrefix(version, "HTTP/1.") && err == nil && len(digits) == 3
}

// why returns the message of the innermost error.
func why(err error, limit time.Duration) string {
	var timeout net.Error
	var number syscall.Errno
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %s", limit)
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.EOF):
		return "connection closed"
	}
	return err.Error()
}
