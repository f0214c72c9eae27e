package notifications

import (
	"context"
	"encoding/json"
	"strings"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications throttle

type throttleFlags struct {
	notifyFlags
	Limit    int    `long:"limit" value-name:"N" description:"How many a recipient gets by a channel within any window"`
	Window   string `long:"window" value-name:"DURATION" description:"Length of the window: 90s, 15m, 36h"`
	Over     string `long:"over" value-name:"drop|digest" description:"Drop what is over the limit, or collect it in the kind's digest (default: drop)"`
	Channels string `long:"channels" value-name:"LIST" description:"Channels that are limited (default: all)"`
	Delete   bool   `long:"delete" description:"Send later notifications without a limit"`
}

// throttle is how the notifications of a kind are limited.
type throttle struct {
	Kind        string          `json:"kind"`
	Throttle    json.RawMessage `json:"throttle"`
	Description string          `json:"description"`
}

func (t *throttle) Show(p *term.Printer) { p.Println(t.Description) }

func changeThrottle(ctx context.Context, s *core.Session, w core.Words, f *throttleFlags) (core.Result, error) {
	rule := kindRule{Path: "throttle", Name: "limit", Delete: f.Delete}
	if f.Limit != 0 || f.Window != "" || f.Over != "" || f.Channels != "" {
		if f.Delete {
			return nil, core.UsageError("--delete cannot be used with other options of the limit")
		}
		body := map[string]any{"limit": f.Limit, "window": f.Window}
		if f.Over != "" {
			body["over"] = f.Over
		}
		if f.Channels != "" {
			body["channels"] = strings.Split(f.Channels, ",")
		}
		rule.Body = body
	}
	return rule.change(ctx, s, w["KIND"], &f.notifyFlags, &throttle{Kind: w["KIND"]})
}
