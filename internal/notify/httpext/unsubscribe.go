package httpext

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"ingot/internal/base/fault"
	"ingot/internal/base/look"
	"ingot/internal/base/prefer"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

//go:embed pages
var pageFiles embed.FS

// page is parsed when it is used: most runs of the program are client commands.
var page = sync.OnceValue(func() *template.Template {
	t := template.Must(look.Parse(pageFiles, nil, "pages/unsubscribe.html"))
	return template.Must(t.ParseFS(prefer.Files, "pages/*.html"))
})

// holder is the content of a token, and the choices it allows.
type holder struct {
	user     string
	ref      notify.KindRef
	onlyKind bool
	// Title is the subject of the mail's kind.
	title    string
	critical bool
	channels notify.Channels
}

// isUser reports whether it is a user, not an address.
func (h *holder) isUser() bool { return !strings.HasPrefix(h.user, notify.AddressScheme) }

// open decodes the token. If its kind was deleted, the recipient can still
// unsubscribe from everything.
func (f *handlers) open(ctx context.Context, sealed string) (holder, error) {
	g, err := f.Unsubscriber.Open(sealed)
	if err != nil {
		return holder{}, err
	}
	ref := g.Kind
	h := holder{user: g.UserID, ref: ref, onlyKind: g.OnlyKind, title: ref.KindID}
	if ref.ClientID == "" {
		t, err := f.Store.CampaignType(ctx, ref.KindID)
		if err != nil && !errors.Is(err, notify.ErrNotFound) {
			return h, err
		}
		if t.Description != "" {
			h.title = t.Description
		}
		h.critical, h.channels = t.Critical, t.Channels
		return h, nil
	}
	k, err := f.Store.Kind(ctx, ref)
	if err != nil && !errors.Is(err, notify.ErrNotFound) {
		return h, err
	}
	if k.Description != "" {
		h.title = k.Description
	}
	h.critical, h.channels = k.Critical, k.Travels()
	return h, nil
}

type pageData struct {
	Title    string
	Critical bool
	// Off and Global are the current choice; Done reports that it was just
	// saved.
	Off, Global, Done bool
	// Invalid reports that the link is not valid.
	Invalid bool
	// All reports that the page is about all kinds and quiet hours, which Form has.
	All  bool
	Form prefer.Form
}

// invalidLink responds to an invalid link with a page, because it is followed
// by a person.
func invalidLink(w http.ResponseWriter) error {
	return write(w, http.StatusNotFound, pageData{Title: "This link is not valid", Invalid: true})
}

// unsubscribePage shows the choices. It changes nothing: mail scanners follow
// every link.
func (f *handlers) unsubscribePage(w http.ResponseWriter, r *http.Request) error {
	h, err := f.open(r.Context(), web.Param(r, "token"))
	if errors.Is(err, actions.ErrToken) {
		return invalidLink(w)
	}
	if err != nil {
		return err
	}
	return f.show(w, r, h, nil)
}

// saved changes the page that answers a form.
type saved func(*pageData) (status int)

func (f *handlers) show(w http.ResponseWriter, r *http.Request, h holder, done saved) error {
	all, err := f.preferencesOf(r.Context(), h.user)
	if err != nil {
		return err
	}
	this := notify.Subscription{UserID: h.user, KindRef: h.ref}
	off, err := f.Store.Unsubscribed(r.Context(), []notify.Subscription{this})
	if err != nil {
		return err
	}
	data := pageData{Title: h.title, Critical: h.critical, Off: off[this].Unwanted.All(h.channels, h.isUser()),
		Global: all.Global, All: !h.onlyKind}
	if data.All {
		view := prefer.ViewOf(r.URL.Query())
		if r.PostForm.Has("form") {
			view = prefer.ViewOf(r.PostForm)
		}
		data.Form = prefer.New(formOf(all), view, "")
	}
	status := http.StatusOK
	if done != nil {
		status = done(&data)
	}
	return write(w, status, data)
}

// formOf converts preferences for the form.
func formOf(all preferencesBody) prefer.Preferences {
	kinds := func(of map[string]kindPreferencesBody) map[string]prefer.Kind {
		out := make(map[string]prefer.Kind, len(of))
		for id, k := range of {
			out[id] = prefer.Kind(k)
		}
		return out
	}
	p := prefer.Preferences{Global: all.Global, Clients: make(map[string]prefer.Client, len(all.Clients))}
	for id, of := range all.Clients {
		topics := make(map[string]prefer.Topic, len(of.Topics))
		for name, t := range of.Topics {
			topics[name] = prefer.Topic(t)
		}
		p.Clients[id] = prefer.Client{Kinds: kinds(of.Kinds), CampaignTypes: kinds(of.CampaignTypes), Topics: topics}
	}
	if q := all.Quiet; q != nil {
		p.Quiet = &prefer.QuietHours{From: q.From, To: q.To, Zone: q.Zone, Days: q.Days,
			Channels: notify.ChannelsOf(q.Channels...).Names()}
	}
	return p
}

func write(w http.ResponseWriter, status int, data pageData) error {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", look.Policy("form-action 'self'"))
	w.WriteHeader(status)
	return page().ExecuteTemplate(w, "unsubscribe.html", data)
}

// maxForm is more than a form of prefer.PerPage kinds needs.
const maxForm = 512 << 10

// unsubscribe saves the recipient's choice: one click in a mail program (RFC
// 8058), or the page's form.
func (f *handlers) unsubscribe(w http.ResponseWriter, r *http.Request) error {
	h, err := f.open(r.Context(), web.Param(r, "token"))
	if errors.Is(err, actions.ErrToken) {
		return invalidLink(w)
	}
	if err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseMultipartForm(maxForm); err != nil && //nolint:gosec // bounded by the line above
		!errors.Is(err, http.ErrNotMultipart) {
		return fault.Wrap(err, fault.BadRequest, "The form could not be read.")
	}
	oneClick := r.PostForm.Get("List-Unsubscribe") == "One-Click"
	choice := r.PostForm.Get("choice")
	if !oneClick && h.onlyKind && choice != "off" && choice != "on" {
		return fault.New(fault.Forbidden, "This link is for one kind of notifications only. Log in to change others.")
	}
	if !oneClick && choice == "save" {
		return f.saveForm(w, r, h)
	}
	change := notify.PreferenceChange{Kinds: map[notify.KindRef]bool{}}
	switch {
	case !oneClick && r.PostForm.Has("kind"):
		return fault.New(fault.Unprocessable, "The page is older than the service. Follow the link again.")
	case oneClick, choice == "off":
		if h.critical {
			return fault.New(fault.Unprocessable, "Notifications of this kind are critical and cannot be unsubscribed from.")
		}
		change.Kinds[h.ref] = false
	case choice == "on":
		if !h.critical {
			change.Kinds[h.ref] = true
		}
		if !h.onlyKind {
			change.Global = new(bool)
		}
	case choice == "none":
		all := true
		change.Global = &all
	default:
		return fault.New(fault.BadRequest, "The form has no valid choice.")
	}
	if err := f.Store.ChangePreferences(r.Context(), h.user, change); err != nil {
		return err
	}
	if oneClick {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	return f.show(w, r, h, done)
}

func done(d *pageData) int {
	d.Done = true
	return http.StatusOK
}

// saveForm saves the form, or shows it again with what is wrong.
func (f *handlers) saveForm(w http.ResponseWriter, r *http.Request, h holder) error {
	sent, err := prefer.Read(r.PostForm)
	if err != nil {
		return err
	}
	change, err := f.formChange(r, h, sent)
	var wrong *fault.Error
	switch {
	case errors.As(err, &wrong) && wrong.Code == fault.Unprocessable:
		return f.show(w, r, h, func(d *pageData) int {
			d.Form.Refused(r.PostForm, wrong.Messages()...)
			return http.StatusUnprocessableEntity
		})
	case err != nil:
		return err
	}
	if err := f.storePreferences(r.Context(), h.user, change); err != nil {
		return err
	}
	return f.show(w, r, h, done)
}

// formChange returns what a form changes, checked like PATCH /preferences. The form has only kinds that the page lists:
// the link is less than a login.
func (f *handlers) formChange(r *http.Request, h holder, sent prefer.Change) (change notify.PreferenceChange,
	err error) {
	text, err := json.Marshal(sent)
	if err != nil {
		return change, err
	}
	var body preferenceChange
	if err := web.DecodeLine(text, &body); err != nil {
		return change, err
	}
	all, err := f.preferencesOf(r.Context(), h.user)
	if err != nil {
		return change, err
	}
	for client, of := range sent.Clients {
		known := all.Clients[client]
		if known == nil {
			return change, fault.Invalid(reload)
		}
		for id := range of.Kinds {
			if _, is := known.Kinds[id]; !is {
				return change, fault.Invalid(reload)
			}
		}
		for id := range of.CampaignTypes {
			if _, is := known.CampaignTypes[id]; !is {
				return change, fault.Invalid(reload)
			}
		}
		for name := range of.Topics {
			if _, is := known.Topics[name]; !is {
				return change, fault.Invalid(reload)
			}
		}
	}
	if change, err = f.wishes(r, h.user, body); err != nil {
		return change, err
	}
	err = readQuiet(&change, body.Quiet)
	return change, err
}

const reload = "a kind of notification or a topic is not known, or a kind became critical meanwhile: follow the " +
	"link again"
