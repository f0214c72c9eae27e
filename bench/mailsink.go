package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// mailSink is a mail server that accepts and discards everything. It does as
// little as possible, because it shares the processors with what is measured.
type mailSink struct {
	listener net.Listener
	accepted atomic.Int64
	refused  atomic.Int64
	// greylist makes it reject recipients temporarily.
	greylist atomic.Bool
	// slow are messages to slowDomain that were accepted; each waits for slowAnswer.
	slow atomic.Int64
	// last is the newest message, unchanged.
	last atomic.Pointer[[]byte]

	mu    sync.Mutex
	conns map[net.Conn]bool
	work  sync.WaitGroup
}

func startMailSink(ctx context.Context) (*mailSink, error) {
	var l net.ListenConfig
	opened, err := l.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &mailSink{listener: opened, conns: map[net.Conn]bool{}}
	s.work.Go(func() {
		for {
			c, err := opened.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			s.work.Go(func() { s.serve(c) })
		}
	})
	return s, nil
}

func (s *mailSink) addr() string { return s.listener.Addr().String() }

func (s *mailSink) stop() {
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// silence is how long the sink waits for a message before it gives up.
const silence = 30 * time.Second

// await waits until count has reached n.
func (s *mailSink) await(ctx context.Context, count *atomic.Int64, n int64) error {
	return s.awaitFor(ctx, count, n, silence)
}

// awaitFor is await with another time without a message after which it gives up.
func (s *mailSink) awaitFor(ctx context.Context, count *atomic.Int64, n int64, silence time.Duration) error {
	last, since := int64(-1), time.Now()
	for now := count.Load(); now < n; now = count.Load() {
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > silence {
			return fmt.Errorf("%d messages are missing: none received for %s", n-now, silence)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// The replies and commands of SMTP.
var (
	sinkHello   = []byte("250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 ENHANCEDSTATUSCODES\r\n")
	sinkOK      = []byte("250 2.0.0 Ok\r\n")
	sinkGo      = []byte("354 Go on\r\n")
	sinkNoRcpt  = []byte("503 5.5.1 No recipients\r\n")
	sinkLater   = []byte("451 4.7.1 Greylisted, come again in 7200 seconds\r\n")
	sinkBye     = []byte("221 2.0.0 Bye\r\n")
	sinkUnknown = []byte("500 5.5.2 Unknown\r\n")
	endOfMail   = []byte(".\r\n")
)

func (s *mailSink) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 8<<10)
	_, _ = w.WriteString("220 sink ESMTP\r\n")
	known := false // whether a recipient was accepted
	count := &s.accepted
	for {
		if r.Buffered() == 0 && w.Flush() != nil {
			return
		}
		line, err := r.ReadSlice('\n')
		if err != nil || len(line) < 4 {
			return
		}
		answer := sinkOK
		switch string(bytes.ToUpper(line[:4])) {
		case "EHLO":
			answer = sinkHello
		case "MAIL":
			known = false
		case "RCPT":
			known = !s.greylist.Load()
			count = &s.accepted
			if bytes.Contains(line, slowDomain) {
				count = &s.slow
				if w.Flush() != nil {
					return
				}
				time.Sleep(slowAnswer)
			}
			if !known {
				s.refused.Add(1)
				answer = sinkLater
			}
		case "DATA":
			answer = sinkNoRcpt
			if known {
				_, _ = w.Write(sinkGo)
				if answer = sinkOK; w.Flush() != nil || s.content(r, count) != nil {
					return
				}
			}
		case "RSET", "NOOP":
		case "QUIT":
			_, _ = w.Write(sinkBye)
			_ = w.Flush()
			return
		default:
			answer = sinkUnknown
		}
		_, _ = w.Write(answer) // an error persists until Flush
	}
}

// Messages to slowDomain get their answer after slowAnswer.
var slowDomain = []byte("@slow.example")

const slowAnswer = 2 * time.Second

// content reads a message and counts it. Every thousandth is kept.
func (s *mailSink) content(r *bufio.Reader, count *atomic.Int64) error {
	var keep []byte
	kept := s.accepted.Load()%1000 == 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if kept {
			keep = append(keep, line...)
		}
		if bytes.Equal(line, endOfMail) {
			break
		}
	}
	if kept {
		s.last.Store(&keep)
	}
	count.Add(1)
	return nil
}

// bareMail sends the same message n times over some connections, each message as
// soon as the previous one was accepted: the limit of any service that delivers
// to this sink.
func (s *mailSink) bareMail(connections, n int) Contender {
	return func(ctx context.Context) (Result, error) {
		content := s.last.Load()
		if content == nil {
			return Result{}, errors.New("the sink has seen no message to repeat")
		}
		errs := make([]error, connections)
		var all sync.WaitGroup
		began := time.Now()
		for i := range connections {
			all.Go(func() { errs[i] = repeatMail(ctx, s.addr(), *content, i, n/connections) })
		}
		all.Wait()
		return Result{PerSecond: float64(n/connections*connections) / time.Since(began).Seconds()}, errors.Join(errs...)
	}
}

func repeatMail(ctx context.Context, addr string, content []byte, worker, n int) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	expect := func(code string) error {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return err
			}
			if line[:3] != code {
				return fmt.Errorf("the sink answered %q", line)
			}
			if line[3] == ' ' {
				return nil
			}
		}
	}
	if err := expect("220"); err != nil {
		return err
	}
	if _, err := c.Write([]byte("EHLO bench\r\n")); err != nil {
		return err
	}
	if err := expect("250"); err != nil {
		return err
	}
	for i := range n {
		envelope := "MAIL FROM:<bench@example.org>\r\nRCPT TO:<user-" + strconv.Itoa(worker) + "-" + strconv.Itoa(i) +
			"@example.org>\r\nDATA\r\n"
		if _, err := c.Write([]byte(envelope)); err != nil {
			return err
		}
		for _, code := range []string{"250", "250", "354"} {
			if err := expect(code); err != nil {
				return err
			}
		}
		if _, err := c.Write(content); err != nil {
			return err
		}
		if err := expect("250"); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
