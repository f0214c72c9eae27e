package notifications

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// setFlags change a list.
type setFlags struct {
	notifyFlags
	Set string `long:"set" value-name:"LIST" description:"What to set, separated by commas"`
}

// notifications channels

type channelRow struct {
	Channel string `json:"channel"`
}

// change reads a list at a path, or sets it, and returns its field of that name.
func (f *setFlags) change(ctx context.Context, s *core.Session, path, field string) ([]string, error) {
	method, body := http.MethodGet, any(nil)
	if f.Set != "" {
		method, body = http.MethodPut, map[string][]string{field: strings.Split(f.Set, ",")}
	}
	var out map[string][]string
	if err := f.call(ctx, s, method, path, body, &out); err != nil {
		return nil, err
	}
	return out[field], nil
}

func changeChannels(ctx context.Context, s *core.Session, w core.Words, f *setFlags) (core.Result, error) {
	s.Say("Getting the channels of %s...", s.Out.Bold(w["KIND"]))
	names, err := f.change(ctx, s, "/kinds/"+url.PathEscape(w["KIND"])+"/channels", "channels")
	if err != nil {
		return nil, err
	}
	list := &core.Listing[channelRow]{Key: "channels", Heading: []string{"channel"}, Paint: core.Plain,
		Cells: func(r channelRow) []string { return []string{r.Channel} }}
	for _, name := range names {
		list.Rows = append(list.Rows, channelRow{name})
	}
	return list, nil
}

// notifications inbox-origins

type originRow struct {
	Origin string `json:"origin"`
}

func changeOrigins(ctx context.Context, s *core.Session, _ core.Words, f *setFlags) (core.Result, error) {
	s.Say("Getting the origins that may read inboxes...")
	origins, err := f.change(ctx, s, "/inbox/origins", "origins")
	if err != nil {
		return nil, err
	}
	list := &core.Listing[originRow]{Key: "origins", Heading: []string{"origin"}, Paint: core.Plain,
		None: "No origins found.", Cells: func(r originRow) []string { return []string{r.Origin} }}
	for _, origin := range origins {
		list.Rows = append(list.Rows, originRow{origin})
	}
	return list, nil
}

// notifications inbox-token

type inboxTokenFlags struct {
	notifyFlags
	Valid time.Duration `long:"valid" value-name:"DURATION" default:"1h" description:"How long the token is valid, at most 24h"`
}

type inboxToken struct {
	Token     string    `json:"token"`
	UserID    string    `json:"user_id"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Show prints the token alone, for scripts.
func (t *inboxToken) Show(p *term.Printer) { p.Println(t.Token) }

func createInboxToken(ctx context.Context, s *core.Session, w core.Words, f *inboxTokenFlags) (core.Result, error) {
	out := &inboxToken{}
	body := map[string]any{"user_id": w["USER"], "expires_in": int(f.Valid.Seconds())}
	if err := f.call(ctx, s, http.MethodPost, "/inbox/tokens", body, out); err != nil {
		return nil, err
	}
	return out, nil
}
