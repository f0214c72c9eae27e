package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Load sends requests over persistent connections, one after another on each
// connection, for a while. It shares the processors with the server it measures,
// so it does as little as possible: requests are prepared bytes, and of a
// response only the status and the end are parsed.
type Load struct {
	Addr        string
	TLS         *tls.Config // nil without TLS
	Requests    [][]byte    // sent in turn
	Connections int
	Duration    time.Duration
	// Want is the status that every response must have; 0 means 200.
	Want int
	// PID is the process id of the server, for its processor time; 0 for none.
	PID int
}

// answerTimeout limits how long a response may take after the round is over.
const answerTimeout = 15 * time.Second

// want returns the status that every response must have.
func (l Load) want() int { return cmp.Or(l.Want, http.StatusOK) }

// Run is a Contender. It fails if any response has another status than l.Want.
func (l Load) Run(ctx context.Context) (Result, error) {
	var workers []*worker
	defer func() {
		for _, w := range workers {
			_ = w.conn.Close()
		}
	}()
	for i := range l.Connections {
		w, err := dialWith(ctx, l.Addr, l.TLS)
		if err != nil {
			return Result{}, err
		}
		workers = append(workers, &worker{wire: w, next: i, latencies: make([]time.Duration, 0, 1<<14),
			statuses: map[int]int{}})
	}
	serverBefore, ownBefore := serverTime(l.PID), processorTime(selfPID)
	began := time.Now()
	deadline := began.Add(l.Duration)
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() { w.run(ctx, l.Requests, deadline) })
	}
	all.Wait()
	serverTook, ownTook := serverTime(l.PID)-serverBefore, processorTime(selfPID)-ownBefore
	return l.sum(workers, time.Since(began), serverTook, ownTook)
}

func (l Load) sum(workers []*worker, took, server, own time.Duration) (Result, error) {
	var result Result
	statuses := map[int]int{}
	for _, w := range workers {
		if w.err != nil {
			return Result{}, w.err
		}
		result.Latencies = append(result.Latencies, w.latencies...)
		for status, n := range w.statuses {
			statuses[status] += n
		}
	}
	if len(statuses) != 1 || statuses[l.want()] == 0 {
		var parts []string
		for _, status := range slices.Sorted(maps.Keys(statuses)) {
			parts = append(parts, fmt.Sprintf("%d times %d", statuses[status], status))
		}
		return Result{}, fmt.Errorf("not every answer was %d (%s); 429 would mean that a rate limit was hit",
			l.want(), strings.Join(parts, ", "))
	}
	n := len(result.Latencies)
	slices.Sort(result.Latencies)
	result.PerSecond = float64(n) / took.Seconds()
	result.Server, result.Load = server/time.Duration(n), own/time.Duration(n)
	return result, nil
}

// Exactly sends each request once, over the given number of connections.
func (l Load) Exactly(ctx context.Context) error {
	queue := make(chan []byte, len(l.Requests))
	for _, r := range l.Requests {
		queue <- r
	}
	close(queue)
	errs := make([]error, l.Connections)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			w, err := dialWith(ctx, l.Addr, l.TLS)
			if err != nil {
				errs[i] = err
				return
			}
			defer w.conn.Close()
			for request := range queue {
				status, err := w.do(request)
				if err == nil && status != l.want() {
					err = fmt.Errorf("answer %d to %q", status, firstLine(request))
				}
				if errs[i] = errors.Join(err, ctx.Err()); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

type worker struct {
	*wire
	next      int
	latencies []time.Duration
	statuses  map[int]int
	err       error
}

func (w *worker) run(ctx context.Context, requests [][]byte, deadline time.Time) {
	for last := time.Now(); last.Before(deadline); {
		status, err := w.do(requests[w.next%len(requests)])
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			w.err = err
			return
		}
		now := time.Now()
		w.latencies = append(w.latencies, now.Sub(last))
		w.statuses[status]++
		w.next++
		last = now
	}
}

// wire is a minimal HTTP/1.1 client connection.
type wire struct {
	conn net.Conn
	r    *bufio.Reader
	// fresh is when the deadline of the connection was set.
	fresh time.Time
}

func dial(ctx context.Context, addr string) (*wire, error) { return dialWith(ctx, addr, nil) }

// dialWith is like dial, with TLS if it has a configuration.
func dialWith(ctx context.Context, addr string, secured *tls.Config) (*wire, error) {
	var conn net.Conn
	var err error
	if secured != nil {
		conn, err = dialTLS(ctx, addr, secured)
	} else {
		conn, err = (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, r: bufio.NewReaderSize(conn, 16<<10)}, nil
}

// do sends a request and reads the whole response.
func (w *wire) do(request []byte) (status int, err error) {
	if now := time.Now(); now.Sub(w.fresh) > time.Second {
		w.fresh = now
		if err := w.conn.SetDeadline(now.Add(answerTimeout)); err != nil {
			return 0, err
		}
	}
	if _, err := w.conn.Write(request); err != nil {
		return 0, err
	}
	return readAnswer(w.r)
}

var (
	headerLength  = []byte("content-length:")
	headerChunked = []byte("transfer-encoding:")
)

// readAnswer reads one response and discards everything but its status.
func readAnswer(r *bufio.Reader) (status int, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("not an HTTP/1.1 answer: %.40q", line)
	}
	if status, err = parseInt(line[9:12], 10); err != nil {
		return 0, err
	}
	length, chunked := -1, false
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		if value, ok := header(line, headerLength); ok {
			if length, err = parseInt(value, 10); err != nil {
				return 0, err
			}
		} else if _, ok := header(line, headerChunked); ok {
			chunked = true
		}
	}
	switch {
	case chunked:
		return status, skipChunks(r)
	case length >= 0:
		_, err = r.Discard(length)
		return status, err
	case status == http.StatusNoContent || status == http.StatusNotModified:
		return status, nil
	}
	return 0, errors.New("response without length")
}

func header(line, name []byte) (value []byte, ok bool) {
	if len(line) < len(name) || !bytes.EqualFold(line[:len(name)], name) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name):]), true
}

func skipChunks(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := parseInt(bytes.TrimSpace(line), 16)
		if err != nil {
			return err
		}
		// Each chunk is followed by an empty line, also the last, because no
		// trailers are requested.
		if _, err := r.Discard(size + 2); err != nil {
			return err
		}
		if size == 0 {
			return nil
		}
	}
}

func parseInt(text []byte, base int) (int, error) {
	n, err := strconv.ParseUint(string(text), base, 31)
	return int(n), err
}

// get returns a GET request as bytes; extra are complete header lines.
func get(addr, path string, extra ...string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nAccept: application/json\r\n" +
		lines(extra) + "\r\n")
}

// post returns a request with a form as bytes.
func post(addr, path, form string, extra ...string) []byte {
	return []byte("POST " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nAccept: application/json\r\n" +
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: " + strconv.Itoa(len(form)) + "\r\n" +
		lines(extra) + "\r\n" + form)
}

func lines(headers []string) string {
	var b strings.Builder
	for _, h := range headers {
		_, _ = io.WriteString(&b, h+"\r\n")
	}
	return b.String()
}

func firstLine(request []byte) string {
	line, _, _ := strings.Cut(string(request), "\r\n")
	return line
}
