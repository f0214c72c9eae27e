package enginetest

import (
	"errors"
	"io"
	"slices"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// closing are the tests that need their own engine, because they close it.
var closing = []testCase{
	{name: "Restart", test: restart},
	{name: "RestartAfterEnd", test: restartAfterEnd},
	{name: "RestartAfterKill", test: restartAfterKill},
	{name: "CloseEndsStreams", test: closeEndsStreams},
	{name: "CloseEndsExecs", test: closeEndsExecs},
}

// restart: a restarted server finds its instances, and their records continue where it
// stopped reading.
func restart(s *suite, t *testing.T) {
	spec := s.spec(t, withPort(sh("web", `"$MEMBER" count 2ms & exec "$MEMBER" serve tcp :$PORT up`)), sh("side", waiting))
	spec.Ports = []int{8080}
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	f.line("serving")
	f.line("line 5")
	testkit.Eventually(t, "the instance is ready", func() bool { return s.get(t, id).State.Ready })
	before := s.get(t, id)

	for range 3 {
		position := engine.Position(f.last)
		if err := f.stream.Close(); err != nil {
			t.Error(err)
		}
		s.reopen(t)
		list, err := s.List(within(t), nil)
		if err != nil || len(list) != 1 {
			t.Fatalf("List: %v, %v", list, err)
		}
		after := list[0]
		if !after.Running || after.ID != id || !after.Created.Equal(before.Created) ||
			!slices.Equal(after.Ports, before.Ports) ||
			after.Labels["test"] != before.Labels["test"] || after.State.Phase != initproto.Running {
			t.Errorf("before %+v\nafter %+v", before, after)
		}
		// Starting it again does nothing.
		if err := s.Start(within(t), spec); err != nil {
			t.Errorf("Start: %v", err)
		}
		f = s.follow(t, id, position)
		for range 20 {
			f.line("line ") // the follower checks that there is no gap
		}
		if got, err := get(t, s, id, "tcp", "127.0.0.1:8080"); err != nil || got != "up" {
			t.Errorf("%q, %v", got, err)
		}
		s.sh(t, id, `true`)
		if u, err := s.Usage(within(t), id); err != nil || u.Memory == 0 {
			t.Errorf("Usage: %+v, %v", u, err)
		}
	}
	testkit.Must(t, s.Signal(within(t), id))
	f.event(initproto.EventEnded)
	f.end()
	if i := s.awaitGone(t, id); i.State.Exit == nil || !i.State.Exit.Stopped {
		t.Errorf("state: %+v", i.State)
	}
	s.remove(t, id)
	s.isAbsent(t, id)
}

// restartAfterEnd: an instance that ended while the server was down is found ended, with
// all its records.
func restartAfterEnd(s *suite, t *testing.T) {
	id, f := s.run(t, sh("web", `echo ready; while ! test -e go; do sleep 0.02; done; echo last; exit 3`))
	f.line("ready")
	position := engine.Position(f.last)
	s.lastCall(t, id)
	s.reopen(t)
	f = s.follow(t, id, position)
	f.line("last")
	if e := f.event(initproto.EventExited); e.Status != 3 {
		t.Errorf("exited: %+v", e)
	}
	f.event(initproto.EventEnded)
	f.end()
	s.awaitGone(t, id)
	s.reopen(t)
	if i := s.get(t, id); i.Running || i.State.Exit == nil || i.State.Exit.Status != 3 {
		t.Errorf("instance: %+v", i)
	}
	s.remove(t, id)
}

// restartAfterKill: the same when ingot-init was killed, which writes no end.
func restartAfterKill(s *suite, t *testing.T) {
	if s.o.KillInit == nil {
		t.Skip("no way to kill ingot-init")
	}
	id, f := s.run(t, sh("web", `echo ready; `+waiting))
	f.line("ready")
	s.reopen(t)
	f = s.follow(t, id, engine.Position(f.last))
	s.o.KillInit(t, s.dir, s.Engine, id)
	f.end()
	s.awaitGone(t, id)
	s.reopen(t)
	if i := s.get(t, id); i.Running {
		t.Errorf("instance: %+v", i)
	}
	s.follow(t, id, 0).end()
	s.remove(t, id)
}

func closeEndsStreams(s *suite, t *testing.T) {
	id, f := s.run(t, sh("web", `echo ready; `+waiting))
	f.line("ready")
	f.event(initproto.EventHealthy)
	result := make(chan error, 1)
	go func() {
		for {
			if _, err := f.stream.Next(); err != nil {
				result <- err
				return
			}
		}
	}()
	s.reopen(t)
	if err := <-result; errors.Is(err, io.EOF) {
		t.Error("the stream ended as if the instance had")
	}
	s.remove(t, id)
}

func closeEndsExecs(s *suite, t *testing.T) {
	id, _ := s.host(t)
	p := s.exec(t, id, engine.ExecRequest{Args: []string{"/bin/sh", "-c",
		`trap '' HUP TERM; while :; do sleep 0.02; done`}})
	s.reopen(t)
	if status, err := p.Wait(); err == nil && status != 137 {
		t.Errorf("status %d", status)
	}
	if !s.get(t, id).Running {
		t.Error("the instance has ended too")
	}
	s.remove(t, id)
}
