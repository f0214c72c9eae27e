//go:build linux

package agent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/agent/agenttest"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/agentserver"
	"ingot/internal/platform/instance/initproto"
)

const id = "instance-1"

// world is an agent in this process, whose instance is fake.
type world struct {
	t         *testing.T
	ip, home  string
	authority *agent.Authority
	agent     *agentserver.Agent
	records   *initproto.Writer
	output    *output
	stop      chan os.Signal
	launched  chan *agentserver.Launch // nil if it gave up
	instance  *fakeInstance
	*agent.Client
}

// output is the agent's standard output.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

type fakeInstance struct{ stopped chan bool }

// Exec starts a process of this test.
func (f *fakeInstance) Exec(m initproto.Member, files [3]*os.File, terminal bool,
	exited func(int)) (func(syscall.Signal), error) {
	cmd := exec.Command(m.Args[0], m.Args[1:]...)
	cmd.Env, cmd.Dir = m.Env, m.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: terminal}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	over := false
	go func() {
		state, _ := cmd.Process.Wait()
		mu.Lock()
		defer mu.Unlock()
		over = true
		status := state.ExitCode()
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			status = 128 + int(ws.Signal())
		}
		exited(status)
	}()
	return func(sig syscall.Signal) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			_ = syscall.Kill(-cmd.Process.Pid, sig)
		}
	}, nil
}

func (f *fakeInstance) Stop(kill bool) { f.stopped <- kill }

// listen starts an agent.
func listen(t *testing.T, change func(*agentserver.Config)) *world {
	t.Helper()
	authority, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, home: t.TempDir(), ip: agenttest.Address(), authority: authority, output: &output{},
		stop:     make(chan os.Signal, 1),
		launched: make(chan *agentserver.Launch, 1), instance: &fakeInstance{stopped: make(chan bool, 10)},
	}
	c := agentserver.Config{
		Instance: id, Seed: agent.Seed(agenttest.InstallKey, id), CA: authority.Certificate(), IP: net.ParseIP(w.ip),
		Home: w.home, Output: w.output,
	}
	if change != nil {
		change(&c)
	}
	if w.agent, err = agentserver.Listen(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.agent.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	w.records = initproto.NewStreamWriter(w.agent)
	go func() {
		l := w.agent.AwaitLaunch(w.stop)
		if l != nil {
			l.Accept(w.instance)
		}
		w.launched <- l
	}()
	w.Client = w.dialer(nil).At(id, agenttest.Port(w.ip), agenttest.Key(id))
	return w
}

// dialer returns a dialer with a certificate; nil means a valid one.
func (w *world) dialer(c *tls.Certificate) *agent.Dialer {
	w.t.Helper()
	if c == nil {
		own, err := w.authority.Client("server")
		if err != nil {
			w.t.Fatal(err)
		}
		c = &own
	}
	return &agent.Dialer{Certificate: *c}
}

// connect opens a connection for a purpose, to break the protocol on it.
func (w *world) connect(p agentproto.Purpose) *agentproto.Conn {
	w.t.Helper()
	own, err := w.authority.Client("server")
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := tls.Dial("tcp", agenttest.Port(w.ip), agentproto.ClientConfig(own, agenttest.Key(id)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { raw.Close() })
	c := agentproto.NewConn(raw)
	if _, err := agentproto.Greet(c, p, id); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// launch is a launch with these archives.
func launch(files ...engine.Archive) agent.Launch {
	return agent.Launch{
		Spec: initproto.Spec{Instance: id, Members: []initproto.Member{{Name: "web", Source: "APP",
			Args: []string{"true"}}}},
		Files:  files,
		Limits: engine.Limits{Memory: 64 << 20, Disk: 64 << 20},
	}
}

func (w *world) launch() {
	w.t.Helper()
	if _, err := w.Launch(within(w.t), launch()); err != nil {
		w.t.Fatal(err)
	}
	<-w.launched
}

// say writes a record.
func (w *world) say(text string) uint64 {
	w.t.Helper()
	seq, err := w.records.Append(initproto.Stdout, time.Now(), 0, []byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	return seq
}

func archive(name, content string) engine.Archive {
	return engine.Archive{Target: "app", Open: func() (io.ReadCloser, error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		return io.NopCloser(&b), errors.Join(err, w.Close())
	}}
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
