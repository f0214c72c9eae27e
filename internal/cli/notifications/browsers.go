package notifications

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications browsers

type browsersFlags struct {
	notifyFlags
	Remove string `long:"remove" value-name:"ID" description:"Remove the browser or device with this id: it gets no more push notifications"`
	Key    bool   `long:"key" description:"Show the public key with which web pages subscribe browsers"`
}

type browserRow struct {
	ID      string    `json:"id"`
	Client  string    `json:"client_id"`
	Type    string    `json:"type"`
	Service string    `json:"service"`
	Label   string    `json:"label"`
	Updated time.Time `json:"updated_at"`
}

func (r browserRow) cells() []string {
	return []string{r.ID, r.Client, cmp.Or(r.Type, "browser"), r.Label, r.Service, r.Updated.UTC().Format(time.RFC3339)}
}

type pushKey struct {
	Key string `json:"public_key"`
}

// Show prints it.
func (k *pushKey) Show(p *term.Printer) { p.Println(k.Key) }

// own sends a request as the logged-in user.
func (f *browsersFlags) own(ctx context.Context, s *core.Session, method, path string, into any) error {
	if err := s.Check(core.NeedsLogin); err != nil {
		return err
	}
	base, err := f.base(ctx, s)
	if err != nil {
		return err
	}
	_, err = s.API.Do(ctx, client.Call{Method: method, URL: base + path, Into: into})
	return f.explain(base, err)
}

func changeBrowsers(ctx context.Context, s *core.Session, _ core.Words, f *browsersFlags) (core.Result, error) {
	switch {
	case f.Client != "":
		return nil, core.UsageError("--client cannot be used: a client has no browsers; see notifications recipient-data")
	case f.Key && f.Remove != "":
		return nil, core.UsageError("--key and --remove cannot be used together")
	case f.Key:
		key := &pushKey{}
		return key, f.own(ctx, s, http.MethodGet, "/push_key", key)
	case f.Remove != "":
		s.Say("Removing the browser or device %s...", s.Out.Bold(f.Remove))
		if err := f.own(ctx, s, http.MethodDelete, "/push_subscriptions/"+url.PathEscape(f.Remove), nil); err != nil {
			return nil, err
		}
		s.OK()
	default:
		s.Say("Getting browsers and devices...")
	}
	var found struct {
		Browsers []browserRow `json:"push_subscriptions"`
	}
	if err := f.own(ctx, s, http.MethodGet, "/push_subscriptions", &found); err != nil {
		return nil, err
	}
	return &core.Listing[browserRow]{Key: "push_subscriptions",
		Heading: []string{"id", "client", "type", "label", "push service", "registered"},
		Paint:   core.Plain, None: "No browsers or devices found.", Rows: found.Browsers, Cells: browserRow.cells}, nil
}
