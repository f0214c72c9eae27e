package httpext

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/provider"
)

// registerProviders adds the routes that declare the services which deliver messages by HTTP.
func (f *handlers) registerProviders(g *web.Group) {
	owner := web.Scope(scopeManage, scopeWrite, scopeAdmin)
	g.Handle("GET", "/providers", owner, f.listProviders)
	g.Handle("GET", "/providers/{provider}", owner, f.showProvider)
	g.Handle("PUT", "/providers/{provider}", owner, f.setProvider)
	g.Handle("DELETE", "/providers/{provider}", owner, f.deleteProvider)
}

// providerBody shows a provider without the values of its secrets.
type providerBody struct {
	Name    string `json:"name"`
	Channel string `json:"channel"`
	Shared  bool   `json:"shared"`
	notify.ProviderDefinition
	Secrets []string    `json:"secrets"` // their names
	Health  *healthBody `json:"health,omitempty"`
	Created time.Time   `json:"created_at"`
	Updated time.Time   `json:"updated_at"`
}

// healthBody is what the server that answers knows of a provider.
type healthBody struct {
	State    string     `json:"state"`
	Failures int        `json:"failures"`
	Reason   string     `json:"reason,omitempty"`
	Until    *time.Time `json:"until,omitempty"`
}

func (f *handlers) presentProvider(p notify.Provider) providerBody {
	out := providerBody{Name: p.Name, Channel: p.Channel.String(), Shared: p.Owner == "",
		ProviderDefinition: p.ProviderDefinition, Secrets: []string{}, Created: p.Created.UTC(), Updated: p.Updated.UTC()}
	out.Secrets = append(out.Secrets, slices.Sorted(maps.Keys(p.Secrets))...)
	if f.ProviderHealth != nil {
		h := f.ProviderHealth(p.Channel, p.Owner, p.Name)
		out.Health = &healthBody{State: string(h.State), Failures: h.Failures, Reason: h.Why}
		if !h.Until.IsZero() {
			until := h.Until.UTC()
			out.Health.Until = &until
		}
	}
	return out
}

// listProviders lists the caller's own. Administrators see the shared ones too; to others they are shown by name and
// channel only.
func (f *handlers) listProviders(w http.ResponseWriter, r *http.Request) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	own, err := f.Store.Providers(r.Context(), client(r))
	if err != nil {
		return err
	}
	out := []any{}
	for _, p := range own {
		out = append(out, f.presentProvider(p))
	}
	shared, err := f.Store.Providers(r.Context(), "")
	if err != nil {
		return err
	}
	for _, p := range shared {
		if administers(r) {
			out = append(out, f.presentProvider(p))
			continue
		}
		out = append(out, map[string]any{"name": p.Name, "channel": p.Channel.String(), "shared": true})
	}
	return web.Answer(w, http.StatusOK, map[string]any{"providers": out}, nil)
}

// providerOwner returns the owner of the provider of a request. Shared ones are for administrators.
func providerOwner(r *http.Request) (string, error) {
	return ownerOrShared(r, false, "Shared providers deliver for all clients. They require the scope %s.")
}

func (f *handlers) showProvider(w http.ResponseWriter, r *http.Request) error {
	owner, err := providerOwner(r)
	if err != nil {
		return err
	}
	name := web.Param(r, "provider")
	p, err := f.Store.Provider(r.Context(), owner, name)
	return web.Answer(w, http.StatusOK, f.presentProvider(p), missing(err, "Provider", name))
}

// newProvider is the body of a request. Secrets that are not in it keep their values.
type newProvider struct {
	Channel string `json:"channel"`
	notify.ProviderDefinition
	Secrets map[string]string `json:"secrets"`
}

func (f *handlers) setProvider(w http.ResponseWriter, r *http.Request) error {
	owner, err := providerOwner(r)
	if err != nil {
		return err
	}
	body := newProvider{ProviderDefinition: notify.ProviderDefinition{Weight: 1}}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	now := time.Now()
	p := notify.Provider{Owner: owner, Name: web.Param(r, "provider"), ProviderDefinition: body.ProviderDefinition,
		Created: now, Updated: now}
	if err := p.Channel.UnmarshalText([]byte(body.Channel)); err != nil || !p.Channel.TakesProviders() {
		return fault.Invalid(fmt.Sprintf(`"channel" must be %s or %s`, notify.SMS, notify.Push))
	}
	if string(p.JSON) == "null" {
		p.JSON = nil
	}
	have, err := f.Store.Provider(r.Context(), owner, p.Name)
	if err != nil && !errors.Is(err, notify.ErrNotFound) {
		return err
	}
	if p.Secrets, err = secretsFor(p, have.Secrets, body.Secrets); err != nil {
		return err
	}
	if _, err := provider.Compile(p); err != nil {
		return err
	}
	if f.CheckWebhook != nil {
		if err := f.CheckWebhook(r.Context(), provider.Address(p)); err != nil {
			return fault.Invalid(fmt.Sprintf(`"url" cannot be called: %s`, err))
		}
		if p.Access != nil && p.Access.URL != "" {
			if err := f.CheckWebhook(r.Context(), p.Access.URL); err != nil {
				return fault.Invalid(fmt.Sprintf(`"access.url" cannot be called: %s`, err))
			}
		}
	}
	switch err := f.Store.SetProvider(r.Context(), p); {
	case errors.Is(err, notify.ErrTooMany):
		return fault.Wrap(err, fault.Unprocessable, "There may be %d providers: delete one that is not used",
			notify.MaxProviders)
	case err != nil:
		return err
	}
	if p, err = f.Store.Provider(r.Context(), owner, p.Name); err != nil {
		return missing(err, "Provider", p.Name)
	}
	return web.Answer(w, http.StatusOK, f.presentProvider(p), nil)
}

// secretsFor returns the secrets that a definition uses: the new ones, and those that it had. A new one that is not
// used is probably misspelled.
func secretsFor(p notify.Provider, had, added map[string]string) (map[string]string, error) {
	used := provider.SecretsOf(p)
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(added)) {
		if !slices.Contains(used, name) {
			problems = append(problems, fmt.Sprintf(`the secret %.63q is not used: write {{secret "NAME"}} where it belongs`, name))
		}
	}
	secrets := map[string]string{}
	for _, name := range used {
		if v, ok := had[name]; ok {
			secrets[name] = v
		}
		if v, ok := added[name]; ok {
			secrets[name] = v
		}
	}
	return secrets, fault.Invalid(problems...)
}

// deleteProvider is allowed while kinds use the channel, because a secret may have to be given up at once: their
// messages fail then, and can be replayed.
func (f *handlers) deleteProvider(w http.ResponseWriter, r *http.Request) error {
	owner, err := providerOwner(r)
	if err != nil {
		return err
	}
	name := web.Param(r, "provider")
	return web.Answer(w, http.StatusNoContent, nil,
		missing(f.Store.DeleteProvider(r.Context(), owner, name), "Provider", name))
}

// withoutProvider says that no provider delivers a client's messages on a channel; "" if one does.
func (f *handlers) withoutProvider(r *http.Request, id notify.ChannelID) (string, error) {
	list, err := f.Store.ProvidersFor(r.Context(), client(r), id)
	if err != nil || len(list) > 0 {
		return "", err
	}
	return fmt.Sprintf("%q has no provider yet: declare one with PUT /providers/NAME", id), nil
}
