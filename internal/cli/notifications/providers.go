package notifications

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications providers

type providersFlags struct {
	notifyFlags
	Set        string   `long:"set" value-name:"NAME" description:"Declare the provider of this name, or replace it"`
	Channel    string   `long:"channel" value-name:"sms|push" description:"With --set: its channel (default: as the definition says, or sms)"`
	Definition string   `long:"definition" value-name:"JSON" description:"With --set: its definition in JSON, or @FILE"`
	Secrets    []string `long:"secret" value-name:"NAME=VALUE" description:"With --set: a secret that the definition uses, or NAME=@FILE; can be repeated. Others keep their values"`
	Delete     string   `long:"delete" value-name:"NAME" description:"Delete the provider of this name"`
	Show       string   `long:"show" value-name:"NAME" description:"Show the definition of the provider of this name"`
	Shared     bool     `long:"shared" description:"For administrators: the providers that deliver for clients without their own"`
}

type providerHealth struct {
	State    string     `json:"state"`
	Failures int        `json:"failures"`
	Reason   string     `json:"reason,omitempty"`
	Until    *time.Time `json:"until,omitempty"`
}

type providerRow struct {
	Name     string          `json:"name"`
	Channel  string          `json:"channel"`
	Shared   bool            `json:"shared"`
	URL      string          `json:"url,omitempty"`
	Weight   *int            `json:"weight,omitempty"`
	Disabled bool            `json:"disabled,omitempty"`
	Health   *providerHealth `json:"health,omitempty"`
}

func (r providerRow) cells() []string {
	weight, shared, state := "", "", ""
	if r.Weight != nil {
		weight = fmt.Sprint(*r.Weight)
	}
	if r.Shared {
		shared = "yes"
	}
	if r.Health != nil {
		state = r.Health.State
		if r.Health.Reason != "" {
			state += ": " + r.Health.Reason
		}
	}
	if r.Disabled {
		state = "disabled"
	}
	return []string{r.Name, r.Channel, r.URL, weight, shared, state}
}

func (f *providersFlags) path(name string) string {
	path := "/providers/" + url.PathEscape(name)
	if f.Shared {
		path += "?shared=true"
	}
	return path
}

func (f *providersFlags) check() error {
	chosen := 0
	for _, name := range []string{f.Set, f.Delete, f.Show} {
		if name != "" {
			chosen++
		}
	}
	switch {
	case chosen > 1:
		return core.UsageError("--set, --delete and --show cannot be used together")
	case (f.Set == "") != (f.Definition == ""):
		return core.UsageError("--set and --definition are used together")
	case f.Set == "" && len(f.Secrets) > 0:
		return core.UsageError("--secret requires --set")
	case f.Set == "" && f.Channel != "":
		return core.UsageError("--channel requires --set")
	case f.Shared && chosen == 0:
		return core.UsageError("--shared requires --set, --delete or --show; the list shows shared providers too")
	}
	return nil
}

func changeProviders(ctx context.Context, s *core.Session, _ core.Words, f *providersFlags) (core.Result, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	switch {
	case f.Set != "":
		body, err := f.definition(s)
		if err != nil {
			return nil, err
		}
		s.Say("Declaring the provider %s...", s.Out.Bold(f.Set))
		if err := f.call(ctx, s, http.MethodPut, f.path(f.Set), body, nil); err != nil {
			return nil, err
		}
		s.OK()
	case f.Delete != "":
		s.Say("Deleting the provider %s...", s.Out.Bold(f.Delete))
		if err := f.call(ctx, s, http.MethodDelete, f.path(f.Delete), nil, nil); err != nil {
			return nil, err
		}
		s.OK()
	case f.Show != "":
		var found json.RawMessage
		if err := f.call(ctx, s, http.MethodGet, f.path(f.Show), nil, &found); err != nil {
			return nil, err
		}
		return &shownProvider{found}, nil
	default:
		s.Say("Getting providers...")
	}
	var found struct{ Providers []providerRow }
	if err := f.call(ctx, s, http.MethodGet, "/providers", nil, &found); err != nil {
		return nil, err
	}
	return &core.Listing[providerRow]{Key: "providers",
		Heading: []string{"name", "channel", "address", "weight", "shared", "state"},
		Paint:   core.Plain, None: "No providers found.", Rows: found.Providers, Cells: providerRow.cells}, nil
}

// shownProvider is a definition as the service shows it.
type shownProvider struct{ raw json.RawMessage }

// MarshalJSON returns all of it.
func (p *shownProvider) MarshalJSON() ([]byte, error) { return p.raw, nil }

// Show prints it as JSON, the form in which it is declared.
func (p *shownProvider) Show(out *term.Printer) {
	var indented bytes.Buffer
	if json.Indent(&indented, p.raw, "", "  ") == nil {
		out.Println(indented.String())
	}
}

// definition returns the definition with the secrets of the command line over its own.
func (f *providersFlags) definition(s *core.Session) (map[string]any, error) {
	text, err := contentOf(s, f.Definition)
	if err != nil {
		return nil, err
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		return nil, fmt.Errorf("the definition is not an object in JSON: %w", err)
	}
	secrets, _ := body["secrets"].(map[string]any)
	if secrets == nil {
		secrets = map[string]any{}
	}
	for _, pair := range f.Secrets {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, core.UsageError("--secret takes NAME=VALUE or NAME=@FILE")
		}
		if value, err = contentOf(s, value); err != nil {
			return nil, err
		}
		secrets[name] = strings.TrimSpace(value)
	}
	body["secrets"] = secrets
	if f.Channel != "" {
		body["channel"] = f.Channel
	}
	body["channel"] = cmp.Or[any](body["channel"], "sms")
	return body, nil
}
