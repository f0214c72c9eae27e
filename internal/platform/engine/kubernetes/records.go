package kubernetes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

const (
	// tailLines is how much of a log is read to find out how an instance ended.
	tailLines = 500
	// maxLine is larger than every line of a Pod's log that is a record.
	maxLine = 2 * initproto.MaxLineSize
	// retryPause is the pause before an agent is dialed again.
	retryPause = 250 * time.Millisecond
)

// Records streams the records of an instance from its agent. When the Pod has ended
// without the agent having delivered everything, the rest comes from the Pod's log.
func (e *Engine) Records(ctx context.Context, id string, after engine.Position) (engine.Stream, error) {
	p, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	s := &stream{engine: e, parent: ctx, pod: p, last: uint64(after)}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(ctx)
	stop := background.OnDone(e.open, "records of an instance", cancel)
	s.cancel = func() { stop(); cancel() }
	if err := s.connect(time.Now()); err != nil {
		s.cancel()
		if errors.Is(err, io.EOF) {
			err = engine.ErrNotFound // deleted meanwhile
		}
		return nil, err
	}
	return s, nil
}

type stream struct {
	engine *Engine
	parent context.Context //nolint:containedctx // the context of the request for the stream
	ctx    context.Context //nolint:containedctx // the lifetime of the stream
	cancel func()
	pod    *pod
	last   uint64

	mu     sync.Mutex // for Close and Ack
	source engine.Stream
	closed bool

	rest *podLog // the Pod's log, once it has ended
}

// Next returns the next record.
func (s *stream) Next() (initproto.Record, error) {
	for {
		r, err := s.next()
		switch {
		case err == nil && r.Seq <= s.last:
			continue // known already
		case err == nil:
			s.last = r.Seq
			s.engine.learn(s.pod, func(k *known) { fold(&k.state, r); k.launched = true })
			return r, nil
		case s.why() != nil:
			return initproto.Record{}, s.why()
		case errors.Is(err, io.EOF):
			return initproto.Record{}, io.EOF
		}
		// The connection broke: the network, or the end of the Pod.
		s.disconnect()
		heard := time.Now()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			heard = heard.Add(-agentproto.Silence)
		}
		if err := s.connect(heard); err != nil {
			if why := s.why(); why != nil {
				err = why
			}
			return initproto.Record{}, err
		}
	}
}

func (s *stream) next() (initproto.Record, error) {
	if s.rest != nil {
		return s.rest.next()
	}
	s.mu.Lock()
	current := s.source
	s.mu.Unlock()
	if current == nil {
		return initproto.Record{}, os.ErrClosed
	}
	return current.Next()
}

// why returns why a stream was stopped from outside.
func (s *stream) why() error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return os.ErrClosed
	case s.parent.Err() != nil:
		return s.parent.Err()
	case s.engine.open.Err() != nil:
		return errClosed
	}
	return nil
}

// connect opens the agent's stream, or the log of a Pod that has ended. It tries until the
// agent was silent for too long since it was heard. It returns io.EOF if the Pod does not
// exist any more.
func (s *stream) connect(heard time.Time) error {
	e := s.engine
	for {
		err := s.tryConnect()
		if err == nil || errors.Is(err, io.EOF) || s.why() != nil {
			if err == nil {
				e.heard(s.pod)
			}
			return err
		}
		if time.Since(heard) > e.options.Silence && s.pod.over() {
			// What it said last is lost with its node. Its end is known.
			s.rest = emptyLog()
			return nil
		}
		if time.Since(heard) > e.options.Silence || errors.Is(err, agent.ErrWrongAgent) || e.look(s.pod).silent {
			e.silent(s.pod)
			return fmt.Errorf("the agent of instance %s does not answer: %w", s.pod.id(), err)
		}
		select {
		case <-time.After(retryPause):
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-e.open.Done():
			return errClosed
		}
	}
}

func (s *stream) tryConnect() error {
	e := s.engine
	now, err := e.pods.find(s.ctx, s.pod.id())
	switch {
	case errors.Is(err, engine.ErrNotFound) || err == nil && now.UID != s.pod.UID:
		return io.EOF
	case err == nil:
		s.pod = now
	}
	// If the API server does not answer, the agent still may.
	if s.pod.over() {
		rest, err := e.openLog(s.ctx, s.pod, 0)
		if err == nil {
			s.rest = rest
		}
		return err
	}
	c, err := e.agent(s.pod)
	if err != nil {
		return err
	}
	stream, err := c.Records(s.ctx, engine.Position(s.last))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(os.ErrClosed, stream.Close())
	}
	s.source = stream
	e.learn(s.pod, func(k *known) { k.followed, k.node = k.followed+1, s.pod.Spec.NodeName })
	return nil
}

func (s *stream) disconnect() {
	s.mu.Lock()
	current := s.source
	s.source = nil
	s.mu.Unlock()
	if current == nil {
		return
	}
	_ = current.Close() // broken anyway
	s.engine.learn(s.pod, func(k *known) { k.followed-- })
}

// Ack tells the agent which records are stored.
func (s *stream) Ack(p engine.Position) error {
	s.mu.Lock()
	current := s.source
	s.mu.Unlock()
	if current == nil {
		return nil // the Pod has ended, and nothing waits
	}
	return current.Ack(p)
}

// Close ends the stream; a concurrent Next returns.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.disconnect()
	if s.rest != nil {
		return s.rest.close()
	}
	return nil
}

// podLog is the log of a Pod: records, and what the agent has to say beside them.
type podLog struct {
	body   io.ReadCloser
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// logTime limits reading a log: a node that is gone does not answer.
const logTime = time.Minute

// openLog opens the log of a Pod; only the last lines if tail is not 0.
func (e *Engine) openLog(ctx context.Context, p *pod, tail int) (*podLog, error) {
	query := url.Values{"container": {containerName}}
	if tail > 0 {
		query.Set("tailLines", strconv.Itoa(tail))
	}
	at := e.server.JoinPath("api/v1/namespaces", p.Namespace, "pods", p.Name, "log")
	at.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(ctx, logTime)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	answer, err := e.http.Do(r)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("log of Pod %s: %w", p.Name, err)
	}
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		cancel()
		_ = answer.Body.Close()
		return nil, io.EOF
	default:
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // part of a message
		cancel()
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusBadRequest {
			return emptyLog(), nil // it never had a container
		}
		return nil, fmt.Errorf("log of Pod %s: %s: %s", p.Name, answer.Status, text)
	}
	l := &podLog{body: answer.Body, lines: bufio.NewScanner(answer.Body), cancel: cancel}
	l.lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	return l, nil
}

// next returns the next record of the log, and io.EOF at its end.
func (l *podLog) next() (initproto.Record, error) {
	for l.lines.Scan() {
		if r, err := initproto.ParseRecord(l.lines.Bytes()); err == nil {
			return r, nil
		}
	}
	if err := l.lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return initproto.Record{}, err
	}
	return initproto.Record{}, io.EOF
}

func (l *podLog) close() error {
	l.cancel()
	return l.body.Close()
}

func emptyLog() *podLog {
	return &podLog{body: http.NoBody, lines: bufio.NewScanner(http.NoBody), cancel: func() {}}
}

// readLog calls f with the last records of a Pod's log.
func (e *Engine) readLog(ctx context.Context, p *pod, tail int, f func(initproto.Record)) error {
	l, err := e.openLog(ctx, p, tail)
	if errors.Is(err, io.EOF) {
		return engine.ErrNotFound
	}
	if err != nil {
		return err
	}
	defer l.close() //nolint:errcheck // only read
	for {
		r, err := l.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f(r)
	}
}
