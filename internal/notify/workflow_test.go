package notify_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ingot/internal/notify"
)

// TestWorkflowProblems sees that what is wrong with a workflow is refused with a path and a reason.
func TestWorkflowProblems(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"not":`, 9) + `{"critical":true}` + strings.Repeat("}", 9)
	many := `{"all":[` + strings.TrimSuffix(strings.Repeat(`{"critical":true},`, 60), ",") + `]}`
	step := func(text string) string { return `{"steps":[{"channel":"inbox"},{"channel":"email",` + text + `}]}` }
	for _, tc := range []struct{ workflow, want string }{
		{``, "not valid JSON"},
		{`[]`, "must be an object"},
		{`{"steps":[{"channel":"inbox"}]} {}`, "not valid JSON"},
		{`{"steps":[{"channel":"inbox"}`, "not valid JSON"},
		{`{}`, "at /steps: must be a list"},
		{`{"steps":[]}`, "at /steps: must be a list"},
		{`{"steps":{}}`, "at /steps: must be a list"},
		{`{"Steps":[]}`, "at /Steps: is not known"},
		{`{"steps":[7]}`, "at /steps/0: must be an object"},
		{`{"steps":[{}]}`, "at /steps/0/channel: must be one of email, inbox"},
		{`{"steps":[{"channel":"fax"}]}`, "at /steps/0/channel: must be one of email, inbox"},
		{`{"steps":[{"channel":"inbox"},{"channel":"inbox"}]}`, "at /steps/1/channel: \"inbox\" is the channel of an earlier"},
		{`{"steps":[{"channel":"inbox","when":1}]}`, "at /steps/0/when: is not known"},
		{`{"steps":[{"channel":"inbox","a/b~":1}]}`, "at /steps/0/a~1b~0: is not known"},
		{step(`"after":7`), "at /steps/1/after: must be a duration"},
		{step(`"after":"7"`), "at /steps/1/after: must be a duration"},
		{step(`"after":"-1s"`), "at /steps/1/after: must be a duration"},
		{step(`"after":"145h"`), "at most 144h"},
		{step(`"after":"9999999999h"`), "at /steps/1/after: must be a duration"},
		{step(`"if":true`), "at /steps/1/if: must be an object"},
		{step(`"if":null`), "at /steps/1/if: must be an object"},
		{step(`"if":{}`), "at /steps/1/if: must have exactly one of read"},
		{step(`"if":{"critical":true,"read":"inbox"}`), "at /steps/1/if: must have exactly one of read"},
		{step(`"if":{"critical":true,"equals":1}`), "operators such as equals"},
		{step(`"if":{"critical":"yes"}`), "at /steps/1/if/critical: must be true or false"},
		{step(`"if":{"unread":"inbox"}`), "at /steps/1/if/unread: it cannot have been read"},
		{step(`"after":"1h","if":{"unread":"email"}`), "at /steps/1/if/unread: \"email\" is not the channel of an earlier"},
		{step(`"after":"1h","if":{"unread":7}`), "at /steps/1/if/unread: must be the channel"},
		{step(`"after":"1h","if":{"delivered":"chat"}`), "at /steps/1/if/delivered: a chat has one message"},
		{`{"steps":[{"channel":"email"},{"channel":"inbox","after":"1h","if":{"read":"email"}}]}`, "only the inbox knows"},
		{`{"steps":[{"channel":"inbox"},{"channel":"chat","after":"1h","if":{"unread":"inbox"}}]}`, "a chat has one message"},
		{`{"steps":[{"channel":"inbox","after":"2h"},{"channel":"email","after":"1h","if":{"failed":"inbox"}}]}`,
			"due before that of \"inbox\""},
		{step(`"if":{"any":[]}`), "at /steps/1/if/any: must be a list"},
		{step(`"if":{"any":[{"critical":true},{"all":[{"x":1}]}]}`), "at /steps/1/if/any/1/all/0/x: is not known"},
		{step(`"if":` + deep), "nested more than 5 levels"},
		{step(`"if":` + many), "more than 50 conditions"},
		{step(`"if":` + strings.Repeat(`{"not":`, 50) + `1` + strings.Repeat("}", 50)), "nested more than"},
		{step(`"if":{"data":""}`), "at /steps/1/if/data: must be the name of a field"},
		{step(`"if":{"data":"a..b","exists":true}`), "at /steps/1/if/data: must be the name of a field"},
		{step(`"if":{"data":"` + strings.Repeat("x", 300) + `","exists":true}`), "at most 200 bytes"},
		{step(`"if":{"data":"x"}`), "exactly one of exists"},
		{step(`"if":{"data":"x","above":1,"below":2}`), "exactly one of exists"},
		{step(`"if":{"data":"x","above":"1"}`), "at /steps/1/if/above: must be a number"},
		{step(`"if":{"data":"x","above":1e999}`), "at /steps/1/if/above: must be a number"},
		{step(`"if":{"data":"x","equals":1e999}`), "at /steps/1/if/equals: is too large"},
		{step(`"if":{"data":"x","equals":null}`), "at /steps/1/if/equals: must be a text"},
		{step(`"if":{"data":"x","in":[]}`), "at /steps/1/if/in: must be a list"},
		{step(`"if":{"data":"x","in":["a",{}]}`), "at /steps/1/if/in/1: must be a text"},
		{step(`"if":{"data":"x\u0000","exists":true}`), "NUL"},
		{step(`"if":{"data":"x","equals":"` + strings.Repeat("x", 20_000) + `"}`), "at most 16384"},
	} {
		w, err := notify.ParseWorkflow(json.RawMessage(tc.workflow))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.100s: %v, %v; want %q", tc.workflow, w, err, tc.want)
		}
	}
}

// TestWorkflowNames sees that of a name that an object has twice, only what was checked is read.
func TestWorkflowNames(t *testing.T) {
	t.Parallel()
	w, err := notify.ParseWorkflow(json.RawMessage(`{"steps":[{"channel":"inbox"},{"channel":"email","after":"90m",
		"if":{"not":{"critical":true}},"if":{"unread":"inbox"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Steps[1].String(); got != "email after 1h30m, if not read in the inbox" || w.Steps[1].If.Not != nil {
		t.Error(got)
	}
	text, err := json.Marshal(w)
	if want := `{"steps":[{"channel":"inbox"},{"channel":"email","after":"1h30m","if":{"unread":"inbox"}}]}`; string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

// TestWorkflowDescription sees that constants are shown as they are, except what changes a terminal.
func TestWorkflowDescription(t *testing.T) {
	t.Parallel()
	w, err := notify.ParseWorkflow(json.RawMessage(
		`{"steps":[{"channel":"email","if":{"data":"x","in":["<b>\"ü\"","\u001b[2J",7,true]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = "email at once, if data x is one of \"<b>\"ü\"\", \"\uFFFD[2J\", 7, true"
	if got := w.Steps[0].String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	data, err := notify.DecodeData(json.RawMessage(
		`{"n":7,"big":1e999,"s":"x","yes":true,"null":null,"o":{"p":[1],"q":"5"},"zero":0,"no":false}`))
	if err != nil {
		t.Fatal(err)
	}
	with := func(status notify.Status, read bool) map[notify.ChannelID]notify.Progress {
		return map[notify.ChannelID]notify.Progress{notify.Inbox: {Status: status, Read: read}}
	}
	const yes, no, wait = notify.Yes, notify.No, notify.Undecided
	for _, tc := range []struct {
		condition string
		others    map[notify.ChannelID]notify.Progress
		want      notify.Decision
	}{
		{`{"read":"inbox"}`, nil, no},
		{`{"read":"inbox"}`, with(notify.Delivered, true), yes},
		{`{"unread":"inbox"}`, nil, yes},
		{`{"unread":"inbox"}`, with(notify.Queued, false), yes},
		{`{"unread":"inbox"}`, with(notify.Delivered, true), no},
		{`{"delivered":"inbox"}`, nil, no},
		{`{"delivered":"inbox"}`, with(notify.Retry, false), wait},
		{`{"delivered":"inbox"}`, with(notify.Delivered, false), yes},
		{`{"failed":"inbox"}`, nil, yes},
		{`{"failed":"inbox"}`, with(notify.Queued, false), wait},
		{`{"failed":"inbox"}`, with(notify.Failed, false), yes},
		{`{"failed":"inbox"}`, with(notify.Undeliverable, false), yes},
		{`{"failed":"inbox"}`, with(notify.Delivered, false), no},
		{`{"failed":"inbox"}`, with(notify.Unsubscribed, false), yes},
		{`{"failed":"inbox"}`, with(notify.Canceled, false), no},
		{`{"failed":"inbox"}`, with(notify.Skipped, false), no},
		{`{"not":{"failed":"inbox"}}`, with(notify.Queued, false), wait},
		{`{"not":{"failed":"inbox"}}`, nil, no},
		{`{"all":[{"failed":"inbox"},{"critical":true}]}`, with(notify.Queued, false), no},
		{`{"all":[{"failed":"inbox"},{"critical":false}]}`, with(notify.Queued, false), wait},
		{`{"any":[{"failed":"inbox"},{"critical":false}]}`, with(notify.Queued, false), yes},
		{`{"any":[{"failed":"inbox"},{"critical":true}]}`, with(notify.Queued, false), wait},
		{`{"critical":true}`, nil, no},
		{`{"critical":false}`, nil, yes},
		{`{"data":"n","equals":7}`, nil, yes},
		{`{"data":"n","equals":7.0}`, nil, yes},
		{`{"data":"n","equals":"7"}`, nil, no},
		{`{"data":"n","above":6}`, nil, yes},
		{`{"data":"n","above":7}`, nil, no},
		{`{"data":"n","at_least":7}`, nil, yes},
		{`{"data":"n","below":7}`, nil, no},
		{`{"data":"n","at_most":7}`, nil, yes},
		{`{"data":"big","above":1}`, nil, yes},
		{`{"data":"s","above":1}`, nil, no},
		{`{"data":"s","in":["y","x"]}`, nil, yes},
		{`{"data":"s","in":[1,true]}`, nil, no},
		{`{"data":"yes","equals":true}`, nil, yes},
		{`{"data":"no","equals":false}`, nil, yes},
		{`{"data":"zero","equals":0}`, nil, yes},
		{`{"data":"null","exists":true}`, nil, no},
		{`{"data":"gone","exists":false}`, nil, yes},
		{`{"data":"gone","below":7}`, nil, no},
		{`{"data":"gone","equals":false}`, nil, no},
		{`{"data":"o","equals":"x"}`, nil, no},
		{`{"data":"o.p","in":[1]}`, nil, no},
		{`{"data":"o.q","equals":"5"}`, nil, yes},
		{`{"data":"o.q.r","exists":true}`, nil, no},
	} {
		w, err := notify.ParseWorkflow(json.RawMessage(fmt.Sprintf(
			`{"steps":[{"channel":"inbox"},{"channel":"email","after":"1h","if":%s}]}`, tc.condition)))
		if err != nil {
			t.Errorf("%s: %v", tc.condition, err)
			continue
		}
		if got := w.Steps[1].If.Decide(notify.Situation{Data: data, Others: tc.others}); got != tc.want {
			t.Errorf("%s with %v: %v, want %v", tc.condition, tc.others, got, tc.want)
		}
		if w.Steps[1].If.String() == "" {
			t.Errorf("%s has no description", tc.condition)
		}
	}
}

// TestDecideUnwanted decides about steps after one that was skipped: by the workflow, or because the user turned its
// channel off.
func TestDecideUnwanted(t *testing.T) {
	t.Parallel()
	inbox := notify.Inbox
	for _, tc := range []struct {
		condition notify.Condition
		status    notify.Status
		unwanted  notify.Unwanted
		want      notify.Decision
	}{
		{notify.Condition{Failed: &inbox}, notify.Skipped, 0, notify.No},
		{notify.Condition{Failed: &inbox}, notify.Skipped, notify.UnwantedOn(notify.Email), notify.No},
		{notify.Condition{Failed: &inbox}, notify.Skipped, notify.UnwantedOn(notify.Inbox), notify.Yes},
		{notify.Condition{Failed: &inbox}, notify.Queued, notify.UnwantedOn(notify.Inbox), notify.Undecided},
		{notify.Condition{Failed: &inbox}, notify.Delivered, notify.UnwantedAll, notify.No},
		{notify.Condition{Failed: &inbox}, notify.Canceled, notify.UnwantedAll, notify.No},
		{notify.Condition{Delivered: &inbox}, notify.Skipped, notify.UnwantedOn(notify.Inbox), notify.No},
		{notify.Condition{Delivered: &inbox}, notify.Delivered, notify.UnwantedOn(notify.Inbox), notify.Yes},
	} {
		got := tc.condition.Decide(notify.Situation{Unwanted: tc.unwanted,
			Others: map[notify.ChannelID]notify.Progress{notify.Inbox: {Status: tc.status}}})
		if got != tc.want {
			t.Errorf("%s with %s and %v unwanted: %v, want %v", &tc.condition, tc.status, tc.unwanted.Names(), got, tc.want)
		}
	}
}
