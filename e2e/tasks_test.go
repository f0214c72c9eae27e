package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestTasks runs tasks with Ingot's client and with the real one, and kills the
// server while some run.
func TestTasks(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		cfOK(t, s.admin(t), "create-user-provided-service", "vault", "-p", `{"password":"open sesame"}`)
		var parts []part
		for _, c := range s.tools(t) {
			parts = append(parts, part{c.name, func(t *testing.T) { taskRows(t, s, c) }})
		}
		together(t, parts...)
		tasksSurvive(t, s, times(2, 20))
	})
}

// taskRows tests all task commands.
func taskRows(t *testing.T, s *site, c *tool) {
	name, home := "task-"+c.name, s.admin(t)
	c.ok(t, pushProbe(t, name, "--task")...)
	app, token := guid(t, home, name), s.adminToken(t)
	about := s.call(t, http.MethodGet, "/v3/apps/"+app, token, nil).want(t, http.StatusOK).object(t)
	if routes := s.list(t, token, "/v3/apps/"+app+"/routes"); about["state"] != "STOPPED" || len(routes) > 0 {
		t.Errorf("after push --task the app is %v and has the routes %v", about["state"], routes)
	}
	c.ok(t, "bind-service", name, "vault")

	contains(t, c.ok(t, "run-task", name, "--command",
		`echo "to $HOME"; echo errors >&2; echo "services $VCAP_SERVICES"; echo "port ${PORT-none}"; ls`, "--name", "show",
		"--wait"), "OK")
	lines := s.taskLines(t, app, "show")
	contains(t, strings.Join(lines, "\n"), "errors", "port none", "probe", `open sesame`)
	contains(t, c.ok(t, "logs", name, "--recent"), "[APP/TASK/show/0]", "ERR errors", "OUT port none", "OUT Exit status 0")

	out, code := c.run(t, "run-task", name, "--command", "echo before; exit 3", "--name", "bad", "-m", "32M", "-k",
		"48M", "--wait")
	if code != 1 {
		t.Errorf("a task that fails: exit code %d\n%s", code, out)
	}
	task := s.taskNamed(t, app, "bad")
	if result, _ := task["result"].(map[string]any); task["state"] != "FAILED" ||
		result["failure_reason"] != "APP/TASK/bad: Exited with status 3" || task["memory_in_mb"] != 32.0 {
		t.Errorf("the task is %v", task)
	}
	contains(t, columns(c.ok(t, "task", name, "2")), "name: bad", "state:", "APP/TASK/bad: Exited with status 3")

	if s.options.Engine == "container" {
		out, code := c.run(t, "run-task", name, "--command", "head -c 200m /dev/zero | tail", "--name", "greedy", "-m",
			"32M", "--wait")
		if result, _ := s.taskNamed(t, app, "greedy")["result"].(map[string]any); code == 0 ||
			!strings.Contains(fmt.Sprint(result["failure_reason"]), "out of memory") {
			t.Errorf("a task that needs too much: exit code %d, %v\n%s", code, result, out)
		}
	}

	// Without a command, a process's command is used.
	c.ok(t, "run-task", name, "--process", "web", "--name", "sleepy")
	testkit.Eventually(t, "the task runs", func() bool { return s.taskNamed(t, app, "sleepy")["state"] == "RUNNING" })
	id := fmt.Sprint(s.taskNamed(t, app, "sleepy")["sequence_id"])
	contains(t, strings.ToUpper(columns(c.ok(t, "tasks", name))), id+" SLEEPY RUNNING", "2 BAD FAILED", "1 SHOW SUCCEEDED")
	c.ok(t, "terminate-task", name, id)
	testkit.Eventually(t, "the task ends", func() bool { return s.taskNamed(t, app, "sleepy")["state"] == "FAILED" })
	if result, _ := s.taskNamed(t, app,
		"sleepy")["result"].(map[string]any); result["failure_reason"] != "task was cancelled" {
		t.Errorf("the result is %v", result)
	}
	if out, code := c.run(t, "terminate-task", name, id); code == 0 || !strings.Contains(out, "cannot be canceled") {
		t.Errorf("terminating it again: exit code %d\n%s", code, out)
	}
	contains(t, c.ok(t, "events", name), "audit.app.task.create", "audit.app.task.cancel")
	contains(t, c.ok(t, "delete", name, "-f"), "OK")
}

// taskNamed returns a task of an app from the API.
func (s *site) taskNamed(t testing.TB, app, name string) map[string]any {
	t.Helper()
	found := s.list(t, s.adminToken(t), "/v3/apps/"+app+"/tasks?names="+name)
	if len(found) != 1 {
		t.Fatalf("there are %d tasks named %s", len(found), name)
	}
	return found[0]
}

// taskLines returns the lines of a task in its app's log.
func (s *site) taskLines(t testing.TB, app, name string) []string {
	t.Helper()
	var lines []string
	for _, l := range s.log(t, app) {
		if l.Source != "APP/TASK/"+name {
			continue
		}
		if l.Index != "0" {
			t.Errorf("a line of instance %q: %s", l.Index, l)
		}
		lines = append(lines, l.Text)
	}
	return lines
}

// tasksSurvive kills the server while a task counts, and right after tasks were
// created: each runs once, and each line is logged once.
func tasksSurvive(t *testing.T, s *site, kills int) {
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "counter", "--task")...)
	app := guid(t, home, "counter")
	const last = 400
	cfOK(t, home, "run-task", "counter", "--name", "count", "--command",
		fmt.Sprintf("for i in $(seq %d); do echo n $i; sleep 0.02; done", last))
	s.logged(t, app, "APP/TASK/count", "n 5")
	var asked []string
	for i := range kills {
		name := "quick" + strconv.Itoa(i)
		asked = append(asked, name)
		s.call(t, http.MethodPost, "/v3/apps/"+app+"/tasks", s.adminToken(t),
			map[string]any{"name": name, "command": "echo ran"}).want(t, http.StatusAccepted)
		s.Kill9(t)
		s.Restart(t)
	}
	for _, name := range append(asked, "count") {
		testkit.Eventually(t, "the task "+name+" succeeds", func() bool {
			task := s.taskNamed(t, app, name)
			if task["state"] == "FAILED" {
				text, _ := json.Marshal(task)
				t.Fatalf("it failed: %s", text)
			}
			return task["state"] == "SUCCEEDED"
		})
		var got []string
		for _, l := range s.taskLines(t, app, name) {
			if l == "ran" || strings.HasPrefix(l, "n ") {
				got = append(got, l)
			}
		}
		want := []string{"ran"}
		if name == "count" {
			want = nil
			for i := range last {
				want = append(want, "n "+strconv.Itoa(i+1))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the lines of %s are not all there once: %d of %d: %q", name, len(got), len(want), got)
		}
	}
	// An endless task is stopped with its app.
	cfOK(t, home, "run-task", "counter", "--name", "ever", "--command", "trap '' TERM; while :; do sleep 1; done",
		"-m", "32M")
	testkit.Eventually(t, "the task runs", func() bool { return s.taskNamed(t, app, "ever")["state"] == "RUNNING" })
	cfOK(t, home, "delete", "counter", "-f")
	if s.options.Engine == "kubernetes" {
		s.podsGone(t, []string{app})
		return
	}
	dir := s.Dir + "/processes"
	if _, err := os.Stat(dir); err != nil {
		dir = s.Dir + "/containers/instances"
	}
	testkit.Eventually(t, "nothing of it is left", func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0
	})
}
