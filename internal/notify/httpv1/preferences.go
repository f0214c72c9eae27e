package httpv1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// corsHeaders allow pages of one origin to read the responses, including
// errors.
func corsHeaders(origin string) map[string]string {
	headers := map[string]string{
		"Access-Control-Allow-Origin":  origin,
		"Access-Control-Allow-Methods": "GET, PATCH",
		"Access-Control-Allow-Headers": "Accept, Authorization, Content-Type",
		// Pages can read few headers without it.
		"Access-Control-Expose-Headers": actions.WarningsHeader,
	}
	if origin != "*" {
		headers["Vary"] = "Origin"
	}
	return headers
}

func (f *handlers) preflight(w http.ResponseWriter, _ *http.Request) error {
	return web.Answer(w, http.StatusNoContent, nil, nil)
}

// ownUser returns the user of the token.
func ownUser(r *http.Request) (string, error) {
	if id := caller(r).UserID; id != "" {
		return id, nil
	}
	return "", fault.New(fault.Unprocessable, "Missing user_id from token claims.")
}

// namedUser returns the user of the path.
func namedUser(r *http.Request) (string, error) {
	id, problem := notify.NamedUser(web.Param(r, "user"))
	if problem != "" {
		return "", fault.New(fault.Unprocessable, "%s", problem)
	}
	return id, nil
}

func (f *handlers) ownPreferences(w http.ResponseWriter, r *http.Request) error {
	user, err := ownUser(r)
	if err != nil {
		return err
	}
	return f.showPreferences(w, r, user)
}

func (f *handlers) preferencesOf(w http.ResponseWriter, r *http.Request) error {
	user, err := namedUser(r)
	if err != nil {
		return err
	}
	return f.showPreferences(w, r, user)
}

func (f *handlers) patchOwnPreferences(w http.ResponseWriter, r *http.Request) error {
	user, err := ownUser(r)
	if err != nil {
		return err
	}
	return f.patchPreferences(w, r, user)
}

func (f *handlers) patchPreferencesOf(w http.ResponseWriter, r *http.Request) error {
	user, err := namedUser(r)
	if err != nil {
		return err
	}
	return f.patchPreferences(w, r, user)
}

type preferenceBody struct {
	Email             bool   `json:"email"`
	KindDescription   string `json:"kind_description"`
	SourceDescription string `json:"source_description"`
}

type preferencesBody struct {
	Clients map[string]map[string]preferenceBody `json:"clients"`
	Global  bool                                 `json:"global_unsubscribe"`
}

func (f *handlers) showPreferences(w http.ResponseWriter, r *http.Request, user string) error {
	global, kinds, err := f.Store.Preferences(r.Context(), user)
	if err != nil {
		return err
	}
	clients := map[string]map[string]preferenceBody{}
	for _, k := range kinds {
		if clients[k.ClientID] == nil {
			clients[k.ClientID] = map[string]preferenceBody{}
		}
		e := preferenceBody{!k.Unwanted.Has(notify.Email), k.Description, k.SourceDescription}
		if e.KindDescription == "" {
			e.KindDescription = k.ID
		}
		if e.SourceDescription == "" {
			e.SourceDescription = k.ClientID
		}
		clients[k.ClientID][k.ID] = e
	}
	return web.Answer(w, http.StatusOK, preferencesBody{clients, global}, nil)
}

// patchPreferences changes the given preferences only: all of them, or none if
// there is an error.
func (f *handlers) patchPreferences(w http.ResponseWriter, r *http.Request, user string) error {
	change, err := readPreferences(w, r)
	if err != nil {
		return err
	}
	refs := slices.SortedFunc(maps.Keys(change.Wishes), func(a, b notify.KindRef) int {
		return bytes.Compare([]byte(a.ClientID+"\x00"+a.KindID), []byte(b.ClientID+"\x00"+b.KindID))
	})
	for _, ref := range refs {
		kind, err := f.Store.Kind(r.Context(), ref)
		switch {
		case errors.Is(err, notify.ErrNotFound):
			return fault.New(fault.Unprocessable, "The kind '%s' cannot be found for client '%s'", ref.KindID, ref.ClientID)
		case err != nil:
			return err
		case kind.Critical:
			return fault.New(fault.Unprocessable,
				"The kind '%s' for the '%s' client is critical and cannot be unsubscribed from", ref.KindID, ref.ClientID)
		}
	}
	return web.Answer(w, http.StatusNoContent, nil, f.Store.ChangePreferences(r.Context(), user, change))
}

// readPreferences decodes the body of a PATCH. Fields that GET returns beside
// email are accepted and have no effect.
func readPreferences(w http.ResponseWriter, r *http.Request) (notify.PreferenceChange, error) {
	change := notify.PreferenceChange{Wishes: map[notify.KindRef]notify.Wish{}}
	raw, err := readBody(r)
	if err != nil {
		return change, err
	}
	web.WarnUnknown(w, actions.WarningsHeader, raw, preferencesBody{})
	unreadable := func(err error) error { return fault.Wrap(err, fault.Unprocessable, "%s", parserWords(err)) }
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return change, unreadable(err)
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if key != "global_unsubscribe" && key != "clients" {
			return change, fault.New(fault.Unprocessable, "Extra field %q is not valid", key)
		}
	}
	if raw, given := object["global_unsubscribe"]; given {
		if err := json.Unmarshal(raw, &change.Global); err != nil {
			return change, unreadable(err)
		}
	}
	var clients map[string]map[string]struct {
		Email *bool `json:"email"`
	}
	if raw, given := object["clients"]; given {
		if err := json.Unmarshal(raw, &clients); err != nil {
			return change, unreadable(err)
		}
	}
	for _, client := range slices.Sorted(maps.Keys(clients)) {
		if len(clients[client]) == 0 {
			return change, fault.New(fault.Unprocessable, "Missing kinds")
		}
		for kind, wish := range clients[client] {
			if wish.Email == nil {
				return change, fault.New(fault.Unprocessable, "Missing the email field")
			}
			change.Wishes[notify.KindRef{ClientID: client, KindID: kind}] = notify.Wish{Mail: wish.Email}
		}
	}
	return change, nil
}

// parserWords describes a JSON error and names the field.
func parserWords(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		where := wrong.Field
		if where == "" {
			where = "the body"
		}
		return fmt.Sprintf("%s cannot be a %s", where, wrong.Value)
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset == 0 || errors.Is(err, io.EOF) {
		return "EOF"
	}
	return "The body is not valid JSON: " + err.Error()
}
