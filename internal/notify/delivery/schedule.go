package delivery

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"ingot/internal/notify"
)

// Schedule says when a message that was refused for now is tried again.
type Schedule struct {
	// First is the pause after the first attempt. It doubles with each further
	// one, up to Longest.
	First   time.Duration
	Longest time.Duration
	// Attempts is how often a message is tried before it has failed.
	Attempts int
	// Jitter is the part of a pause, from 0 to 1, that is left to chance, so that
	// what failed together does not come back together. Negative means none.
	Jitter float64
}

// DefaultSchedule tries for about eight and a half hours.
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

// pause is how long to wait after the given attempt, from 1. What the other side
// asked for counts, within Longest; chance only makes it longer then.
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

// after is what becomes of a message after an attempt.
func (s Schedule) after(m notify.Message, r notify.Result, now time.Time) notify.Outcome {
	o := notify.Outcome{Number: m.Number, Reason: tidy(r.Reason), Attempted: true, At: now}
	attempt := m.Attempts + 1
	switch {
	case r.Verdict == notify.Accepted:
		o.Status, o.Reason = notify.Delivered, ""
	case r.Verdict == notify.Permanent:
		o.Status = notify.Failed
	case attempt >= s.Attempts:
		o.Status = notify.Failed
		o.Reason = tidy("given up after the last attempt: " + r.Reason)
	default:
		o.Status, o.Due = notify.Retry, now.Add(s.pause(attempt, r.RetryAfter))
	}
	return o
}

// aside is the outcome of a message that was not tried.
func aside(m notify.Message, status notify.Status, reason string, now time.Time) notify.Outcome {
	return notify.Outcome{Number: m.Number, Status: status, Reason: tidy(reason), At: now}
}

// park is the outcome of a message that cannot be made.
func park(m notify.Message, reason string, now time.Time) notify.Outcome {
	o := aside(m, notify.Failed, reason, now)
	o.Parked = true
	return o
}

const maxReason = 500

// tidy makes a text of a stranger fit for a column: valid, without control
// characters, and short.
func tidy(s string) string {
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
