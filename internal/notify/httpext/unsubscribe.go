package httpext

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"ingot/internal/base/fault"
	"ingot/internal/base/look"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

//go:embed pages
var pageFiles embed.FS

// page is parsed when it is used: most runs of the program are client commands.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(look.Parse(pageFiles, nil, "pages/unsubscribe.html"))
})

// holder is the content of a token, and the choices it allows.
type holder struct {
	user string
	ref  notify.KindRef
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
	user, ref, err := f.Unsubscriber.Open(sealed)
	if err != nil {
		return holder{}, err
	}
	h := holder{user: user, ref: ref, title: ref.KindID}
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
	Others  []pageKind
}

// invalidLink responds to an invalid link with a page, because it is followed
// by a person.
func invalidLink(w http.ResponseWriter) error {
	return write(w, http.StatusNotFound, pageData{Title: "This link is not valid", Invalid: true})
}

// pageKind is another kind that can be chosen separately.
type pageKind struct {
	Title, Source, Client, Kind string
	Off                         bool
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
	return f.show(w, r, h, false)
}

func (f *handlers) show(w http.ResponseWriter, r *http.Request, h holder, done bool) error {
	global, kinds, err := f.Store.Preferences(r.Context(), h.user)
	if err != nil {
		return err
	}
	this := notify.Subscription{UserID: h.user, KindRef: h.ref}
	off, err := f.Store.Unsubscribed(r.Context(), []notify.Subscription{this})
	if err != nil {
		return err
	}
	data := pageData{Title: h.title, Critical: h.critical, Off: off[this].All(h.channels, h.isUser()), Global: global,
		Done: done}
	for _, k := range kinds {
		ref := notify.KindRef{ClientID: k.ClientID, KindID: k.ID}
		if ref == h.ref {
			continue
		}
		title, source := k.Description, k.SourceDescription
		if title == "" {
			title = k.ID
		}
		if source == "" {
			source = k.ClientID
		}
		data.Others = append(data.Others, pageKind{Title: title, Source: source, Client: k.ClientID, Kind: k.ID,
			Off: k.Unwanted.All(k.Travels(), h.isUser())})
	}
	return write(w, http.StatusOK, data)
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

// maxForm is much more than the form needs; the route's body limit is lower.
const maxForm = 64 << 10

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
	change := notify.PreferenceChange{Kinds: map[notify.KindRef]bool{}}
	oneClick := r.PostForm.Get("List-Unsubscribe") == "One-Click"
	switch choice := r.PostForm.Get("choice"); {
	case !oneClick && r.PostForm.Has("kind"):
		ref, err := f.other(r.Context(), h, r.PostForm.Get("client"), r.PostForm.Get("kind"))
		if err != nil {
			return err
		}
		if choice != "on" && choice != "off" {
			return fault.New(fault.BadRequest, "The form has no valid choice.")
		}
		change.Kinds[ref] = choice == "on"
	case oneClick, choice == "off":
		if h.critical {
			return fault.New(fault.Unprocessable, "Notifications of this kind are critical and cannot be unsubscribed from.")
		}
		change.Kinds[h.ref] = false
	case choice == "on":
		if !h.critical {
			change.Kinds[h.ref] = true
		}
		change.Global = new(bool)
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
	return f.show(w, r, h, true)
}

// other returns one of the kinds that the page lists beside the mail's own:
// kinds that are not critical, of clients that sent the user something.
func (f *handlers) other(ctx context.Context, h holder, client, kind string) (notify.KindRef, error) {
	_, kinds, err := f.Store.Preferences(ctx, h.user)
	if err != nil {
		return notify.KindRef{}, err
	}
	for _, k := range kinds {
		if k.ClientID == client && k.ID == kind && !k.Critical {
			return notify.KindRef{ClientID: client, KindID: kind}, nil
		}
	}
	return notify.KindRef{}, fault.New(fault.Unprocessable, "Unknown kind of notification. Reload the page.")
}
