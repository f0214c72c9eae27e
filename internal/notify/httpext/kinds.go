package httpext

import (
	"fmt"
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// showOfKind shows what present returns of one of the caller's kinds, or for administrators of one of client_id.
func (f *handlers) showOfKind(present func(*notify.Kind) any) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		q, err := readQuery(r, "client_id")
		if err != nil {
			return err
		}
		ref := kindOf(r)
		if ref.ClientID, _, err = owner(r, q); err != nil {
			return err
		}
		k, err := f.Store.Kind(r.Context(), ref)
		return web.Answer(w, http.StatusOK, present(&k), missing(err, "Notification", ref.KindID))
	}
}

// registerRetention adds the routes that say how long the messages of a kind are kept.
func (f *handlers) registerRetention(g *web.Group) {
	manager := web.Scope(scopeManage)
	g.Handle("GET", "/kinds/{kind}/retention", web.Scope(scopeManage, scopeAdmin),
		f.showOfKind(func(k *notify.Kind) any { return f.presentRetention(k.Kept) }))
	g.Handle("PUT", "/kinds/{kind}/retention", manager, f.setRetention)
	g.Handle("DELETE", "/kinds/{kind}/retention", manager, f.deleteRetention)
}

// retentionBody has the time, nil for a kind that says none, and what that means.
type retentionBody struct {
	Retention   *string `json:"retention"`
	Description string  `json:"description"`
}

func (f *handlers) presentRetention(kept time.Duration) retentionBody {
	switch text := notify.KeptText(kept); {
	case kept == 0:
		return retentionBody{Description: fmt.Sprintf("kept for %s, as the server keeps all", notify.KeptText(f.Kept))}
	case kept > f.KeptMax:
		return retentionBody{&text, fmt.Sprintf("kept for %s, because the server allows no more", notify.KeptText(f.KeptMax))}
	default:
		return retentionBody{&text, "kept for " + text}
	}
}

// setRetention sets how long the messages of later sends are kept.
func (f *handlers) setRetention(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Retention string `json:"retention"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	kept, err := notify.ParseKept(body.Retention, f.KeptMax)
	if err != nil {
		return fault.Wrap(err, fault.Unprocessable, `"retention" %v`, err)
	}
	ref := kindOf(r)
	err = f.Store.SetKept(r.Context(), ref, kept)
	return web.Answer(w, http.StatusOK, f.presentRetention(kept), missing(err, "Notification", ref.KindID))
}

// deleteRetention lets the messages of later sends be kept as long as the server keeps others.
func (f *handlers) deleteRetention(w http.ResponseWriter, r *http.Request) error {
	ref := kindOf(r)
	return web.Answer(w, http.StatusNoContent, nil,
		missing(f.Store.SetKept(r.Context(), ref, 0), "Notification", ref.KindID))
}
