package enginetest

import (
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/instance/initproto"
)

// startOrder: a member that runs once ends before those that wait for it start.
func startOrder(s *suite, t *testing.T) {
	setup := sh("setup", `sleep 0.2; echo prepared >order; echo setup done`)
	setup.Restart = initproto.RestartNever
	web := sh("web", `cat order; echo main; `+waiting)
	web.After, setup.StopAfter = []string{"setup"}, []string{"web"}
	_, f := s.run(t, web, setup)
	f.line("setup done")
	if e := f.event(initproto.EventExited); !e.Harmless || e.Status != 0 {
		t.Errorf("the step ended with %+v, want it harmless", e)
	}
	f.line("prepared")
	f.line("main")
	f.event(initproto.EventHealthy)
}

// restarts: a member that fails is started again alone.
func restarts(s *suite, t *testing.T) {
	helper := sh("helper", `test -e failed || { touch failed; echo first life; exit 3; }; echo second life; `+waiting)
	helper.Restart = initproto.RestartOnFailure
	id, f := s.run(t, sh("web", waiting), helper)
	f.line("first life")
	if e := f.event(initproto.EventExited); e.Status != 3 || e.Restart <= 0 {
		t.Errorf("the helper exited with %+v, want a restart", e)
	}
	f.line("second life")
	in := s.get(t, id)
	if len(in.State.Members) != 2 || in.State.Members[1].Restarts != 1 || !in.Running {
		t.Errorf("the state is %+v, want one restart of the helper", in.State)
	}
}

// stopOrder: a member that stops after another is told when that one is gone, by its own
// signal and after its command.
func stopOrder(s *suite, t *testing.T) {
	last := sh("shipper", `trap 'test -e flushed && echo shipper told; exit 0' INT; echo shipper; while :; do sleep 0.02; done`)
	last.StopAfter, last.StopSignal, last.PreStop = []string{"web"}, 2, []string{"/bin/sh", "-c", "echo >flushed"}
	id, f := s.run(t, sh("web", `trap 'echo web told; sleep 0.2; exit 0' TERM; echo web; while :; do sleep 0.02; done`),
		last)
	// Both must have set their traps.
	for range 2 {
		f.until("both begin", func(r initproto.Record) bool {
			text := string(r.Payload)
			return r.Kind == initproto.Stdout && (text == "web" || text == "shipper")
		})
	}
	testkit.Must(t, s.Signal(within(t), id))
	f.line("web told")
	if e := f.event(initproto.EventExited); !e.Cancelled {
		t.Errorf("web exited with %+v", e)
	}
	f.line("shipper told")
	f.end()
	if x := s.awaitGone(t, id).State.Exit; x == nil || !x.Stopped {
		t.Errorf("exit: %+v", x)
	}
}

// companions: sidecars of a one-off instance end with its command, which decides its status;
// one that fails before makes it fail.
func companions(s *suite, t *testing.T) {
	t.Run("End", func(t *testing.T) {
		t.Parallel()
		helper := sh("helper", `trap 'echo helper told; exit 5' TERM; echo >up; while :; do sleep 0.02; done`)
		spec := s.spec(t, sh("task", `until test -e up; do sleep 0.02; done; echo task done`), helper)
		spec.Launch.OneOff = true
		id := s.start(t, spec)
		f := s.follow(t, id, 0)
		f.line("task done")
		f.line("helper told")
		f.end()
		if x := s.awaitGone(t, id).State.Exit; x == nil || x.Status != 0 {
			t.Errorf("exit: %+v, want that of the command", x)
		}
	})
	t.Run("Fail", func(t *testing.T) {
		t.Parallel()
		spec := s.spec(t, sh("task", `trap 'exit 0' TERM; echo >up; while :; do sleep 0.02; done`),
			sh("helper", `until test -e up; do sleep 0.02; done; exit 7`))
		spec.Launch.OneOff = true
		id := s.start(t, spec)
		s.follow(t, id, 0).end()
		if x := s.awaitGone(t, id).State.Exit; x == nil || x.Status != 7 ||
			!strings.Contains(x.Description, "HELPER: Exited with status 7") {
			t.Errorf("exit: %+v, want that of the helper", x)
		}
	})
}
