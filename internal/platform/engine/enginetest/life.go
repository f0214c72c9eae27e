package enginetest

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

const waiting = `exec "$MEMBER" wait`

var lifeCases = []testCase{
	{name: "Start", test: start},
	{name: "Environment", test: environment},
	{name: "StartTwice", test: startTwice},
	{name: "StartFails", test: startFails},
	{name: "StartCancelled", test: startCancelled},
	{name: "NoProgram", test: noProgram},
	{name: "Records", test: records},
	{name: "DevStdout", test: devStdout},
	{name: "RecordsEnd", test: recordsEnd},
	{name: "Ack", test: ack},
	{name: "StreamClosed", test: streamClosed},
	{name: "Exits", test: exits},
	{name: "Codependent", test: codependent},
	{name: "StartOrder", test: startOrder},
	{name: "Restarts", test: restarts},
	{name: "StopOrder", test: stopOrder},
	{name: "Companions", test: companions},
	{name: "Signal", test: signal},
	{name: "Stubborn", test: stubborn},
	{name: "FirstThread", test: firstThread},
	{name: "Remove", test: remove},
	{name: "RemoveStubborn", test: removeStubborn},
	{name: "RemoveEnded", test: removeEnded},
	{name: "Absent", test: absent},
	{name: "KillInit", test: killInit},
	{name: "Many", test: many},
	{name: "Usage", test: usage},
}

// environment: members have the environment of their spec, and nothing of the engine's.
func environment(s *suite, t *testing.T) {
	m := sh("web", `env | sed "s/^/variable /"; echo "variable end"; `+waiting)
	m.Env = append(m.Env, "HOME={{home}}/app", "COLOUR=green")
	_, f := s.run(t, m)
	own := map[string]bool{"PWD": true, "OLDPWD": true, "SHLVL": true, "_": true} // the shell's
	want := map[string]bool{}
	for _, v := range m.Env {
		name, _, _ := strings.Cut(v, "=")
		want[name] = true
	}
	for {
		name, _, more := strings.Cut(strings.TrimSpace(f.line("variable")), "=")
		if !more {
			break
		}
		if !want[name] && !own[name] {
			t.Errorf("it finds %s in its environment", name)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("it does not find %v", want)
	}
}

func start(s *suite, t *testing.T) {
	before := time.Now().Add(-time.Second)
	spec := s.spec(t, sh("web", `echo out; echo err >&2; `+waiting))
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	f.event(initproto.EventStarted)
	f.event(initproto.EventHealthy)

	i := s.get(t, id)
	if i.ID != id || i.Labels["test"] != t.Name() || !i.Running || i.State.Phase != initproto.Running {
		t.Errorf("instance: %+v", i)
	}
	if i.Created.Before(before) || i.Created.After(time.Now().Add(time.Second)) {
		t.Errorf("created %v", i.Created)
	}
	if i.Host == "" || i.Internal == "" {
		t.Errorf("addresses %q and %q", i.Host, i.Internal)
	}
	list, err := s.List(within(t), nil)
	if err != nil || !slices.ContainsFunc(list, func(i engine.Instance) bool { return i.ID == id && i.Running }) {
		t.Errorf("List: %v, %v", list, err)
	}
	none, err := s.List(within(t), func(labels map[string]string) bool { return !maps.Equal(labels, i.Labels) })
	if err != nil || slices.ContainsFunc(none, func(i engine.Instance) bool { return i.ID == id }) {
		t.Errorf("List of others: %v, %v", none, err)
	}

	again := s.follow(t, id, 0)
	for _, want := range []struct {
		kind initproto.Kind
		text string
	}{{initproto.Stdout, "out"}, {initproto.Stderr, "err"}} {
		own := s.follow(t, id, 0)
		r := own.until(want.text, func(r initproto.Record) bool { return string(r.Payload) == want.text })
		if r.Kind != want.kind || r.Member != 0 || r.Time.Before(before) {
			t.Errorf("record %+v", r)
		}
	}
	if again.line("out"); again.last == 0 {
		t.Error("the stream does not begin with record 1")
	}
}

func startTwice(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `echo once; `+waiting))
	t.Cleanup(func() { s.remove(t, spec.ID) })
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			if err := s.Start(within(t), spec); err != nil {
				t.Errorf("Start: %v", err)
			}
		})
	}
	work.Wait()
	f := s.follow(t, spec.ID, 0)
	f.line("once")
	if err := s.Start(within(t), spec); err != nil {
		t.Errorf("Start again: %v", err)
	}
	testkit.Must(t, s.Signal(within(t), spec.ID))
	f.end()
	// It has ended, but exists: nothing to do.
	if err := s.Start(within(t), spec); err != nil {
		t.Errorf("Start after the end: %v", err)
	}
	f = s.follow(t, spec.ID, 0)
	f.end()
	if n := f.count(" once"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func startFails(s *suite, t *testing.T) {
	for name, spoil := range map[string]func(*engine.Spec){
		"Open": func(e *engine.Spec) {
			e.Files = append(e.Files, engine.Archive{Open: func() (io.ReadCloser, error) {
				return nil,
					errors.New("no such blob")
			}})
		},
		"NoTar": func(e *engine.Spec) {
			e.Files = append(e.Files, archiveOf("app", []byte(strings.Repeat("no tar", 1000))))
		},
		"Outside": func(e *engine.Spec) { e.Files = append(e.Files, archiveOf("../app", tarOf(file("x", 0o644, "x")))) },
		"Evil":    func(e *engine.Spec) { e.Files = append(e.Files, archiveOf("app", tarOf(file("../../x", 0o644, "x")))) },
		"Members": func(e *engine.Spec) { e.Launch.Members = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := s.spec(t, sh("web", waiting))
			good := spec
			spoil(&spec)
			t.Cleanup(func() { s.remove(t, spec.ID) })
			if err := s.Start(within(t), spec); err == nil {
				t.Fatal("it started")
			}
			s.isAbsent(t, spec.ID)
			// A correct start succeeds afterwards.
			if err := s.Start(within(t), good); err != nil {
				t.Fatalf("Start: %v", err)
			}
			s.follow(t, spec.ID, 0).event(initproto.EventHealthy)
		})
	}
	for _, id := range []string{"", ".", "..", "../x", "a/b", "/x", "a b", strings.Repeat("x", 300)} {
		spec := s.spec(t, sh("web", waiting))
		spec.ID = id
		if err := s.Start(within(t), spec); err == nil {
			t.Errorf("id %q was accepted", id)
		}
		if _, err := s.Get(within(t), id); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("Get %q: %v", id, err)
		}
		if err := s.Remove(within(t), id); err != nil {
			t.Errorf("Remove %q: %v", id, err)
		}
	}
}

func (s *suite) isAbsent(t *testing.T, id string) {
	t.Helper()
	if _, err := s.Get(within(t), id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	list, err := s.List(within(t), nil)
	if err != nil || slices.ContainsFunc(list, func(i engine.Instance) bool { return i.ID == id }) {
		t.Errorf("List: %v, %v", list, err)
	}
}

func startCancelled(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", waiting))
	t.Cleanup(func() { s.remove(t, spec.ID) })
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	// In the middle: while its files are being unpacked.
	spec.Files = append(spec.Files, engine.Archive{Open: func() (io.ReadCloser, error) {
		cancel()
		return archiveOf("", tarOf(file("x", 0o644, "x"))).Open()
	}})
	if err := s.Start(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Fatalf("Start: %v", err)
	}
	s.isAbsent(t, spec.ID)
}

func noProgram(s *suite, t *testing.T) {
	m := sh("web", "")
	m.Args = []string{"{{home}}/nothing-here"}
	id, f := s.run(t, m)
	if e := f.event(initproto.EventEnded); e.Reason == "" {
		t.Error("no reason was given")
	}
	f.end()
	if exit := s.awaitGone(t, id).State.Exit; exit == nil || exit.Status == 0 || exit.Stopped {
		t.Errorf("exit: %+v", exit)
	}
}

func records(s *suite, t *testing.T) {
	id, f := s.run(t, sh("web", `for i in 1 2 3 4 5; do echo line $i; done; `+waiting))
	f.line("line 5")
	all := f.seen
	for after := range f.last {
		other := s.follow(t, id, engine.Position(after))
		other.line("line 5")
		if !slices.Equal(other.seen, all[after:]) {
			t.Errorf("after %d:\n%s", after, strings.Join(other.seen, "\n"))
		}
	}
}

// devStdout opens the standard streams by name, as web servers do to log.
func devStdout(s *suite, t *testing.T) {
	_, f := s.run(t, sh("web", `echo "by name" >/dev/stdout; `+waiting),
		sh("sidecar", `echo "errors by name" >/dev/stderr; `+waiting))
	f.line("by name")
	_, f = s.run(t, sh("web", `echo "errors by name" >/dev/stderr; `+waiting))
	f.line("errors by name")
}

func recordsEnd(s *suite, t *testing.T) {
	id, f := s.run(t, sh("web", `echo only; exit 4`))
	f.event(initproto.EventEnded)
	if r, ok := f.next(); ok {
		t.Errorf("after the end: %s", r.Payload)
	}
	s.awaitGone(t, id)
	for after := range f.last + 1 {
		other := s.follow(t, id, engine.Position(after))
		other.end()
		if !slices.Equal(other.seen, f.seen[after:]) {
			t.Errorf("after %d:\n%s", after, strings.Join(other.seen, "\n"))
		}
	}
}

// ack: acknowledged records need not be kept, but nothing else is lost.
func ack(s *suite, t *testing.T) {
	id, f := s.run(t, sh("web", `echo first; while ! test -e go; do sleep 0.02; done; echo last; exit 3`))
	f.line("first")
	for seq := range f.last {
		if err := f.stream.Ack(engine.Position(seq + 1)); err != nil {
			t.Fatalf("Ack: %v", err)
		}
	}
	other := s.follow(t, id, engine.Position(f.last))
	s.lastCall(t, id)
	for _, reader := range []*follower{f, other} {
		reader.line("last")
		reader.event(initproto.EventEnded)
		reader.end()
	}
	if err := f.stream.Ack(engine.Position(f.last - 1)); err != nil {
		t.Fatalf("Ack: %v", err)
	}
	if x := s.awaitGone(t, id).State.Exit; x == nil || x.Status != 3 {
		t.Errorf("exit: %+v, want status 3", x)
	}
	s.follow(t, id, engine.Position(f.last-1)).event(initproto.EventEnded)
	s.follow(t, id, engine.Position(f.last)).end()
}

func streamClosed(s *suite, t *testing.T) {
	id, f := s.run(t, sh("web", `echo there; `+waiting))
	f.line("there")
	f.event(initproto.EventHealthy)
	for name, end := range map[string]func(engine.Stream, context.CancelFunc){
		"Close":  func(s engine.Stream, _ context.CancelFunc) { _ = s.Close() },
		"Cancel": func(_ engine.Stream, cancel context.CancelFunc) { cancel() },
	} {
		ctx, cancel := context.WithCancel(within(t))
		stream, err := s.Records(ctx, id, engine.Position(f.last))
		testkit.Must(t, err)
		result := make(chan error, 1)
		go func() {
			var err error
			for err == nil { // other events may follow
				_, err = stream.Next()
			}
			result <- err
		}()
		end(stream, cancel)
		if err := <-result; err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: Next returned %v, as if the instance had ended", name, err)
		}
		if err := stream.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
		cancel()
	}
}

func exits(s *suite, t *testing.T) {
	for name, c := range map[string]struct {
		script string
		status int
	}{
		"Zero":    {`exit 0`, 0},
		"Three":   {`exit 3`, 3},
		"Term":    {`kill -TERM $$`, 143},
		"Kill":    {`kill -KILL $$`, 137},
		"Segv":    {`kill -SEGV $$`, 139},
		"Sibling": {`sleep 1000 & exit 5`, 5},
	} {
		for kind, oneOff := range map[string]bool{"": false, "OneOff": true} {
			t.Run(name+kind, func(t *testing.T) {
				t.Parallel()
				spec := s.spec(t, sh("web", c.script))
				spec.Launch.OneOff = oneOff
				id := s.start(t, spec)
				f := s.follow(t, id, 0)
				if e := f.event(initproto.EventExited); e.Status != c.status || e.Cancelled || e.OOM {
					t.Errorf("exited: %+v", e)
				}
				f.event(initproto.EventEnded)
				f.end()
				i := s.awaitGone(t, id)
				if i.State.Phase != initproto.Ended || i.State.Exit == nil {
					t.Fatalf("state: %+v", i.State)
				}
				success := oneOff && c.status == 0 // nothing to report
				if x := i.State.Exit; x.Status != c.status || x.Stopped || x.OOM || x.Description == "" && !success {
					t.Errorf("exit: %+v", x)
				}
			})
		}
	}
}

func codependent(s *suite, t *testing.T) {
	id, f := s.run(t,
		sh("web", `trap 'echo main told; exit 0' TERM; echo main; while :; do sleep 0.02; done`),
		sh("side", `while ! test -e go; do sleep 0.02; done; exit 7`))
	f.event(initproto.EventStarted)
	f.line("main")
	if len(s.get(t, id).State.Members) != 2 {
		t.Errorf("state: %+v", s.get(t, id).State)
	}
	s.lastCall(t, id)
	f.event(initproto.EventEnded)
	f.end()
	if f.count(" main told") != 1 {
		t.Errorf("main was not told to go:\n%s", strings.Join(f.seen, "\n"))
	}
	if x := s.awaitGone(t, id).State.Exit; x == nil || x.Status != 7 || x.Stopped ||
		!strings.Contains(strings.ToLower(x.Description), "side") {
		t.Errorf("exit: %+v", x)
	}
}

func signal(s *suite, t *testing.T) {
	id, f := s.run(t, sh("web", `trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.02; done`))
	f.line("ready")
	testkit.Must(t, s.Signal(within(t), id))
	f.line("told")
	if e := f.event(initproto.EventExited); e.Status != 0 || !e.Cancelled || e.Overdue {
		t.Errorf("exited: %+v", e)
	}
	f.end()
	if x := s.awaitGone(t, id).State.Exit; x == nil || !x.Stopped {
		t.Errorf("exit: %+v", x)
	}
	if err := s.Signal(within(t), id); err != nil {
		t.Errorf("Signal after the end: %v", err)
	}
}

func stubborn(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `trap 'echo no' TERM; echo ready; while :; do sleep 0.02; done`))
	spec.Launch.Grace = 300 * time.Millisecond
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	f.line("ready")
	began := time.Now()
	testkit.Must(t, s.Signal(within(t), id))
	if e := f.event(initproto.EventExited); e.Status != 137 || !e.Overdue {
		t.Errorf("exited: %+v", e)
	}
	if d := time.Since(began); d < spec.Launch.Grace {
		t.Errorf("it was killed after %v", d)
	}
	f.end()
}

// firstThread: a process whose first thread has ended looks like one that has ended. It still
// runs, and is killed like others.
func firstThread(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `"$MEMBER" detach headless; `+waiting))
	spec.Launch.Grace = 300 * time.Millisecond
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	f.line("detached")
	testkit.Must(t, s.Signal(within(t), id))
	f.end()
	s.awaitGone(t, id)

	id = s.start(t, s.spec(t, sh("web", `"$MEMBER" detach headless; `+waiting)))
	f = s.follow(t, id, 0)
	f.line("detached")
	s.remove(t, id)
	f.end()
}

func remove(s *suite, t *testing.T) {
	id, f := s.run(t, sh("web", `"$MEMBER" detach; sleep 1000 & `+waiting))
	f.line("detached")
	s.remove(t, id)
	f.end()
	s.isAbsent(t, id)
	s.remove(t, id)
	// The id is free, and its records start again.
	again := s.spec(t, sh("web", `echo anew; `+waiting))
	again.ID, again.Launch.Instance = id, id
	s.start(t, again)
	s.follow(t, id, 0).line("anew")
}

func removeStubborn(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `trap '' TERM; echo ready; while :; do sleep 1000; done`))
	spec.Launch.Grace = time.Hour
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	f.line("ready")
	testkit.Must(t, s.Signal(within(t), id))
	s.remove(t, id)
	s.isAbsent(t, id)
}

func removeEnded(s *suite, t *testing.T) {
	id, f := s.run(t, sh("web", `mkdir locked; touch locked/x; chmod 0 locked; exit 1`))
	f.end()
	s.remove(t, id)
	s.isAbsent(t, id)
}

func absent(s *suite, t *testing.T) {
	const id = "never-was"
	ctx := within(t)
	for name, call := range map[string]func() error{
		"Get":     func() error { _, err := s.Get(ctx, id); return err },
		"Signal":  func() error { return s.Signal(ctx, id) },
		"Records": func() error { _, err := s.Records(ctx, id, 0); return err },
		"Exec": func() error {
			_, err := s.Exec(ctx, id, engine.ExecRequest{Args: []string{"true"}})
			return err
		},
		"Dial":    func() error { _, err := s.Dial(ctx, id, "tcp", "127.0.0.1:1"); return err },
		"Usage":   func() error { _, err := s.Usage(ctx, id); return err },
		"Collect": func() error { return s.Collect(ctx, id, ".", io.Discard) },
	} {
		if err := call(); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Remove(ctx, id); err != nil {
		t.Errorf("Remove: %v", err)
	}
}

func killInit(s *suite, t *testing.T) {
	if s.o.KillInit == nil {
		t.Skip("no way to kill ingot-init")
	}
	id, f := s.run(t, sh("web", `"$MEMBER" detach; "$MEMBER" detach headless; (sleep 1000 & env -i sleep 1000 &) ; echo ready; `+waiting))
	f.line("ready")
	f.event(initproto.EventHealthy)
	s.o.KillInit(t, s.dir, s.Engine, id)
	f.end()
	if i := s.awaitGone(t, id); i.State.Phase == initproto.Ended {
		t.Errorf("state: %+v", i.State)
	}
	s.remove(t, id)
	s.isAbsent(t, id)
}

func many(s *suite, t *testing.T) {
	var work sync.WaitGroup
	for range s.o.Many {
		spec := s.spec(t, sh("web", `echo I am $ME; `+waiting))
		spec.Launch.Members[0].Env = append(spec.Launch.Members[0].Env, "ME="+spec.ID)
		work.Go(func() {
			id := s.start(t, spec)
			f := s.follow(t, id, 0)
			if me := f.line("I am "); me != id {
				t.Errorf("%s is %s", id, me)
			}
			f.event(initproto.EventHealthy)
			if err := s.Signal(within(t), id); err != nil {
				t.Error(err)
			}
			f.end()
			s.remove(t, id)
		})
	}
	work.Wait()
}

func usage(s *suite, t *testing.T) {
	const size = 64
	id, f := s.run(t, sh("web", `head -c 8388608 /dev/zero >zeroes; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exec "$MEMBER" hog 64`))
	f.line("has")
	u := s.usageOf(t, id, func(u engine.Usage) bool { return u.Memory >= size<<20 })
	if u.Memory < size<<20 || u.Memory > 4*size<<20 {
		t.Errorf("memory: %d", u.Memory)
	}
	if u.MemoryLimit != 256<<20 || u.Disk < 8<<20 || u.Disk > 64<<20 {
		t.Errorf("memory limit %d, disk %d", u.MemoryLimit, u.Disk)
	}
	if u.CPUTime <= 0 || u.CPUTime > patience || time.Since(u.Time) > patience {
		t.Errorf("processor %v, at %v", u.CPUTime, u.Time)
	}
	later, err := s.Usage(within(t), id)
	if err != nil || later.CPUTime < u.CPUTime {
		t.Errorf("processor time went back from %v to %v, %v", u.CPUTime, later.CPUTime, err)
	}
}
