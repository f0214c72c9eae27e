package cli_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// logOf returns a handler that answers with log lines, written "SOURCE|OUT|text".
func logOf(lines ...string) func(*http.Request) (int, any) {
	return func(r *http.Request) (int, any) {
		at, _ := time.Parse(time.RFC3339, stamp)
		batch := []any{}
		for i, l := range lines {
			parts := strings.SplitN(l, "|", 3)
			moment := at.Add(time.Duration(i) * time.Second).UnixNano()
			var from int64
			if _, err := fmt.Sscan(r.URL.Query().Get("start_time"), &from); err == nil && moment < from {
				continue
			}
			e := object{
				"timestamp": fmt.Sprint(moment), "source_id": guidApp, "instance_id": "0", "tags": object{"source_type": parts[0]},
				"log": object{"payload": base64.StdEncoding.EncodeToString([]byte(parts[2])), "type": parts[1]},
			}
			if r.URL.Query().Get("descending") == "true" {
				batch = append([]any{e}, batch...)
			} else {
				batch = append(batch, e)
			}
		}
		return 200, object{"envelopes": object{"batch": batch}}
	}
}

// A failed start shows the app's last ten lines, without lines of other sources.
func TestFailedStartShowsTheLog(t *testing.T) {
	t.Parallel()
	lines := []string{"APP/PROC/WEB|OUT|earlier", "APP/PROC/WEB|OUT|Exit status 1",
		"APP/PROC/WEB|OUT|Invoking start command.", "APP/PROC/WEB|ERR|Error: cannot find module"}
	for i := range 50 {
		lines = append(lines, fmt.Sprintf("APP/PROC/WEB|OUT|line %d", i), "RTR|OUT|access", "CELL|OUT|cell")
	}
	lines = append(lines, "APP/PROC/WEB|OUT|Exit status 1", "APP/PROC/WEB|OUT|Invoking start command.")
	for _, args := range [][]string{{"restart", "shop"}, {"restart", "shop", "--json"}, {"restart", "shop", "--strategy",
		"rolling"}} {
		w := loggedIn(t)
		crashed := list(object{"index": 0, "state": "CRASHED", "details": "exit status 1", "usage": object{}})
		w.api.instead["GET /v3/processes/app-guid/stats"] = func(*http.Request) (int, any) { return 200, crashed }
		w.api.instead["GET /v3/deployments/deployment-guid"] = func(*http.Request) (int, any) {
			return 200, deployment("deployment-guid", "FINALIZED", "CANCELED")
		}
		w.api.instead["GET /api/v1/read/app-guid"] = logOf(lines...)
		_, errs, code := w.run(args...)
		if code != 1 || strings.Count(errs, "line ") != 39 || strings.Count(errs, "cannot find module") != 1 ||
			strings.Contains(errs, "cell") || strings.Contains(errs, "Invoking") || strings.Contains(errs, "earlier") {
			t.Errorf("%v: exit code %d, want 1, the error and the last 40 lines of the last life\n%s", args, code, errs)
		}
	}
}

// A failed build that was not followed shows its last lines.
func TestFailedBuildShowsTheLog(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		arg     string
		in, out int
	}{{"--json", 1, 0}, {"-q", 1, 0}, {"--no-wait", 0, 1}} {
		w := loggedIn(t)
		w.api.instead["GET /v3/builds/build-guid"] = func(*http.Request) (int, any) {
			return 200, object{"guid": "build-guid", "state": "FAILED", "error": "StagingError - the buildpack failed"}
		}
		w.api.instead["GET /api/v1/read/app-guid"] = logOf("STG|ERR|npm ERR! missing script: build", "APP/PROC/WEB|OUT|old")
		out, errs, code := w.run("restage", "shop", "--strategy", "rolling", tc.arg)
		if code != 1 || strings.Count(errs, "missing script") != tc.in || strings.Count(out, "missing script") != tc.out ||
			strings.Contains(errs, "old") {
			t.Errorf("%s: exit code %d, want 1, the reason %d times in stderr and %d in stdout\n%s%s", tc.arg, code, tc.in,
				tc.out, out, errs)
		}
	}
}

// Answering no is not a failure; being unable to ask is.
func TestAnswerNo(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"delete", "shop"}, {"scale", "shop", "-m", "64M"}, {"delete-service", "db"}, {"delete-org", "acme"},
		{"delete-user", "admin"}, {"delete-route", "apps.test", "-n", "shop"}, {"delete-client", "sender"},
	} {
		for _, answer := range []string{"n\n", "\n", ""} {
			w := loggedIn(t)
			w.in, w.asks = answer, true
			out, errs, code := w.run(args...)
			if code != 0 || strings.Contains(errs, "FAILED") || !strings.Contains(out, "Canceled. Nothing was changed.") {
				t.Errorf("%v with %q: %d\n%s%s", args, answer, code, out, errs)
			}
			for _, call := range w.api.calls {
				if !strings.HasPrefix(call, "GET ") {
					t.Errorf("%v changed something: %s", args, call)
				}
			}
		}
		w := loggedIn(t)
		if _, errs, code := w.run(args...); code != 1 || !strings.Contains(errs, "use -f to skip the confirmation") {
			t.Errorf("%v without a terminal: %d\n%s", args, code, errs)
		}
	}
}

// run-task --wait shows the task's own lines as they arrive, and no others.
func TestRunTaskWaitStreams(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	seen := make(chan struct{})
	w.api.tail = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, logEvent(0, "APP/TASK/good", "migrating 1 of 2")+logEvent(1, "APP/PROC/WEB", "noise")+
			"event: end\ndata: {}\n\n")
		close(seen)
	}
	w.api.instead["GET /v3/tasks/good"] = func(*http.Request) (int, any) {
		state := "RUNNING"
		select {
		case <-seen:
			state = "SUCCEEDED"
		default:
		}
		return 200, object{"guid": "good", "sequence_id": 3, "name": "good", "state": state, "created_at": stamp}
	}
	w.api.instead["GET /api/v1/read/app-guid"] = logOf("STG|OUT|old", "APP/TASK/good|OUT|migrating 2 of 2")
	out, errs, code := w.run("run-task", "shop", "--command", "./migrate", "--name", "good", "--wait")
	if code != 0 || strings.Count(out, "migrating 1 of 2") != 1 || strings.Count(out, "migrating 2 of 2") != 1 ||
		strings.Contains(out, "noise") || strings.Contains(out, "old") {
		t.Errorf("exit code %d, want 0 and each line of the task once\n%s%s", code, out, errs)
	}
}

// --since takes a time or a duration, and reads more than one page.
func TestLogsSince(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.api.instead["GET /api/v1/read/app-guid"] = logOf("APP/PROC/WEB|OUT|first", "APP/PROC/WEB|OUT|second",
		"APP/PROC/WEB|OUT|third")
	for since, want := range map[string]string{"60s": "first second third", "59s": "second third",
		"2026-01-02T03:04:07Z": "third", "1s": ""} {
		out, errs, code := w.run("logs", "shop", "--recent", "--since", since, "-q")
		var got []string
		for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
			got = append(got, line[strings.LastIndex(line, " ")+1:])
		}
		if code != 0 || strings.Join(got, " ") != want {
			t.Errorf("since %s: %d %q\n%s", since, code, got, errs)
		}
	}
}

// On a terminal, lines are coloured by source and access log lines are shortened;
// otherwise, with --long and as cf, they are complete.
func TestLogsInATerminal(t *testing.T) {
	t.Parallel()
	const access = `shop.apps.test - [2026-01-02T03:04:05.000000000Z] "GET /a?b=c HTTP/1.1" 200 0 2048 "-" "curl/8" "127.0.0.1:5" "10.0.0.2:8080" x_forwarded_for:"127.0.0.1" x_forwarded_proto:"http" vcap_request_id:"x" response_time:0.001234 gorouter_time:0.0001 app_id:"y" app_index:"0" instance_id:"z" x_cf_routererror:"-"`
	for name, tc := range map[string]struct {
		terminal bool
		args     []string
		short    bool
	}{"terminal": {true, nil, true}, "long": {true, []string{"--long"}, false}, "file": {false, nil, false}} {
		w := loggedIn(t)
		w.terminal = tc.terminal
		w.api.instead["GET /api/v1/read/app-guid"] = logOf("APP/PROC/WEB|OUT|hello", "STG|OUT|building", "RTR|OUT|"+access,
			"RTR|OUT|not an access line")
		out, errs, code := w.run(append([]string{"logs", "shop", "--recent"}, tc.args...)...)
		if code != 0 || strings.Contains(out, "GET shop.apps.test/a?b=c 200 2K 1.2ms\n") != tc.short ||
			strings.Contains(out, access) == tc.short || !strings.Contains(out, "not an access line") {
			t.Errorf("%s: exit code %d, want 0 and short access lines %v\n%s%s", name, code, tc.short, out, errs)
		}
		paints := map[string]bool{}
		for _, m := range regexp.MustCompile(`\^\[\[([\d;]+)m\[(APP|STG|RTR)/`).FindAllStringSubmatch(out, -1) {
			paints[m[1]] = true
		}
		if len(paints) != map[bool]int{true: 3}[tc.terminal] {
			t.Errorf("%s: %d colours: %v\n%s", name, len(paints), paints, out)
		}
	}
}

// Routes are shown as URLs that a browser opens; as cf, they are shown as cf
// shows them.
func TestAddresses(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	for _, args := range [][]string{{"app", "shop"}, {"apps"}, {"routes"}, {"start", "shop"}} {
		if out, _, code := w.run(args...); code != 0 || !strings.Contains(out, "http://shop.apps.test:PORT") {
			t.Errorf("%v: exit code %d, want 0 and the whole address\n%s", args, code, out)
		}
		w.program = "cf"
		if out, _, code := w.run(args...); code != 0 || strings.Contains(out, "http://shop") {
			t.Errorf("cf %v: %d\n%s", args, code, out)
		}
		w.program = ""
	}
}
