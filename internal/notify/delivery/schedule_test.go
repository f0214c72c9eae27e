package delivery

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"ingot/internal/notify"
)

func TestWhatFollowsAnAttempt(t *testing.T) {
	t.Parallel()
	s := Schedule{First: time.Minute, Longest: time.Hour, Attempts: 4, Jitter: -1}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		tried  int
		result notify.Result
		status notify.Status
		wait   time.Duration
		reason string
	}{
		"accepted": {0, notify.Result{Verdict: notify.Accepted, Reason: "250 ok"},
			notify.Delivered, 0, ""},
		"accepted at last": {3, notify.Result{Verdict: notify.Accepted}, notify.Delivered, 0, ""},
		"refused for good": {0, notify.Result{Verdict: notify.Permanent, Reason: "554 no"}, notify.Failed,
			0, "554 no"},
		"no such address": {0, notify.Result{Verdict: notify.Permanent, BadAddress: true, Reason: "550 5.1.1"},
			notify.Failed, 0, "550 5.1.1"},
		"refused for now, once": {0, notify.Result{Verdict: notify.Temporary, Reason: "451"}, notify.Retry,
			time.Minute, "451"},
		"refused for now, twice": {1, notify.Result{Verdict: notify.Temporary, Reason: "451"}, notify.Retry,
			2 * time.Minute, "451"},
		"refused for now, three times": {2, notify.Result{Verdict: notify.Temporary, Reason: "451"}, notify.Retry,
			4 * time.Minute, "451"},
		"refused for now, last time": {3, notify.Result{Verdict: notify.Temporary, Reason: "451"}, notify.Failed, 0,
			"given up after the last attempt: 451"},
		"refused more than often": {30, notify.Result{Verdict: notify.Temporary}, notify.Failed, 0,
			"given up after the last attempt:"},
		"asked to come later": {0, notify.Result{Verdict: notify.Temporary, RetryAfter: 5 * time.Minute},
			notify.Retry, 5 * time.Minute, ""},
		"asked to come much later": {0, notify.Result{Verdict: notify.Temporary, RetryAfter: 50 * time.Hour},
			notify.Retry, time.Hour, ""},
		"asked to come again, too late": {3, notify.Result{Verdict: notify.Temporary, RetryAfter: time.Second}, notify.Failed,
			0, "given up after the last attempt:"},
		"no verdict at all": {0, notify.Result{}, notify.Retry, time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := notify.Message{Number: 7, Attempts: c.tried}
			got := s.after(m, c.result, now, now)
			if got.Number != 7 || got.Status != c.status || got.Reason != c.reason || !got.Attempted || !got.At.Equal(now) ||
				got.Parked {
				t.Errorf("got %+v", got)
			}
			if c.status == notify.Retry && !got.Due.Equal(now.Add(c.wait)) || c.status.Final() && !got.Due.IsZero() {
				t.Errorf("due after %s, want %s", got.Due.Sub(now), c.wait)
			}
		})
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := DefaultSchedule
		attempt := rapid.IntRange(1, 200).Draw(t, "attempt")
		asked := time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "asked"))
		d := s.pause(attempt, asked)
		if d <= 0 || d > s.Longest*12/10 {
			t.Fatalf("pause %s", d)
		}
		if asked > 0 && d < min(asked, s.Longest) {
			t.Fatalf("asked for %s, waits %s", asked, d)
		}
		if exact := s.First << min(attempt-1, 20); asked == 0 && exact < s.Longest &&
			(d < exact*9/10-1 || d > exact*11/10+1) {
			t.Fatalf("pause %s after attempt %d, want about %s", d, attempt, exact)
		}
	})
	if got := (Schedule{}).withDefaults(); got != DefaultSchedule {
		t.Errorf("defaults are %+v", got)
	}
}

func TestTidy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		got := sanitize(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")))
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\r\n") {
			t.Fatalf("got %q", got)
		}
	})
	if got := sanitize(strings.Repeat("ä", 400)); len(got) > maxReason+3 || !strings.HasSuffix(got, "ä…") {
		t.Errorf("got %d bytes: %q", len(got), got)
	}
}
