package notifications

import (
	"context"
	"net/http"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// preferencesFlags say which subscriptions of the logged-in user to change.
type preferencesFlags struct {
	URL         string   `long:"url" value-name:"URL" description:"Notification service URL (default: the target's)"`
	Unsubscribe []string `long:"unsubscribe" value-name:"CLIENT/KIND" description:"Unsubscribe from this kind; 'all' means every kind that is not critical"`
	Subscribe   []string `long:"subscribe" value-name:"CLIENT/KIND" description:"Subscribe to this kind; 'all' reverts --unsubscribe all"`
}

type preference struct {
	Email  *bool  `json:"email,omitempty"`
	Kind   string `json:"kind_description,omitempty"`
	Source string `json:"source_description,omitempty"`
}

type preferences struct {
	Global  bool                             `json:"global_unsubscribe"`
	Clients map[string]map[string]preference `json:"clients"`
}

func (r *preferences) Show(p *term.Printer) {
	if r.Global {
		p.Println("Unsubscribed from all notifications that are not critical.")
	}
	if len(r.Clients) == 0 {
		p.Println("No notifications received yet.")
		return
	}
	t := term.Table{Heading: []string{"client", "kind", "description", "subscribed"}}
	for _, id := range core.SortedKeys(r.Clients) {
		for _, kind := range core.SortedKeys(r.Clients[id]) {
			k := r.Clients[id][kind]
			word := "no"
			if k.Email != nil && *k.Email {
				word = "yes"
			}
			t.Rows = append(t.Rows, term.Cells(id, kind, k.Kind, word))
		}
	}
	p.Println("")
	p.Table(t)
}

func changePreferences(ctx context.Context, s *core.Session, _ core.Words, f *preferencesFlags) (core.Result, error) {
	base, err := (&notifyFlags{URL: f.URL}).base(ctx, s)
	if err != nil {
		return nil, err
	}
	call := func(method string, body, into any) error {
		_, err := s.API.Do(ctx, client.Call{Method: method, URL: base + "/user_preferences", Body: body, Into: into})
		return explainNotify(base, err)
	}
	var now preferences
	if err := call(http.MethodGet, nil, &now); err != nil {
		return nil, err
	}
	if len(f.Subscribe)+len(f.Unsubscribe) > 0 {
		// The service treats a missing global_unsubscribe as false, so always
		// send it.
		change := preferences{Global: now.Global, Clients: map[string]map[string]preference{}}
		for _, one := range []struct {
			names []string
			email bool
		}{{f.Unsubscribe, false}, {f.Subscribe, true}} {
			for _, name := range one.names {
				if name == "all" {
					change.Global = !one.email
					continue
				}
				id, kind, ok := strings.Cut(name, "/")
				if !ok {
					return nil, core.UsageError("expected CLIENT/KIND, got " + name)
				}
				if change.Clients[id] == nil {
					change.Clients[id] = map[string]preference{}
				}
				change.Clients[id][kind] = preference{Email: &one.email}
			}
		}
		if err := call(http.MethodPatch, change, nil); err != nil {
			return nil, err
		}
		s.OK()
		now = preferences{}
		if err := call(http.MethodGet, nil, &now); err != nil {
			return nil, err
		}
	}
	return &now, nil
}
