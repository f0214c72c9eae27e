package notifications

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications workflow

type workflowFlags struct {
	notifyFlags
	Set    string `long:"set" value-name:"JSON" description:"Set the workflow: JSON, or @FILE"`
	Delete bool   `long:"delete" description:"Delete it: the kind's channels are used at once"`
}

// workflow is how the notifications of a kind travel.
type workflow struct {
	Kind        string          `json:"kind"`
	Workflow    json.RawMessage `json:"workflow"`
	Description []string        `json:"description"`
}

func (w *workflow) Show(p *term.Printer) {
	for i, step := range w.Description {
		p.Println(fmt.Sprintf("%d. %s", i+1, step))
	}
}

func changeWorkflow(ctx context.Context, s *core.Session, w core.Words, f *workflowFlags) (core.Result, error) {
	rule := kindRule{Path: "workflow", Name: "workflow", Delete: f.Delete}
	if f.Set != "" {
		if f.Delete {
			return nil, core.UsageError("--set and --delete cannot be used together")
		}
		text, err := contentOf(s, f.Set)
		if err != nil {
			return nil, err
		}
		if !json.Valid([]byte(text)) {
			return nil, core.UsageError("--set is not valid JSON")
		}
		rule.Body = json.RawMessage(text)
	}
	return rule.change(ctx, s, w["KIND"], &f.notifyFlags, &workflow{Kind: w["KIND"]})
}

// notifications timeline

type eventRow struct {
	At      time.Time `json:"at"`
	Event   string    `json:"event"`
	Channel string    `json:"channel,omitempty"`
	Message string    `json:"message_id,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

func showTimeline(ctx context.Context, s *core.Session, w core.Words, f *notifyFlags) (core.Result, error) {
	s.Say("Getting the timeline of %s...", s.Out.Bold(w["NOTIFICATION"]))
	var found struct{ Events []eventRow }
	if err := f.call(ctx, s, http.MethodGet, "/messages/"+url.PathEscape(w["NOTIFICATION"])+"/timeline", nil,
		&found); err != nil {
		return nil, err
	}
	return &core.Listing[eventRow]{
		Key: "events", Heading: []string{"time", "channel", "event", "attempt", "reason"},
		Paint: []core.Paint{nil, nil, core.State}, Rows: found.Events,
		Cells: func(e eventRow) []string {
			attempt := ""
			if e.Attempt > 0 {
				attempt = strconv.Itoa(e.Attempt)
			}
			return []string{e.At.UTC().Format(time.RFC3339), e.Channel, e.Event, attempt, e.Reason}
		},
	}, nil
}
