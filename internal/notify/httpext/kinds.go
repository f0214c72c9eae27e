package httpext

import (
	"net/http"

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
