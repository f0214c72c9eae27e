package enginetest

import (
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

var memberCases = []testCase{
	{name: "MemberUsage", test: memberUsage},
	{name: "MemberLimit", needs: limitsMembers, test: memberLimit},
	{name: "MemberLimitCodependent", needs: limitsMembers, test: memberLimitCodependent},
	{name: "NoMemberLimit", needs: func(d engine.Description) bool { return !limitsMembers(d) }, test: noMemberLimit},
}

func limitsMembers(d engine.Description) bool { return d.NoMemberLimits == "" }

// memberUsage: what members use is told apart, also of their children and orphans.
func memberUsage(s *suite, t *testing.T) {
	hog := sh("hog", `(exec "$MEMBER" hog 64) & wait`)
	id, f := s.run(t, sh("web", `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo counted; `+waiting), hog)
	f.line("has")
	f.line("counted")
	u := s.usageOf(t, id, func(u engine.Usage) bool {
		return len(u.Members) == 2 && u.Members[1].Memory >= 64<<20 && u.Members[0].CPUTime > 0 &&
			u.Members[0].Memory > 0 // not at the moment in which it becomes another program
	})
	if len(u.Members) != 2 || u.Members[0].State.Name != "web" || u.Members[1].State.Name != "hog" {
		t.Fatalf("members are %+v, want web and hog", u.Members)
	}
	web, big := u.Members[0], u.Members[1]
	if big.Memory < 64<<20 || big.Memory > 256<<20 || web.Memory <= 0 || web.Memory > 48<<20 {
		t.Errorf("web uses %d bytes and hog %d, want that hog has 64 MB more", web.Memory, big.Memory)
	}
	if web.CPUTime <= 0 || web.CPUTime > patience {
		t.Errorf("web has used the processor for %v", web.CPUTime)
	}
	for _, m := range u.Members {
		if m.State.Since.IsZero() || m.State.Restarts != 0 || m.State.LastExit != nil || m.MemoryLimit != 0 {
			t.Errorf("member %+v, want one that was started once, without a limit", m)
		}
	}
}

// usageOf returns the usage of an instance, as soon as it is as wanted: engines need not
// measure it anew for each call.
func (s *suite) usageOf(t *testing.T, id string, wanted func(engine.Usage) bool) engine.Usage {
	t.Helper()
	var u engine.Usage
	testkit.Eventually(t, "the usage that is wanted", func() bool {
		var err error
		if u, err = s.Usage(within(t), id); err != nil {
			t.Fatal(err)
		}
		return wanted(u)
	})
	return u
}

// limited returns a sidecar that uses more than its limit of 32 MB once it is told to, and
// the script that tells it.
func limited(restart initproto.Restart) (initproto.Member, string) {
	m := sh("helper", `grep CapEff /proc/self/status; (exec sleep 1000) & echo begins; test -e told || { until test -e go; do sleep 0.05; done; touch told; exec "$MEMBER" hog 100; }; wait`)
	m.Restart, m.Memory, m.CPUWeight = restart, 32<<20, 50
	return m, "echo main; touch go; " + waiting
}

const exceeded = "out of memory: sidecar helper exceeded its limit of 32M"

// memberLimit: a sidecar that exceeds its memory is killed as a whole and started again,
// while the main process lives on.
func memberLimit(s *suite, t *testing.T) {
	helper, script := limited(initproto.RestartAlways)
	id, f := s.run(t, sh("web", script), helper)
	if caps := f.line("CapEff:"); strings.Trim(caps, "0") != "" {
		t.Errorf("the sidecar has capabilities: %s", caps)
	}
	f.line("begins")
	f.line("Exit status 137 (" + exceeded + ")")
	body := f.event(initproto.EventExited)
	if !body.OOM || body.Status != 137 || body.Reason != exceeded || body.Restart == 0 {
		t.Errorf("the exit is %+v, want out of memory with a restart", body)
	}
	f.event(initproto.EventRestarted)
	f.line("begins")
	u, err := s.Usage(within(t), id)
	testkit.Must(t, err)
	if len(u.Members) != 2 || u.OOMKills == 0 {
		t.Fatalf("usage is %+v, want two members and a kill", u)
	}
	m := u.Members[1]
	if x := m.State.LastExit; m.State.Restarts != 1 || x == nil || x.Status != 137 || x.Reason != exceeded ||
		x.Time.IsZero() || m.MemoryLimit != 32<<20 || m.Memory > 32<<20 {
		t.Errorf("the sidecar is %+v (%+v), want one restart, its last exit and its limit", m, x)
	}
	if web := u.Members[0].State; web.Exited || web.Restarts != 0 {
		t.Errorf("the main process is %+v, want that it runs", web)
	}
	// A process of the first life would still hold what it got.
	p, err := s.Exec(within(t), id, engine.ExecRequest{Args: []string{"/bin/sh", "-c",
		`set -- $(grep -l "sleep" /proc/[0-9]*/comm); echo $#`}})
	testkit.Must(t, err)
	defer p.Close()
	b := make([]byte, 16)
	n, _ := p.Stdout().Read(b)
	if got := strings.TrimSpace(string(b[:n])); got != "1" {
		t.Errorf("%s processes of the sidecar sleep, want only that of its second life", got)
	}
	testkit.Eventually(t, "the instance is ready", func() bool { return s.get(t, id).State.Ready })
}

// memberLimitCodependent: without its own policy the instance ends, and says why.
func memberLimitCodependent(s *suite, t *testing.T) {
	helper, script := limited(initproto.RestartDefault)
	main := sh("web", script)
	main.Memory = 200 << 20
	id, f := s.run(t, main, helper)
	f.end()
	x := s.awaitGone(t, id).State.Exit
	if x == nil || !x.OOM || x.Status != 137 || x.Description != "APP/PROC/HELPER: Exited with status 137 ("+exceeded+")" {
		t.Errorf("the exit is %+v, want the sidecar and its limit", x)
	}
}

// noMemberLimit: an engine that cannot limit members refuses to run them without limits.
func noMemberLimit(s *suite, t *testing.T) {
	for name, change := range map[string]func(*initproto.Member){
		"memory": func(m *initproto.Member) { m.Memory = 32 << 20 },
		"weight": func(m *initproto.Member) { m.CPUWeight = 50 },
	} {
		helper := sh("helper", waiting)
		change(&helper)
		spec := s.spec(t, sh("web", waiting), helper)
		if err := s.Start(within(t), spec); !fault.Is(err, fault.Unprocessable) ||
			!strings.Contains(err.Error(), s.about.NoMemberLimits) {
			t.Errorf("%s: Start is %v, want %q", name, err, s.about.NoMemberLimits)
		}
		if _, err := s.Get(within(t), spec.ID); err == nil {
			t.Errorf("%s: the refused instance exists", name)
		}
	}
}
