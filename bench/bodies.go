package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var bodiesSection = Section{
	Name: "bodies",
	About: "answers and uploads of 1 and 64 kB, with their length and in chunks, and frames of WebSockets, compared " +
		"with a stock httputil.ReverseProxy, nginx and haproxy",
	Run: measureBodies,
}

const (
	bodyConnections = 64
	smallBody       = 1 << 10
	largeBody       = 64 << 10
	frameSize       = 125 // the largest whose length fits into the first two bytes
)

func measureBodies(ctx context.Context, r *Report) (err error) {
	rounds, d := 4, 2*time.Second
	if r.Short {
		rounds, d = 1, time.Second
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	bits, err := newUpload(program, "bodies")
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	p.Memory = "512M"
	app, err := p.Push(ctx, "bodies", bits)
	defer func() { err = errors.Join(err, p.Remove(ctx, app)) }()
	if err != nil {
		return err
	}
	direct, err := p.address(ctx, app)
	if err != nil {
		return err
	}
	peers, err := r.startPeers(ctx, direct, app.Host)
	defer func() {
		for _, peer := range peers {
			err = errors.Join(err, peer.stop())
		}
	}()
	if err != nil {
		return err
	}
	all := append([]*peer{{name: "ingot", addr: p.API, pid: p.PID}}, peers...)
	if err := compareBodies(ctx, r, rounds, d, app.Host, all); err != nil {
		return err
	}
	p.noteEngine(r)
	r.Note("the best of %d rounds of %s each, with %d connections; the rounds of all take turns, and all share the %d "+
		"processors with the app and the load generator. Frames have %d bytes and are echoed by the app.", rounds, d,
		bodyConnections, runtime.NumCPU(), frameSize)
	return nil
}

// compareBodies measures all peers with each kind of body.
func compareBodies(ctx context.Context, r *Report, rounds int, d time.Duration, host string, all []*peer) error {
	for _, kind := range []struct {
		name    string
		request []byte // nil for frames
	}{
		{"answers of 1 kB", get(host, "/?bytes="+strconv.Itoa(smallBody))},
		{"answers of 64 kB", get(host, "/?bytes="+strconv.Itoa(largeBody))},
		{"answers of 64 kB in chunks", get(host, "/?chunked=1&bytes="+strconv.Itoa(largeBody))},
		{"uploads of 1 kB", putOf(host, smallBody, false)},
		{"uploads of 64 kB", putOf(host, largeBody, false)},
		{"uploads of 64 kB in chunks", putOf(host, largeBody, true)},
		{"frames", nil},
	} {
		var contenders []Contender
		for _, one := range all {
			run := Load{Addr: one.addr, Requests: [][]byte{kind.request}, Connections: bodyConnections, Duration: d,
				PID: one.pid}.Run
			if kind.request == nil {
				run = frames(one, host, bodyConnections, d)
			}
			contenders = append(contenders, func(ctx context.Context) (Result, error) {
				got, err := run(ctx)
				if err != nil {
					err = fmt.Errorf("%s, %s: %w", one.name, kind.name, err)
				}
				return got, err
			})
		}
		best, err := bestOf(ctx, rounds, contenders...)
		if err != nil {
			return err
		}
		for i, one := range all[1:] {
			goal := Goal{}
			if one.name != nameStock {
				goal = ShareOf(proxyGoal)
			}
			r.Add(besides(kind.name, best[0], one.name, best[i+1], goal))
		}
	}
	return nil
}

// putOf returns a request with a body of n bytes.
func putOf(host string, n int, chunked bool) []byte {
	body := strings.Repeat("x", n)
	head := "PUT /upload HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/octet-stream\r\n"
	if !chunked {
		return []byte(head + "Content-Length: " + strconv.Itoa(n) + "\r\n\r\n" + body)
	}
	var b strings.Builder
	b.WriteString(head + "Transfer-Encoding: chunked\r\n\r\n")
	for part := range slices.Chunk([]byte(body), largeBody/8) {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
	}
	b.WriteString("0\r\n\r\n")
	return []byte(b.String())
}

// frames sends frames over WebSockets, and waits for the echo of each before the next one.
func frames(one *peer, host string, connections int, d time.Duration) Contender {
	return func(ctx context.Context) (result Result, err error) {
		sockets := make([]*socket, connections)
		defer func() {
			for _, s := range sockets {
				if s != nil {
					_ = s.conn.Close()
				}
			}
		}()
		for i := range sockets {
			if sockets[i], err = openSocket(ctx, one, host); err != nil {
				return result, err
			}
		}
		before := serverTime(one.pid)
		began := time.Now()
		errs := make([]error, connections)
		latencies := make([][]time.Duration, connections)
		var all sync.WaitGroup
		for i, s := range sockets {
			all.Go(func() { latencies[i], errs[i] = s.run(ctx, began.Add(d)) })
		}
		all.Wait()
		took := time.Since(began)
		if err := errors.Join(errs...); err != nil {
			return result, err
		}
		result.Latencies = slices.Concat(latencies...)
		slices.Sort(result.Latencies)
		n := len(result.Latencies)
		result.PerSecond = float64(n) / took.Seconds()
		result.Server = (serverTime(one.pid) - before) / time.Duration(max(n, 1))
		return result, nil
	}
}

// socket is the client's end of a WebSocket.
type socket struct {
	*wire
	frame, answer []byte
}

func openSocket(ctx context.Context, one *peer, host string) (*socket, error) {
	w, err := dialWith(ctx, one.addr, one.tls)
	if err != nil {
		return nil, err
	}
	s := &socket{wire: w, answer: make([]byte, 2+frameSize)}
	s.frame = append([]byte{0x82, 0x80 | frameSize, 1, 2, 3, 4}, make([]byte, frameSize)...)
	_, err = w.conn.Write(get(host, "/echo", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
	if err != nil {
		return s, err
	}
	res, err := http.ReadResponse(w.r, nil) //nolint:bodyclose // the connection is closed
	if err != nil {
		return s, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return s, fmt.Errorf("%s answered the handshake with %s", one.name, res.Status)
	}
	return s, nil
}

// run sends frames until the deadline.
func (s *socket) run(ctx context.Context, deadline time.Time) (latencies []time.Duration, err error) {
	if err := s.conn.SetDeadline(deadline.Add(answerTimeout)); err != nil {
		return nil, err
	}
	for last := time.Now(); last.Before(deadline); {
		if _, err := s.conn.Write(s.frame); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(s.r, s.answer); err != nil {
			return nil, err
		}
		if s.answer[0] != s.frame[0] || s.answer[1] != frameSize {
			return nil, fmt.Errorf("a frame came back as % x", s.answer[:2])
		}
		now := time.Now()
		latencies = append(latencies, now.Sub(last))
		last = now
	}
	return latencies, ctx.Err()
}
