//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

// A farm is the agents of Pods that have no containers. It listens on the address of each,
// which is one of loopback.
type farm struct {
	ctx    context.Context //nolint:containedctx // the lifetime of the farm
	listen net.ListenConfig
	// streams is the number of open connections for records, launched the number of
	// instances.
	streams, launched atomic.Int64

	mu   sync.Mutex
	pods map[string]*fakeAgent // by address
}

type fakeAgent struct {
	listener net.Listener
	instance string
	config   *tls.Config
	launched atomic.Bool
}

func newFarm(ctx context.Context) *farm { return &farm{ctx: ctx, pods: map[string]*fakeAgent{}} }

// close stops listening.
func (f *farm) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.pods {
		a.listener.Close()
	}
}

// forget ends the agent at an address.
func (f *farm) forget(ip string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.pods[ip]; a != nil {
		a.listener.Close()
		delete(f.pods, ip)
	}
}

// learn starts the agent of a Pod at an address.
func (f *farm) learn(ip string, p *simPod) error {
	values := map[string]string{}
	for _, v := range p.Spec.Containers[0].Env {
		values[v.Name] = v.Value
	}
	var seed [32]byte
	text, err := base64.StdEncoding.DecodeString(values[agentproto.EnvSeed])
	if err != nil || copy(seed[:], text) != len(seed) {
		return fmt.Errorf("the Pod %s has no seed", p.Metadata.Name)
	}
	authority, err := base64.StdEncoding.DecodeString(values[agentproto.EnvCA])
	if err != nil {
		return err
	}
	config, err := agentproto.ServerConfig(seed, authority)
	if err != nil {
		return err
	}
	a := &fakeAgent{instance: values[agentproto.EnvInstance], config: config}
	if a.listener, err = f.listen.Listen(f.ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(agentproto.Port))); err != nil {
		return err
	}
	f.mu.Lock()
	f.pods[ip] = a
	f.mu.Unlock()
	go f.accept(a.listener)
	return nil
}

func (f *farm) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go f.serve(f.ctx, c)
	}
}

// serve answers one connection as the agent of the Pod with its address.
func (f *farm) serve(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	host, _, _ := net.SplitHostPort(raw.LocalAddr().String())
	f.mu.Lock()
	a := f.pods[host]
	f.mu.Unlock()
	if a == nil {
		return // its Pod is gone
	}
	secured := tls.Server(raw, a.config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return
	}
	c := agentproto.NewConn(secured)
	purpose, err := agentproto.Welcome(c, a.instance)
	if err != nil {
		return
	}
	defer secured.Close()
	switch purpose {
	case agentproto.ForState:
		err = c.SendJSON(agentproto.Document, agentproto.State{Launched: a.launched.Load(), State: runningState()})
	case agentproto.ForLaunch:
		err = f.launch(c, a)
	case agentproto.ForRecords:
		err = f.records(ctx, c)
	case agentproto.ForExec:
		err = execute(c)
	case agentproto.ForUsage:
		err = c.SendJSON(agentproto.Document, agentproto.Usage{Time: time.Now()})
	case agentproto.ForStop:
		if _, err = c.Expect(agentproto.Document, agentproto.MaxDocument); err == nil {
			err = c.SendJSON(agentproto.Document, struct{}{})
		}
	default:
		err = agentproto.Errorf(agentproto.Refused, "this agent has no files")
	}
	if err != nil {
		c.SendError(err)
	}
}

// lastRecord is the number of the last record of every instance.
const lastRecord = 3

func runningState() []byte {
	text, err := json.Marshal(initproto.State{Phase: initproto.Running, Ready: true, Since: time.Now(),
		Seq: lastRecord, PID: 1})
	if err != nil {
		panic(err) // plain values
	}
	return text
}

// launch receives files and forgets them.
func (f *farm) launch(c *agentproto.Conn, a *fakeAgent) error {
	if a.launched.Load() {
		return agentproto.Errorf(agentproto.Launched, "it was launched before")
	}
	documents := 0
	for inside := false; ; {
		t, _, err := c.Receive(agentproto.MaxSpec)
		switch {
		case err != nil:
			return err
		case t == agentproto.Document:
			documents++
			inside = documents > 1
		case t == agentproto.End && inside:
			inside = false
		case t == agentproto.End:
			if a.launched.CompareAndSwap(false, true) {
				f.launched.Add(1)
			}
			return c.SendJSON(agentproto.Document, agentproto.Facts{Home: "/home/vcap", UID: 2000})
		}
	}
}

// records sends that the instance runs, and then signs of life.
func (f *farm) records(ctx context.Context, c *agentproto.Conn) error {
	payload, err := c.Expect(agentproto.Ack, 8)
	if err != nil {
		return err
	}
	after, err := agentproto.ParsePosition(payload)
	if err != nil {
		return err
	}
	var batch []byte
	for i, event := range []initproto.EventKind{initproto.EventStarted, initproto.EventHealthy, initproto.EventReady} {
		text, err := json.Marshal(initproto.EventBody{Event: event})
		if err != nil {
			return err
		}
		if seq := uint64(i + 1); seq > after {
			batch = initproto.Record{Kind: initproto.Event, Time: time.Now(), Seq: seq, Payload: text}.Append(batch)
		}
	}
	if len(batch) > 0 {
		if err := c.Send(agentproto.Data, batch); err != nil {
			return err
		}
	}
	f.streams.Add(1)
	defer f.streams.Add(-1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			if _, err := c.Expect(agentproto.Ack, 8); err != nil {
				return
			}
		}
	}()
	beat := time.NewTicker(agentproto.Beat)
	defer beat.Stop()
	for {
		select {
		case <-gone:
			return nil
		case <-ctx.Done():
			return errors.New("the farm is closed")
		case <-beat.C:
			if err := c.Send(agentproto.Heartbeat); err != nil {
				return err
			}
		}
	}
}

// execute answers as the command of a trial.
func execute(c *agentproto.Conn) error {
	if _, err := c.Expect(agentproto.Document, agentproto.MaxDocument); err != nil {
		return err
	}
	err := errors.Join(
		c.SendJSON(agentproto.Document, struct{}{}),
		c.Send(agentproto.Stdout, []byte("works\n")), c.Send(agentproto.Stdout), c.Send(agentproto.Stderr),
		c.Send(agentproto.Exit, []byte{0, 0, 0, 0}),
	)
	for err == nil { // until the client closes it
		_, _, err = c.Receive(agentproto.MaxFrame)
	}
	return nil
}
