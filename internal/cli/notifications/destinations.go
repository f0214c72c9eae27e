package notifications

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/cli/core"
)

// notifications destinations

type destinationsFlags struct {
	notifyFlags
	Set    string `long:"set" value-name:"CHANNEL" description:"Set the destination of this channel: chat or webhook"`
	To     string `long:"to" value-name:"ADDRESS" description:"With --set: the address to call, or @FILE, which the process list does not show"`
	Format string `long:"format" value-name:"FORMAT" description:"With --set chat: slack (default; also Mattermost), teams or discord"`
	Sign   string `long:"sign" value-name:"SECRET" description:"With --set webhook: the secret that signs calls, or @FILE (default: generated)"`
	Delete string `long:"delete" value-name:"CHANNEL" description:"Delete the destination of this channel"`
}

type destinationRow struct {
	Channel string    `json:"channel"`
	URL     string    `json:"url"`
	Format  string    `json:"format,omitempty"`
	Updated time.Time `json:"updated_at"`
	// Secret is that of a webhook whose secret was generated just now.
	Secret string `json:"secret,omitempty"`
}

func changeDestinations(ctx context.Context, s *core.Session, _ core.Words, f *destinationsFlags) (core.Result, error) {
	var made destinationRow
	switch {
	case f.Set != "" && f.Delete != "":
		return nil, core.UsageError("--set and --delete cannot be used together")
	case f.Set != "" && f.To == "":
		return nil, core.UsageError("--set requires --to")
	case f.Set == "" && (f.To != "" || f.Format != "" || f.Sign != ""):
		return nil, core.UsageError("--to, --format and --sign require --set")
	case f.Set != "":
		body := map[string]string{}
		for key, value := range map[string]string{"url": f.To, "format": f.Format, "secret": f.Sign} {
			content, err := contentOf(s, value)
			if err != nil {
				return nil, err
			}
			if content = strings.TrimSpace(content); content != "" {
				body[key] = content
			}
		}
		s.Say("Setting the destination of %s...", s.Out.Bold(f.Set))
		if err := f.call(ctx, s, http.MethodPut, "/destinations/"+url.PathEscape(f.Set), body, &made); err != nil {
			return nil, err
		}
		s.OK()
	case f.Delete != "":
		s.Say("Deleting the destination of %s...", s.Out.Bold(f.Delete))
		if err := f.call(ctx, s, http.MethodDelete, "/destinations/"+url.PathEscape(f.Delete), nil, nil); err != nil {
			return nil, err
		}
		s.OK()
	default:
		s.Say("Getting destinations...")
	}
	var found struct{ Destinations []destinationRow }
	if err := f.call(ctx, s, http.MethodGet, "/destinations", nil, &found); err != nil {
		return nil, err
	}
	for i, d := range found.Destinations {
		if d.Channel == made.Channel {
			found.Destinations[i].Secret = made.Secret
		}
	}
	if made.Secret != "" {
		s.Say("The secret that signs the calls, which is not shown again: %s", made.Secret)
	}
	return &core.Listing[destinationRow]{Key: "destinations", Heading: []string{"channel", "address", "format"},
		Paint: core.Plain, None: "No destinations found.", Rows: found.Destinations,
		Cells: func(r destinationRow) []string { return []string{r.Channel, r.URL, r.Format} }}, nil
}
