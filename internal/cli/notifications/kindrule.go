package notifications

import (
	"context"
	"net/http"
	"net/url"

	"ingot/internal/cli/core"
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
