package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// follow runs a crontab for a time of a fake clock, which begins on 1 January 2000 at
// midnight, and returns the log. Jobs take as long as their command says.
func follow(t *testing.T, crontab string, lasts time.Duration) string {
	t.Helper()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		jobs, err := parse(crontab, time.UTC, 10*time.Minute, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		r := &runner{jobs: jobs, out: &log, errOut: &log, run: func(ctx context.Context, j *job, stdout, _ io.Writer) error {
			fmt.Fprintf(stdout, "begins at %s\n", time.Now().UTC().Format("15:04:05"))
			if j.command == "fails" {
				return errors.New("it broke")
			}
			d, err := time.ParseDuration(j.command)
			if err != nil {
				t.Error(err)
			}
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		r.work(ctx)
	})
	return log.String()
}

func TestRuns(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		crontab string
		lasts   time.Duration
		want    []string
		not     string
	}{
		"at its times": {
			"name=a */2 * * * * 1s", 5 * time.Minute,
			[]string{"a: begins at 00:02:00", "a: exit status 0 after 1s", "a: begins at 00:04:00"}, "skipped",
		},
		"no overlap": {
			"name=a * * * * * 90s", 4*time.Minute + time.Second,
			[]string{"a: begins at 00:01:00", "a: skipped the run of 2000-01-01T00:02:00Z: the run before it has not ended",
				"a: begins at 00:03:00"}, "begins at 00:02",
		},
		"catching up": {
			"name=a missed=run 1,2 * * * * 90s", 10 * time.Minute,
			[]string{"a: begins at 00:01:00", "a: the run of 2000-01-01T00:02:00Z follows later", "a: begins at 00:02:30"},
			"skipped",
		},
		"timeout": {
			"name=a timeout=5s @every 10m 1h", 15 * time.Minute,
			[]string{"a: begins at 00:10:00", "a: stopped after 5s, its timeout: context deadline exceeded"}, "exit status 0",
		},
		"stop": {
			"name=a @every 1m 1h", 90 * time.Second,
			[]string{"a: stopped after 30s, because the instance stops: context deadline exceeded"}, "exit status 0",
		},
		"a failure and another job": {
			"name=a @every 1m fails\nname=b @every 90s 1s", 2 * time.Minute,
			[]string{"a: begins at 00:01:00", "a: cannot run: it broke", "b: begins at 00:01:30", "b: exit status 0 after 1s"},
			"skipped",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := follow(t, x.crontab, x.lasts)
			rest := log
			for _, want := range x.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Errorf("the log has no %q, or not in this order:\n%s", want, log)
				}
				rest = after
			}
			if strings.Contains(log, x.not) {
				t.Errorf("the log has %q:\n%s", x.not, log)
			}
		})
	}
}

// TestShell runs real commands.
func TestShell(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	for name, x := range map[string]struct {
		command, want string
		timeout       time.Duration
	}{
		"output": {`echo "$CRON_JOB $A"; echo oops >&2; printf 'no newline'`,
			"out: 1 b|err: oops|out: no newline|out: exit status 0", time.Minute},
		"failure": {"exit 3", "err: exit status 3", time.Minute},
		"missing": {"/no/such/program", "err: exit status 127", time.Minute},
		"timeout": {"sleep 1000 & echo $! > " + pid + "; sleep 1001",
			"err: stopped after 200ms, its timeout: signal: terminated", 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errOut bytes.Buffer
			r := &runner{run: shell, out: &out, errOut: &errOut}
			j := &job{name: "1", command: x.command, timeout: x.timeout, env: []string{"A=b"}}
			r.once(t.Context(), j)
			for want := range strings.SplitSeq(x.want, "|") {
				stream, text, _ := strings.Cut(want, ": ")
				got := out.String()
				if stream == "err" {
					got = errOut.String()
				}
				if !strings.Contains(got, "1: "+text) {
					t.Errorf("%s has no %q: %s", stream, text, got)
				}
			}
		})
	}
	t.Cleanup(func() {
		id, err := os.ReadFile(pid)
		if err != nil {
			return // the timeout was before the first line
		}
		var stat []byte
		for range 600 { // it was killed, and may take a moment to exit
			stat, err = os.ReadFile("/proc/" + strings.TrimSpace(string(id)) + "/stat")
			if err != nil || strings.Contains(string(stat), ") Z ") || !strings.Contains(string(stat), "(sleep)") {
				return
			}
			<-time.After(100 * time.Millisecond)
		}
		t.Errorf("a process of the job is left: %s", stat)
	})
}

func TestSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "crontab")
	if err := os.WriteFile(file, []byte("@hourly x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	for want, env := range map[string][]string{
		"CRON_JOBS and CRON_FILE are not set":  {},
		"CRON_JOBS and CRON_FILE are both set": {"CRON_JOBS", "x", "CRON_FILE", file},
		"CRON_FILE: open":                      {"CRON_FILE", "/nowhere"},
		"CRON_TZ is \"Mars\"":                  {"CRON_FILE", file, "CRON_TZ", "Mars"},
		"CRON_INSTANCES is \"some\"":           {"CRON_FILE", file, "CRON_INSTANCES", "some"},
		"CRON_TIMEOUT is \"0\"":                {"CRON_FILE", file, "CRON_TIMEOUT", "0"},
		"line 1":                               {"CRON_JOBS", "x"},
	} {
		if _, _, err := configure(with(env...), time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", env, err, want)
		}
	}
	for want, env := range map[string][]string{
		"":  {"CRON_FILE", file, "CF_INSTANCE_INDEX", "0"},
		"2": {"CRON_FILE", file, "CF_INSTANCE_INDEX", "2"},
	} {
		if jobs, index, err := configure(with(env...), time.Now()); err != nil || index != want || len(jobs) != 1 {
			t.Errorf("%v: %q, %v", env, index, err)
		}
		if _, index, err := configure(with(append(env, "CRON_INSTANCES", "all")...), time.Now()); err != nil || index != "" {
			t.Errorf("all: %q, %v", index, err)
		}
	}
}
