package notifications

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications retry

// retryNotification queues a failed message again, of any client if the user may see all.
func retryNotification(ctx context.Context, s *core.Session, w core.Words, f *notifyFlags) (core.Result, error) {
	f.administers()
	out := &messageStatus{ID: w["NOTIFICATION"]}
	s.Say("Sending notification %s again...", s.Out.Bold(out.ID))
	if err := f.call(ctx, s, http.MethodPost, "/messages/"+url.PathEscape(out.ID)+"/replay", nil, out); err != nil {
		return nil, err
	}
	s.OK()
	return out, nil
}

// notifications suppressions

type suppressionsFlags struct {
	notifyFlags
	Add    string `long:"add" value-name:"ADDRESS" description:"Send no more mail to this address"`
	Remove string `long:"remove" value-name:"ADDRESS" description:"Send mail to this address again"`
}

type suppressionRow struct {
	Email   string    `json:"email"`
	Reason  string    `json:"reason"`
	Source  string    `json:"source"`
	Created time.Time `json:"created_at"`
}

// suppressed is the JSON output after a change. The list may be long.
type suppressed struct {
	Email      string `json:"email"`
	Suppressed bool   `json:"suppressed"`
}

func (*suppressed) Show(*term.Printer) {}

func changeSuppressions(ctx context.Context, s *core.Session, _ core.Words, f *suppressionsFlags) (core.Result, error) {
	f.administers()
	switch {
	case f.Add != "" && f.Remove != "":
		return nil, core.UsageError("--add and --remove cannot be used together")
	case f.Add != "":
		s.Say("Suppressing mail to %s...", s.Out.Bold(f.Add))
		if err := f.call(ctx, s, http.MethodPut, "/suppressions/"+url.PathEscape(f.Add), nil, nil); err != nil {
			return nil, err
		}
		s.OK()
		return s.JSONOnly(&suppressed{f.Add, true}), nil
	case f.Remove != "":
		s.Say("Allowing mail to %s again...", s.Out.Bold(f.Remove))
		if err := f.call(ctx, s, http.MethodDelete, "/suppressions/"+url.PathEscape(f.Remove), nil, nil); err != nil {
			return nil, err
		}
		s.OK()
		return s.JSONOnly(&suppressed{f.Remove, false}), nil
	}
	s.Say("Getting suppressed addresses...")
	list := &core.Listing[suppressionRow]{Key: "suppressions", None: "No address is suppressed.", Paint: core.Plain,
		Heading: []string{"address", "source", "since", "reason"},
		Cells: func(r suppressionRow) []string {
			return []string{r.Email, r.Source, r.Created.UTC().Format(time.RFC3339), r.Reason}
		}}
	for path := "/suppressions?limit=1000"; path != ""; {
		var page struct {
			nextPage
			Found []suppressionRow `json:"suppressions"`
		}
		if err := f.call(ctx, s, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		list.Rows = append(list.Rows, page.Found...)
		path = page.Links.Next.Href
	}
	return list, nil
}
