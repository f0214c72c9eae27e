package delivery

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"ingot/internal/notify"
)

// Schedule determines when a message is retried after a temporary failure.
type Schedule struct {
	// First is the pause after the first attempt. It doubles with each further
	// attempt, up to Longest.
	First   time.Duration
	Longest time.Duration
	// Attempts is the number of attempts after which a message has failed.
	Attempts int
	// Jitter is the random part of a pause, from 0 to 1, so that messages that
	// failed together are not retried together. Negative means none.
	Jitter float64
}

// DefaultSchedule retries for about eight and a half hours.
var DefaultSchedule = Schedule{First: time.Minute, Longest: 12 * time.Hour, Attempts: 10, Jitter: 0.2}

func (s Schedule) withDefaults() Schedule {
	if s.First <= 0 {
		s.First = DefaultSchedule.First
	}
	if s.Longest <= 0 {
		s.Longest = DefaultSchedule.Longest
	}
	if s.Attempts <= 0 {
		s.Attempts = DefaultSchedule.Attempts
	}
	if s.Jitter == 0 {
		s.Jitter = DefaultSchedule.Jitter
	}
	return s
}

// pause returns how long to wait after the given attempt, counted from 1. A
// time requested by the next hop is respected up to Longest; jitter only
// extends it.
func (s Schedule) pause(attempt int, asked time.Duration) time.Duration {
	d := s.Longest
	if doubled := float64(s.First) * math.Pow(2, float64(attempt-1)); doubled < float64(s.Longest) {
		d = time.Duration(doubled)
	}
	chance := time.Duration(max(0, s.Jitter) * rand.Float64() * float64(d))
	if asked > 0 {
		return min(asked, s.Longest) + min(chance, asked/10)
	}
	return d - time.Duration(max(0, s.Jitter)*float64(d)/2) + chance
}

// after returns the outcome of a message after an attempt, which was made now. The next one is
// counted from due, the same time on the clock of due times.
func (s Schedule) after(m notify.Message, r notify.Result, now, due time.Time) notify.Outcome {
	o := notify.Outcome{Number: m.Number, Reason: sanitize(r.Reason), Attempted: true, At: now}
	attempt := m.Attempts + 1
	switch {
	case r.Verdict == notify.Accepted:
		o.Status, o.Reason = notify.Delivered, sanitize(r.Via)
	case r.Verdict == notify.Permanent:
		o.Status = notify.Failed
	case attempt >= s.Attempts:
		o.Status = notify.Failed
		o.Reason = sanitize("given up after the last attempt: " + r.Reason)
	default:
		o.Status, o.Due = notify.Retry, due.Add(s.pause(attempt, r.RetryAfter))
	}
	return o
}

// untried is the outcome of a message that was not attempted.
func untried(m notify.Message, status notify.Status, reason string, now time.Time) notify.Outcome {
	return notify.Outcome{Number: m.Number, Status: status, Reason: sanitize(reason), At: now}
}

// park is the outcome of a message that cannot be rendered.
func park(m notify.Message, reason string, now time.Time) notify.Outcome {
	o := untried(m, notify.Failed, reason, now)
	o.Parked = true
	return o
}

const maxReason = 500

// sanitize makes text from another server fit for a column: valid UTF-8,
// without control characters, and short.
func sanitize(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError {
			return '?'
		}
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return strings.TrimSpace(s)
}
