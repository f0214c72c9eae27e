package notify

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Workflow says how the notifications of a kind travel: by which channels, after which delays, under which
// conditions. ParseWorkflow makes one; it must not be changed.
//
// Each step is a message of its own, which is made with the others and is due after its delay. So a step has what
// every message has: it is stored before the send is acknowledged, leased while a server works on it, and canceled
// with its send. Its condition is decided when it is due.
type Workflow struct {
	Steps []Step `json:"steps"`
}

// Step is a channel of a Workflow, which has each channel once.
type Step struct {
	Channel ChannelID `json:"channel"`
	// After is counted from when the message is made, which is when the send is accepted or due.
	After Delay `json:"after,omitempty"`
	// If is nil for a step that is always taken.
	If *Condition `json:"if,omitempty"`
}

// Delay is a duration that is written as "1h30m".
type Delay time.Duration

// String returns the delay without parts that are zero.
func (d Delay) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText implements encoding.TextMarshaler.
func (d Delay) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Delay) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Delay(parsed)
	return err
}

// Condition decides about a step. One of its fields is set, or Data and one operator.
type Condition struct {
	// Read and Unread are Inbox: whether the user has read this notification there.
	Read   *ChannelID `json:"read,omitempty"`
	Unread *ChannelID `json:"unread,omitempty"`
	// Delivered and Failed name the channel of an earlier step. The condition waits for the end of its message.
	Delivered *ChannelID `json:"delivered,omitempty"`
	Failed    *ChannelID `json:"failed,omitempty"`
	// Critical compares whether the kind is.
	Critical *bool `json:"critical,omitempty"`

	// Data is a field of the recipient's data, such as "order.total", for the operators below.
	Data    string   `json:"data,omitempty"`
	Exists  *bool    `json:"exists,omitempty"`
	Equals  any      `json:"equals,omitempty"`
	In      []any    `json:"in,omitempty"`
	Above   *float64 `json:"above,omitempty"`
	AtLeast *float64 `json:"at_least,omitempty"`
	Below   *float64 `json:"below,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`

	All []Condition `json:"all,omitempty"`
	Any []Condition `json:"any,omitempty"`
	Not *Condition  `json:"not,omitempty"`
}

// Channels returns the channels of the steps; none without a workflow.
func (w *Workflow) Channels() Channels {
	if w == nil {
		return 0
	}
	ids := make([]ChannelID, 0, len(w.Steps))
	for _, s := range w.Steps {
		ids = append(ids, s.Channel)
	}
	return ChannelsOf(ids...)
}

// Step returns the step of a channel, or nil.
func (w *Workflow) Step(c ChannelID) *Step {
	if w == nil {
		return nil
	}
	for i := range w.Steps {
		if w.Steps[i].Channel == c {
			return &w.Steps[i]
		}
	}
	return nil
}

// Delay returns how long the messages of a channel wait.
func (w *Workflow) Delay(c ChannelID) time.Duration {
	if s := w.Step(c); s != nil {
		return time.Duration(s.After)
	}
	return 0
}

// Delays reports whether any messages wait.
func (w *Workflow) Delays() bool {
	return w != nil && slices.ContainsFunc(w.Steps, func(s Step) bool { return s.After > 0 })
}

// String describes a step: "email after 1h, if not read in the inbox".
func (s Step) String() string {
	text := s.Channel.String() + " at once"
	if s.After > 0 {
		text = s.Channel.String() + " after " + s.After.String()
	}
	if s.If != nil {
		text += ", if " + s.If.String()
	}
	return text
}

// String describes the condition as it continues "if".
func (c *Condition) String() string {
	list := func(all []Condition, word string) string {
		parts := make([]string, len(all))
		for i := range all {
			parts[i] = all[i].String()
		}
		if len(parts) == 1 {
			return parts[0]
		}
		return "(" + strings.Join(parts, " "+word+" ") + ")"
	}
	switch {
	case c.Read != nil:
		return "read in the inbox"
	case c.Unread != nil:
		return "not read in the inbox"
	case c.Delivered != nil:
		return "delivered by " + c.Delivered.String()
	case c.Failed != nil:
		return "not deliverable by " + c.Failed.String()
	case c.Critical != nil && *c.Critical:
		return "the kind is critical"
	case c.Critical != nil:
		return "the kind is not critical"
	case len(c.All) > 0:
		return list(c.All, "and")
	case len(c.Any) > 0:
		return list(c.Any, "or")
	case c.Not != nil:
		return "not " + c.Not.String()
	}
	return "data " + c.Data + " " + c.operator()
}

func (c *Condition) operator() string {
	number := func(words string, n float64) string { return fmt.Sprintf("%s %v", words, n) }
	switch {
	case c.Exists != nil && *c.Exists:
		return "exists"
	case c.Exists != nil:
		return "does not exist"
	case c.Above != nil:
		return number("is above", *c.Above)
	case c.AtLeast != nil:
		return number("is at least", *c.AtLeast)
	case c.Below != nil:
		return number("is below", *c.Below)
	case c.AtMost != nil:
		return number("is at most", *c.AtMost)
	case c.Equals != nil:
		return "is " + literal(c.Equals)
	}
	all := make([]string, len(c.In))
	for i, v := range c.In {
		all[i] = literal(v)
	}
	return "is one of " + strings.Join(all, ", ")
}

// literal returns a constant as it is shown: terminals show it too, so control characters are replaced.
func literal(v any) string {
	if text, ok := v.(string); ok {
		return `"` + strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return unicode.ReplacementChar
			}
			return r
		}, text) + `"`
	}
	return fmt.Sprint(v)
}

// Decision is what a condition says at a time.
type Decision int

const (
	// No and Yes are final; Undecided means that a message that the condition names has not ended.
	No Decision = iota
	Undecided
	Yes
)

func decided(yes bool) Decision {
	if yes {
		return Yes
	}
	return No
}

// Progress is what became of a recipient's message on another channel.
type Progress struct {
	Status Status // empty if there is no such message, or no longer
	Read   bool   // in the inbox
}

// Situation is what conditions decide about.
type Situation struct {
	Critical bool
	Data     map[string]any
	Others   map[ChannelID]Progress
	// Unwanted are the channels that the recipient turned off.
	Unwanted Unwanted
}

// Decide returns what the condition says. A nil condition always holds.
func (c *Condition) Decide(s Situation) Decision {
	switch {
	case c == nil:
		return Yes
	case c.Read != nil:
		return decided(s.Others[Inbox].Read)
	case c.Unread != nil:
		return decided(!s.Others[Inbox].Read)
	case c.Delivered != nil:
		return ended(s.Others[*c.Delivered].Status, Delivered)
	case c.Failed != nil:
		return s.failed(*c.Failed)
	case c.Critical != nil:
		return decided(*c.Critical == s.Critical)
	case len(c.All) > 0:
		d := Yes
		for i := range c.All {
			d = min(d, c.All[i].Decide(s))
		}
		return d
	case len(c.Any) > 0:
		d := No
		for i := range c.Any {
			d = max(d, c.Any[i].Decide(s))
		}
		return d
	case c.Not != nil:
		return Yes - c.Not.Decide(s)
	}
	return decided(c.compare(s.Data))
}

// failed decides whether a message did not reach the recipient, also because they do not want it by this channel.
// One that the workflow skipped was not meant to.
func (s Situation) failed(id ChannelID) Decision {
	status := s.Others[id].Status
	if status == Skipped {
		return decided(s.Unwanted.Has(id))
	}
	return ended(status, Failed, Undeliverable, Unsubscribed, "")
}

// ended decides whether a message has ended in one of these ways.
func ended(s Status, ways ...Status) Decision {
	if s == Queued || s == Retry {
		return Undecided
	}
	return decided(slices.Contains(ways, s))
}

// compare applies the operator to a field of the data. What is missing or of another type is not equal to, above or
// below anything.
func (c *Condition) compare(data map[string]any) bool {
	value, exists := fieldOf(data, c.Data)
	if c.Exists != nil {
		return exists == *c.Exists
	}
	if !exists {
		return false
	}
	if c.Equals != nil {
		return same(value, c.Equals)
	}
	if c.In != nil {
		return slices.ContainsFunc(c.In, func(v any) bool { return same(value, v) })
	}
	n, ok := number(value)
	switch {
	case !ok:
		return false
	case c.Above != nil:
		return n > *c.Above
	case c.AtLeast != nil:
		return n >= *c.AtLeast
	case c.Below != nil:
		return n < *c.Below
	case c.AtMost != nil:
		return n <= *c.AtMost
	}
	return false
}

// fieldOf returns the field of data at a path such as "order.total". null counts as missing.
func fieldOf(data map[string]any, path string) (any, bool) {
	var value any = data
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		value = object[name]
	}
	return value, value != nil
}

// number returns the value of a number in data. Those that are too large are infinite.
func number(value any) (float64, bool) {
	n, ok := value.(interface{ Float64() (float64, error) })
	if !ok {
		f, ok := value.(float64)
		return f, ok
	}
	f, err := n.Float64()
	return f, err == nil || math.IsInf(f, 0)
}

// same compares a field with a constant of a condition.
func same(value, constant any) bool {
	if n, ok := constant.(float64); ok {
		f, ok := number(value)
		return ok && f == n
	}
	switch constant.(type) {
	case string, bool:
		return value == constant
	}
	return false
}

// asksOthers reports whether the condition asks for messages of the recipient on other channels.
func (c *Condition) asksOthers() bool {
	if c == nil {
		return false
	}
	return c.Read != nil || c.Unread != nil || c.Delivered != nil || c.Failed != nil || c.Not.asksOthers() ||
		slices.ContainsFunc(c.All, func(c Condition) bool { return c.asksOthers() }) ||
		slices.ContainsFunc(c.Any, func(c Condition) bool { return c.asksOthers() })
}

// AsksOthers reports whether Decide needs Situation.Others.
func (s *Step) AsksOthers() bool { return s.If.asksOthers() }
