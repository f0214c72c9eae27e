package notifications

import (
	"context"
	"net/http"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications usage

type usageRow struct {
	What  string `json:"what"`
	Bytes int64  `json:"bytes"`
	Limit *int64 `json:"limit"`
}

func showUsage(ctx context.Context, s *core.Session, _ core.Words, f *notifyFlags) (core.Result, error) {
	s.Say("Getting what the client has stored...")
	var usage struct{ Sends, Definitions usageRow }
	if err := f.call(ctx, s, http.MethodGet, "/usage", nil, &usage); err != nil {
		return nil, err
	}
	usage.Sends.What, usage.Definitions.What = "sends", "definitions"
	return &core.Listing[usageRow]{
		Key: "usage", Heading: []string{"what", "stored", "limit"}, Paint: core.Plain,
		Rows: []usageRow{usage.Sends, usage.Definitions},
		Cells: func(u usageRow) []string {
			limit := "none"
			if u.Limit != nil {
				limit = term.Size(*u.Limit)
			}
			return []string{u.What, term.Size(u.Bytes), limit}
		},
	}, nil
}
