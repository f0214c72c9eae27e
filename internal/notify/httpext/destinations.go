package httpext

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// registerDestinations adds the routes that say where messages go on the channels webhook and chat.
func (f *handlers) registerDestinations(g *web.Group) {
	owner := web.Scope(scopeManage, scopeWrite)
	g.Handle("GET", "/destinations", owner, f.listDestinations)
	g.Handle("PUT", "/destinations/{channel}", owner, f.setDestination)
	g.Handle("DELETE", "/destinations/{channel}", owner, f.deleteDestination)
}

// destinationBody shows no more of the URL than its host: who knows the rest may write to the chat.
type destinationBody struct {
	Channel string    `json:"channel"`
	URL     string    `json:"url"`
	Format  string    `json:"format,omitempty"`
	Updated time.Time `json:"updated_at"`
	// Secret is shown only in the response that generated it.
	Secret string `json:"secret,omitempty"`
}

func presentDestination(d notify.Destination) destinationBody {
	return destinationBody{Channel: d.Channel.String(), URL: d.Shown(), Format: d.Format, Updated: d.Updated.UTC()}
}

func (f *handlers) listDestinations(w http.ResponseWriter, r *http.Request) error {
	list, err := f.Store.Destinations(r.Context(), client(r))
	out := make([]destinationBody, 0, len(list))
	for _, d := range list {
		out = append(out, presentDestination(d))
	}
	return web.Answer(w, http.StatusOK, map[string]any{"destinations": out}, err)
}

func (f *handlers) setDestination(w http.ResponseWriter, r *http.Request) error {
	channel, err := notify.ParseDestination(web.Param(r, "channel"))
	if err != nil {
		return err
	}
	var body struct {
		URL    string `json:"url"`
		Format string `json:"format"`
		Secret string `json:"secret"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	d := notify.Destination{ClientID: client(r), Channel: channel, URL: body.URL, Format: body.Format, Secret: body.Secret,
		Updated: time.Now()}
	if err := d.Check(); err != nil {
		return err
	}
	if f.CheckWebhook != nil {
		if err := f.CheckWebhook(r.Context(), d.URL); err != nil {
			return fault.Invalid(fmt.Sprintf(`"url" cannot be called: %s`, err))
		}
	}
	made := ""
	if d.Channel == notify.Hook && d.Secret == "" {
		made = newSecret()
		d.Secret = made
	}
	if err := f.Store.SetDestination(r.Context(), d); err != nil {
		return err
	}
	out := presentDestination(d)
	out.Secret = made
	return web.Answer(w, http.StatusOK, out, nil)
}

// newSecret returns a secret that signs calls.
func newSecret() string {
	var b [24]byte
	_, _ = rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// deleteDestination is allowed while kinds use the channel, because an address may have to be given up at once: their
// messages fail then, and can be replayed.
func (f *handlers) deleteDestination(w http.ResponseWriter, r *http.Request) error {
	name := web.Param(r, "channel")
	channel, err := notify.ParseDestination(name)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusNoContent, nil,
		missing(f.Store.DeleteDestination(r.Context(), client(r), channel), "Destination", name))
}

// lacking returns an error if the client has no destination for one of the channels.
func (f *handlers) lacking(r *http.Request, c notify.Channels) error {
	var problems []string
	for _, id := range c.List() {
		if id.HasProviders() {
			why, err := f.withoutProvider(r, id)
			if err != nil {
				return err
			}
			if why != "" {
				problems = append(problems, why)
			}
		}
		if !id.HasDestination() {
			continue
		}
		_, err := f.Store.Destination(r.Context(), client(r), id)
		switch {
		case errors.Is(err, notify.ErrNotFound):
			problems = append(problems, fmt.Sprintf("%q has no destination yet: set one with PUT /destinations/%s", id, id))
		case err != nil:
			return err
		}
	}
	return fault.Invalid(problems...)
}
