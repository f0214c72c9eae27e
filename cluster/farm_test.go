//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

// A farm is the agents of many Pods that have no containers. It listens on the address
// of each, which is one of loopback.
type farm struct {
	api    string
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

// startFarm starts the agents of the Pods in the namespace of apps.
func startFarm(t *testing.T, api string) *farm {
	t.Helper()
	f := &farm{api: api, pods: map[string]*fakeAgent{}}
	ctx, cancel := context.WithCancel(context.Background())
	f.ctx = ctx
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			_ = f.watch(ctx) // the API server ends it from time to time
			pause(ctx, 100*time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		work.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, a := range f.pods {
			a.listener.Close()
		}
	})
	return f
}

// watch learns the addresses and the seeds of Pods.
func (f *farm) watch(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.api+"/api/v1/namespaces/"+appsNamespace+
		"/pods?watch=1&resourceVersion=0", http.NoBody)
	if err != nil {
		return err
	}
	response, err := caller.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for events := json.NewDecoder(response.Body); ; {
		var e struct {
			Type   string
			Object corev1.Pod
		}
		if err := events.Decode(&e); err != nil {
			return err
		}
		if e.Type != "DELETED" { // another Pod may have its address already
			f.learn(&e.Object)
		}
	}
}

func (f *farm) learn(p *corev1.Pod) {
	if p.Status.PodIP == "" || len(p.Spec.Containers) == 0 {
		return
	}
	values := map[string]string{}
	for _, v := range p.Spec.Containers[0].Env {
		values[v.Name] = v.Value
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.pods[p.Status.PodIP]; known != nil && known.instance == values[agentproto.EnvInstance] {
		return
	}
	var seed [32]byte
	text, err := base64.StdEncoding.DecodeString(values[agentproto.EnvSeed])
	if err != nil || copy(seed[:], text) != len(seed) {
		return
	}
	authority, err := base64.StdEncoding.DecodeString(values[agentproto.EnvCA])
	if err != nil {
		return
	}
	config, err := agentproto.ServerConfig(seed, authority)
	if err != nil {
		return
	}
	a := &fakeAgent{instance: values[agentproto.EnvInstance], config: config}
	if before := f.pods[p.Status.PodIP]; before != nil {
		a.listener = before.listener
	} else {
		if a.listener, err = f.listen.Listen(f.ctx, "tcp", net.JoinHostPort(p.Status.PodIP,
			strconv.Itoa(agentproto.Port))); err != nil {
			return // its server does not reach it, and the test says how many are missing
		}
		go f.accept(a.listener)
	}
	f.pods[p.Status.PodIP] = a
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
		return // refused until the watch reports it
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
