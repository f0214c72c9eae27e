package notifications

import (
	"context"
	"net/http"
	"net/url"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// kindRule shows, sets or deletes one of the rules of a kind.
type kindRule struct {
	// Path is that of the API, below the kind, and Name what the rule is called.
	Path, Name string
	// Body sets the rule, unless it is nil; Delete deletes it.
	Body   any
	Delete bool
}

// change does what r says. answer becomes the rule as it is then.
func (r kindRule) change(ctx context.Context, s *core.Session, kind string, f *notifyFlags,
	answer core.Result) (core.Result, error) {
	path := "/kinds/" + url.PathEscape(kind) + "/" + r.Path
	of := r.Name + " of " + s.Out.Bold(kind) + "..."
	switch {
	case r.Body != nil:
		s.Say("Setting the %s", of)
		if err := f.call(ctx, s, http.MethodPut, path, r.Body, answer); err != nil {
			return nil, err
		}
		s.OK()
		return answer, nil
	case r.Delete:
		s.Say("Deleting the %s", of)
		if err := f.call(ctx, s, http.MethodDelete, path, nil, nil); err != nil {
			return nil, err
		}
		s.OK()
	default:
		s.Say("Getting the %s", of)
	}
	return answer, f.call(ctx, s, http.MethodGet, path, nil, answer)
}

// notifications retention

type retentionFlags struct {
	notifyFlags
	Keep   string `long:"keep" value-name:"DURATION" description:"How long messages are kept after they are final: 36h, 90d"`
	Delete bool   `long:"delete" description:"Keep later notifications as long as the server keeps others"`
}

// retention is how long the messages of a kind are kept.
type retention struct {
	Kind        string  `json:"kind"`
	Retention   *string `json:"retention"`
	Description string  `json:"description"`
}

func (r *retention) Show(p *term.Printer) { p.Println(r.Description) }

func changeRetention(ctx context.Context, s *core.Session, w core.Words, f *retentionFlags) (core.Result, error) {
	rule := kindRule{Path: "retention", Name: "retention", Delete: f.Delete}
	if f.Keep != "" {
		if f.Delete {
			return nil, core.UsageError("--keep and --delete cannot be used together")
		}
		rule.Body = map[string]any{"retention": f.Keep}
	}
	return rule.change(ctx, s, w["KIND"], &f.notifyFlags, &retention{Kind: w["KIND"]})
}

// notifications tracking

type trackingFlags struct {
	notifyFlags
	Opens  bool `long:"opens" description:"Count when recipients who allow it open mail"`
	Clicks bool `long:"clicks" description:"Count when recipients who allow it follow links in mail"`
	Delete bool `long:"delete" description:"Count neither in later notifications"`
}

// tracking is what is counted of the mail of a kind.
type tracking struct {
	Kind        string `json:"kind"`
	Opens       bool   `json:"opens"`
	Clicks      bool   `json:"clicks"`
	Description string `json:"description"`
}

func (t *tracking) Show(p *term.Printer) { p.Println(t.Description) }

func changeTracking(ctx context.Context, s *core.Session, w core.Words, f *trackingFlags) (core.Result, error) {
	rule := kindRule{Path: "tracking", Name: "tracking", Delete: f.Delete}
	if f.Opens || f.Clicks {
		if f.Delete {
			return nil, core.UsageError("--delete cannot be used with --opens or --clicks")
		}
		rule.Body = map[string]any{"opens": f.Opens, "clicks": f.Clicks}
	}
	return rule.change(ctx, s, w["KIND"], &f.notifyFlags, &tracking{Kind: w["KIND"]})
}
