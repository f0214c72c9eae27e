package httpext

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/notify"
)

type usageBody struct {
	Bytes int64 `json:"bytes"`
	// Limit is null if there is none.
	Limit *int64 `json:"limit"`
}

func usageOf(n, limit int64) usageBody {
	if limit < 0 {
		return usageBody{Bytes: n}
	}
	return usageBody{n, &limit}
}

// usage returns how much the caller's client has stored, or for administrators another one.
func (f *handlers) usage(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "client_id")
	if err != nil {
		return err
	}
	id, all, err := owner(r, q)
	if err != nil {
		return err
	}
	if all {
		return missing(notify.ErrNotFound, "Client", id)
	}
	stored, err := f.Store.Stored(r.Context(), id)
	if err != nil {
		return missing(err, "Client", id)
	}
	return web.Answer(w, http.StatusOK, map[string]any{
		"client_id": id, "sends": usageOf(stored.Sends, stored.Bounds.Sends),
		"definitions": usageOf(stored.Definitions, stored.Bounds.Definitions),
	}, nil)
}
