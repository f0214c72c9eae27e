package httpext

import (
	"encoding/json"
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// kindOf returns the kind of the caller's client that a path names.
func kindOf(r *http.Request) notify.KindRef {
	return notify.KindRef{ClientID: client(r), KindID: web.Param(r, "kind")}
}

func (f *handlers) showSchema(w http.ResponseWriter, r *http.Request) error {
	ref := kindOf(r)
	if _, err := f.Store.Kind(r.Context(), ref); err != nil {
		return missing(err, "Notification", ref.KindID)
	}
	schema, err := f.Store.Schema(r.Context(), ref)
	if err != nil {
		return err
	}
	if schema == nil {
		return missing(notify.ErrNotFound, "Schema of notification", ref.KindID)
	}
	return web.Answer(w, http.StatusOK, schema, nil)
}

// setSchema sets the schema that the data of later sends must match.
func (f *handlers) setSchema(w http.ResponseWriter, r *http.Request) error {
	var schema json.RawMessage
	if err := web.DecodeJSON(r, &schema); err != nil {
		return err
	}
	if err := actions.CheckSchema(schema); err != nil {
		return err
	}
	ref := kindOf(r)
	if err := f.Store.SetSchema(r.Context(), ref, schema); err != nil {
		return missing(err, "Notification", ref.KindID)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (f *handlers) deleteSchema(w http.ResponseWriter, r *http.Request) error {
	ref := kindOf(r)
	if err := f.Store.SetSchema(r.Context(), ref, nil); err != nil {
		return missing(err, "Notification", ref.KindID)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
