package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/instance/initproto"
)

// sidecars stores sidecars of the app.
func (w *world) sidecars(all ...platform.Sidecar) {
	w.Helper()
	w.update(func(tx platform.Tx) error {
		for i := range all {
			one := all[i]
			one.AppGUID = "app"
			if err := tx.Sidecars().Insert(&one); err != nil {
				return err
			}
		}
		return nil
	})
}

// A task has the sidecars that run in tasks, with their options and their part of its memory,
// and their lines have their sources, also for the next server.
func TestTaskSidecars(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.fake.manual = true
	tasks := platform.SidecarOptions{RunIn: []string{platform.RunInTasks}, BeforeMain: true, StopGrace: 3,
		Env: map[string]string{"OWN": "yes"}}
	w.sidecars(
		platform.Sidecar{Name: "proxy", Command: "./proxy", MemoryMB: 32, Options: tasks},
		platform.Sidecar{Name: "task", Command: "./other", ProcessTypes: []string{"web"},
			Options: platform.SidecarOptions{RunIn: []string{platform.RunInTasks}}},
		platform.Sidecar{Name: "not", Command: "./not", ProcessTypes: []string{"web"}, MemoryMB: 1000},
	)
	first := w.beginTasks()
	guid := w.task(first, platform.Task{Name: "migrate", Command: "./migrate"})
	w.awaitState(first, guid, platform.TaskRunning)
	l := w.fake.specOf(guid).Launch
	if len(l.Members) != 3 || l.Members[0].Name != "task" || l.Members[1].Name != "proxy" ||
		l.Members[2].Name != "sidecar/task" {
		t.Fatalf("the members are %+v, want the command, proxy and the sidecar task", l.Members)
	}
	if !l.OneOff || l.Needs() != 2 || !slices.Equal(l.Members[0].After, []string{"proxy"}) ||
		!slices.Equal(l.Members[1].StopAfter, []string{"task"}) || l.Members[1].Grace != 3*time.Second {
		t.Errorf("the launch is %+v, want a one-off whose command waits for proxy", l)
	}
	for i, want := range [][]string{{"MEMORY_LIMIT=224m", `"mem":224`}, {"MEMORY_LIMIT=32m", `"mem":32`, "OWN=yes"},
		{"MEMORY_LIMIT=256m"}} {
		env := strings.Join(l.Members[i].Env, "\n")
		for _, one := range want {
			if !strings.Contains(env, one) {
				t.Errorf("member %d lacks %q in\n%s", i, one, env)
			}
		}
		if strings.Contains(env, "\nPORT=") {
			t.Errorf("member %d of a task has a port", i)
		}
	}
	first.Stop()
	second := w.beginTasks()
	w.fake.do(guid, func(in *fakeInstance) {
		in.add(initproto.Stdout, 0, []byte("one"))
		in.add(initproto.Stdout, 1, []byte("two"))
		in.add(initproto.Stdout, 2, []byte("three"))
		in.event(initproto.EventBody{Event: initproto.EventEnded, Status: 1,
			Reason: "APP/TASK/migrate/SIDECAR/PROXY: Exited with status 1"})
	})
	row := w.awaitState(second, guid, platform.TaskFailed)
	if row.Reason != "APP/TASK/migrate/SIDECAR/PROXY: Exited with status 1" {
		t.Errorf("the reason is %q", row.Reason)
	}
	want := []string{"APP/TASK/migrate/0 one", "APP/TASK/migrate/SIDECAR/PROXY/0 two",
		"APP/TASK/migrate/SIDECAR/TASK/0 three"}
	if got := w.logs.of(""); !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// Sidecars that were given more memory, or that were made to wait for each other, after the
// task was created make it fail with the reason.
func TestTaskSidecarsThatDoNotFit(t *testing.T) {
	t.Parallel()
	tasks := []string{platform.RunInTasks}
	for name, test := range map[string]struct {
		sidecars []platform.Sidecar
		want     string
	}{
		"memory": {[]platform.Sidecar{{Name: "proxy", Command: "x", MemoryMB: 256,
			Options: platform.SidecarOptions{RunIn: tasks}}}, "the task has 256 MB, and its sidecars need proxy (256 MB)"},
		"cycle": {[]platform.Sidecar{
			{Name: "a", Command: "x", Options: platform.SidecarOptions{RunIn: tasks, DependsOn: []string{"b"}}},
			{Name: "b", Command: "x", Options: platform.SidecarOptions{RunIn: tasks, DependsOn: []string{"a"}}},
		}, "the sidecars wait for each other: a → b → a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			guid := w.task(nil, platform.Task{})
			w.sidecars(test.sidecars...)
			row := w.awaitState(w.beginTasks(), guid, platform.TaskFailed)
			if !strings.Contains(row.Reason, test.want) {
				t.Errorf("the reason is %q, want %q", row.Reason, test.want)
			}
		})
	}
}
