package notify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
)

// ThrottleRule limits how many messages of a kind a recipient gets in a time. NewThrottleRule makes one; it must not be
// changed.
type ThrottleRule struct {
	// Limit is how many messages a recipient gets by a channel within any Window.
	Limit  int   `json:"limit"`
	Window Delay `json:"window"`
	// Over is what becomes of the others.
	Over ThrottleOver `json:"over"`
	// Channels are those that are limited, each by itself; none means all.
	Channels []ChannelID `json:"channels,omitempty"`
}

// ThrottleOver is what becomes of messages over the limit.
type ThrottleOver string

const (
	// OverDrop gives them the status Throttled.
	OverDrop ThrottleOver = "drop"
	// OverDigest collects them as the kind's DigestRule says. Then the others are not collected.
	OverDigest ThrottleOver = "digest"
)

// MaxThrottle is the largest ThrottleRule.Limit.
const MaxThrottle = 100

// NewThrottleRule returns a rule, or an error that says what is wrong. An empty over is OverDrop.
func NewThrottleRule(limit int, window, over string, channels []string) (*ThrottleRule, error) {
	var problems []string
	r := &ThrottleRule{Limit: limit, Over: ThrottleOver(over)}
	if over == "" {
		r.Over = OverDrop
	}
	if limit < 1 || limit > MaxThrottle {
		problems = append(problems, fmt.Sprintf(`"limit" must be a number from 1 to %d`, MaxThrottle))
	}
	d, err := time.ParseDuration(window)
	if r.Window = Delay(d); err != nil || d < minWindow || d > MaxDelay {
		problems = append(problems, fmt.Sprintf(`"window" must be a duration such as 90s, 15m or 36h, at least %s and `+
			`at most %s`, Delay(minWindow), Delay(MaxDelay)))
	}
	if r.Over != OverDrop && r.Over != OverDigest {
		problems = append(problems, `"over" must be "drop" or "digest"`)
	}
	if len(channels) > 0 {
		set, err := ParseChannels(channels)
		if err != nil {
			problems = append(problems, err.Error())
		} else {
			r.Channels = set.List()
		}
	}
	return r, fault.Invalid(problems...)
}

// String describes the rule: "at most 3 in 1h, others dropped".
func (r *ThrottleRule) String() string {
	text := ""
	if len(r.Channels) > 0 {
		text = strings.Join(ChannelsOf(r.Channels...).Names(), ", ") + " "
	}
	others := "dropped"
	if r.Over == OverDigest {
		others = "collected"
	}
	return fmt.Sprintf("%sat most %d in %s, others %s", text, r.Limit, r.Window, others)
}

// limits reports whether the rule is about a channel.
func (r *ThrottleRule) limits(by ChannelID) bool {
	return len(r.Channels) == 0 || slices.Contains(r.Channels, by)
}

// Fits returns why a kind cannot have both rules, which may be nil: what is over the limit is collected only where the
// digest collects, and what a digest collects anyway is not limited.
func (r *ThrottleRule) Fits(d *DigestRule) error {
	if r == nil {
		return nil
	}
	for id := range ChannelID(ChannelCount) {
		if !r.limits(id) {
			continue
		}
		switch collected := d != nil && d.Window > 0 && (len(d.Channels) == 0 || slices.Contains(d.Channels, id)); {
		case r.Over == OverDigest && (d == nil || d.Window == 0):
			return fault.New(fault.Conflict, `The kind has no digest, into which "over": "digest" puts what is over the `+
				"limit: set the digest first, or delete the throttle before the digest")
		case r.Over == OverDigest && !collected:
			return fault.New(fault.Conflict, "The kind's digest does not collect messages by %s: limit only the channels "+
				"of the digest", id)
		case r.Over == OverDrop && collected:
			return fault.New(fault.Conflict, "The kind's digest collects all messages by %s, so nothing can be over a "+
				`limit: use "over": "digest", or other channels`, id)
		}
	}
	return nil
}

// Throttles reports whether the messages of a channel are limited. Those of critical kinds never are: a kind may have
// become critical after it got its rule. Nor are digests, which have what was over a limit.
func (s *Send) Throttles(by ChannelID) bool {
	return s.ThrottleRule != nil && !s.Critical && s.Digest == nil && s.ThrottleRule.limits(by)
}

// CollectsAll reports whether the messages of a channel are collected in digests, and not only those over a limit.
func (s *Send) CollectsAll(by ChannelID) bool {
	return s.Collects(by) && !(s.Throttles(by) && s.ThrottleRule.Over == OverDigest)
}

// Ask asks whether a message is within a limit.
type Ask struct {
	Number int64
	KindRef
	// Recipient has the channel.
	Recipient
	Rule *ThrottleRule
}

// Permit allows one message within a limit.
type Permit struct {
	// Limit identifies that of a kind, a channel and a recipient; empty for none.
	Limit  string
	Number int64
	At     time.Time
}

// Throttles limits messages.
type Throttles interface {
	// SetThrottleRule sets the rule of a kind, or removes it with nil. ErrNotFound when the kind is missing. It fails as
	// ThrottleRule.Fits does if the kind would have rules that do not fit each other.
	SetThrottleRule(ctx context.Context, ref KindRef, r *ThrottleRule) error
	// Admit returns the permits of messages that are within their limits, and counts them, in this order and in one
	// transaction, so that several processes never admit more than the limit. One that was admitted within the window is
	// admitted again and does not count twice, but from now on: it has not been sent before. Its previous permit is void.
	// Store.Finish takes back the permits of messages that were not attempted.
	Admit(ctx context.Context, asks []Ask) (admitted map[int64]Permit, err error)
}
