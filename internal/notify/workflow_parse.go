package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
)

const (
	// MaxDelay limits the delays of steps: what became of a recipient's other messages is known for a week.
	MaxDelay = 6 * 24 * time.Hour

	maxWorkflow       = 16 << 10
	maxConditions     = 50
	maxConditionDepth = 5
	maxConstants      = 50
	maxField          = 200
)

// MarshalText implements encoding.TextMarshaler.
func (c ChannelID) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *ChannelID) UnmarshalText(text []byte) error {
	i := slices.Index(channelNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a channel", text)
	}
	*c = ChannelID(i)
	return nil
}

// ParseWorkflow returns the workflow of a JSON text, or an error that says what is wrong and where.
func ParseWorkflow(raw json.RawMessage) (*Workflow, error) {
	if len(raw) > maxWorkflow {
		return nil, fault.Invalid(fmt.Sprintf("the workflow is %d bytes long, at most %d are allowed", len(raw), maxWorkflow))
	}
	if why := CheckData(raw, maxWorkflow); why != "" {
		return nil, fault.Invalid("the workflow " + why)
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fault.Invalid("the workflow is not valid JSON")
	}
	c := workflowCheck{at: map[ChannelID]time.Duration{}}
	c.workflow(tree)
	if len(c.problems) > 0 {
		const shown = 10
		return nil, fault.Invalid(c.problems[:min(shown, len(c.problems))]...)
	}
	// What was checked is read, and not the text: of a name that an object has twice, that would read both.
	checked, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("encode a workflow: %w", err)
	}
	w := &Workflow{}
	if err := json.Unmarshal(checked, w); err != nil {
		return nil, fmt.Errorf("read a workflow: %w", err)
	}
	return w, nil
}

// workflowCheck collects what is wrong with a workflow. Paths are JSON pointers.
type workflowCheck struct {
	problems []string
	// at are the delays of the steps so far, by channel.
	at         map[ChannelID]time.Duration
	conditions int
}

func (c *workflowCheck) bad(path, format string, args ...any) {
	if path == "" {
		path = "/"
	}
	c.problems = append(c.problems, "at "+path+": "+fmt.Sprintf(format, args...))
}

// object returns the members of an object whose names are all known.
func (c *workflowCheck) object(v any, path string, names ...string) (map[string]any, bool) {
	o, ok := v.(map[string]any)
	if !ok {
		c.bad(path, "must be an object")
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(names, name) {
			c.bad(path+"/"+pointer(name), "is not known: use %s", strings.Join(names, ", "))
			ok = false
		}
	}
	return o, ok
}

// pointer returns a name as part of a JSON pointer, short enough for a message.
func pointer(name string) string {
	const most = 50
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func (c *workflowCheck) workflow(tree any) {
	o, ok := c.object(tree, "", "steps")
	if !ok {
		return
	}
	steps, ok := o["steps"].([]any)
	if !ok || len(steps) == 0 || len(steps) > ChannelCount {
		c.bad("/steps", "must be a list of 1 to %d steps, one for each channel", ChannelCount)
		return
	}
	for i, step := range steps {
		c.step(step, "/steps/"+strconv.Itoa(i))
	}
}

func (c *workflowCheck) step(v any, path string) {
	o, ok := c.object(v, path, "channel", "after", "if")
	if !ok {
		return
	}
	var channel ChannelID
	name, _ := o["channel"].(string)
	if channel.UnmarshalText([]byte(name)) != nil {
		c.bad(path+"/channel", "must be one of %s", strings.Join(channelNames[:], ", "))
		return
	}
	if _, twice := c.at[channel]; twice {
		c.bad(path+"/channel", "%q is the channel of an earlier step: each channel has one", channel)
	}
	after, ok := c.after(o, path+"/after")
	if !ok {
		return
	}
	if condition, has := o["if"]; has {
		c.condition(condition, path+"/if", channel, after, 1)
	}
	c.at[channel] = after
}

func (c *workflowCheck) after(o map[string]any, path string) (time.Duration, bool) {
	v, has := o["after"]
	if !has {
		return 0, true
	}
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > MaxDelay {
		c.bad(path, "must be a duration such as 90s, 15m or 36h, at most %s", Delay(MaxDelay))
		return 0, false
	}
	return d, true
}

// operators are the members of a condition on data beside "data".
var operators = []string{"exists", "equals", "in", "above", "at_least", "below", "at_most"}

// conditionKinds are the members of which a condition has one.
var conditionKinds = []string{"read", "unread", "delivered", "failed", "critical", "data", "all", "any", "not"}

// condition checks the condition of a step by a channel, which is due after a delay.
func (c *workflowCheck) condition(v any, path string, of ChannelID, after time.Duration, depth int) {
	if c.conditions++; c.conditions > maxConditions {
		if c.conditions == maxConditions+1 {
			c.bad(path, "the workflow has more than %d conditions", maxConditions)
		}
		return
	}
	if depth > maxConditionDepth {
		c.bad(path, "conditions are nested more than %d levels deep", maxConditionDepth)
		return
	}
	o, ok := c.object(v, path, slices.Concat(conditionKinds, operators)...)
	if !ok {
		return
	}
	var kinds []string
	for _, kind := range conditionKinds {
		if _, has := o[kind]; has {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) != 1 {
		c.bad(path, "must have exactly one of %s", strings.Join(conditionKinds, ", "))
		return
	}
	kind := kinds[0]
	if kind != "data" && len(o) > 1 {
		c.bad(path, "operators such as equals are for conditions with data")
		return
	}
	at := path + "/" + kind
	switch kind {
	case "read", "unread", "delivered", "failed":
		c.other(o[kind], at, kind, of, after)
	case "critical":
		if _, ok := o[kind].(bool); !ok {
			c.bad(at, "must be true or false")
		}
	case "data":
		c.comparison(o, path)
	case "not":
		c.condition(o[kind], at, of, after, depth+1)
	default:
		list, ok := o[kind].([]any)
		if !ok || len(list) == 0 {
			c.bad(at, "must be a list of conditions")
			return
		}
		for i, one := range list {
			c.condition(one, at+"/"+strconv.Itoa(i), of, after, depth+1)
		}
	}
}

// other checks a condition on what became of the recipient's message by an earlier step.
func (c *workflowCheck) other(v any, path, kind string, of ChannelID, after time.Duration) {
	name, _ := v.(string)
	var channel ChannelID
	if channel.UnmarshalText([]byte(name)) != nil {
		c.bad(path, "must be the channel of an earlier step")
		return
	}
	reads := kind == "read" || kind == "unread"
	began, known := c.at[channel]
	switch {
	case of == Chat || channel == Chat:
		c.bad(path, "a chat has one message for all recipients: use conditions on data or critical")
	case !known:
		c.bad(path, "%q is not the channel of an earlier step", channel)
	case reads && channel != Inbox:
		c.bad(path, "only the inbox knows what was read")
	case reads && after <= began:
		c.bad(path, "it cannot have been read by then: give this step a longer delay than that of the inbox")
	case after < began:
		c.bad(path, "this step is due before that of %q", channel)
	}
}

func (c *workflowCheck) comparison(o map[string]any, path string) {
	field, ok := o["data"].(string)
	if !ok || field == "" || len(field) > maxField || slices.Contains(strings.Split(field, "."), "") {
		c.bad(path+"/data", "must be the name of a field, such as order.total, of at most %d bytes", maxField)
	}
	var named []string
	for _, operator := range operators {
		if _, has := o[operator]; has {
			named = append(named, operator)
		}
	}
	if len(named) != 1 {
		c.bad(path, "a condition with data has exactly one of %s", strings.Join(operators, ", "))
		return
	}
	at, v := path+"/"+named[0], o[named[0]]
	switch named[0] {
	case "exists":
		if _, ok := v.(bool); !ok {
			c.bad(at, "must be true or false")
		}
	case "equals":
		c.constant(v, at)
	case "in":
		list, ok := v.([]any)
		if !ok || len(list) == 0 || len(list) > maxConstants {
			c.bad(at, "must be a list of 1 to %d values", maxConstants)
			return
		}
		for i, one := range list {
			c.constant(one, at+"/"+strconv.Itoa(i))
		}
	default:
		if n, ok := v.(json.Number); !ok || !finite(n) {
			c.bad(at, "must be a number")
		}
	}
}

func (c *workflowCheck) constant(v any, path string) {
	switch v := v.(type) {
	case string, bool:
	case json.Number:
		if !finite(v) {
			c.bad(path, "is too large")
		}
	default:
		c.bad(path, "must be a text, a number, true or false")
	}
}

func finite(n json.Number) bool {
	_, err := n.Float64()
	return err == nil
}
