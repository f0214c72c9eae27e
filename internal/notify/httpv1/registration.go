package httpv1

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// kindForm is the format of a kind's id.
var kindForm = pattern.OnUse(`^[0-9a-zA-Z_\-.]+$`)

// putNotifications registers the caller's kinds. Omitted kinds are deleted,
// unless none is given.
func (f *handlers) putNotifications(w http.ResponseWriter, r *http.Request) error {
	clientID, err := clientOf(r)
	if err != nil {
		return err
	}
	object, err := members(w, r, clientShape{})
	if err != nil {
		return err
	}
	var source string
	entries := map[string]json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		switch key {
		case "source_name":
			err = parse(object[key], &source)
		case "notifications":
			if string(object[key]) == "null" {
				return fault.New(fault.BadRequest, `only include "notifications" key when adding a notification`)
			}
			err = parse(object[key], &entries)
		default:
			err = notAProperty(key)
		}
		if err != nil {
			return err
		}
	}
	kinds := make([]notify.Kind, 0, len(entries))
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		kind, err := parseKind(clientID, id, entries[id])
		if err != nil {
			return err
		}
		kinds = append(kinds, kind)
	}

	var problems []string
	if source == "" {
		problems = append(problems, `"source_name" is a required field`)
	}
	for _, k := range kinds {
		if k.ID == "" {
			problems = append(problems, fmt.Sprintf(`notification %q is missing required field "ID"`, k.ID))
		}
		if k.Description == "" {
			problems = append(problems, fmt.Sprintf(`notification %q is missing required field "Description"`, k.ID))
		}
	}
	if err := invalid(problems, ", "); err != nil {
		return err
	}
	return web.Answer(w, http.StatusNoContent, nil,
		f.register(r, notify.Client{ID: clientID, Description: source}, kinds, len(kinds) > 0))
}

// clientShape has the fields of PUT /notifications.
type clientShape struct {
	Source        string `json:"source_name"`
	Notifications map[string]struct {
		Description string `json:"description"`
		Critical    bool   `json:"critical"`
	} `json:"notifications"`
}

func notAProperty(key string) error {
	return fault.New(fault.BadRequest, "%q is not a valid property", key)
}

func parseKind(clientID, id string, raw json.RawMessage) (notify.Kind, error) {
	kind := notify.Kind{ClientID: clientID, ID: id}
	if string(raw) == "null" {
		return kind, fault.New(fault.BadRequest, "notification must not be null")
	}
	var fields map[string]json.RawMessage
	if err := parse(raw, &fields); err != nil {
		return kind, err
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		var err error
		switch key {
		case "description":
			err = parse(fields[key], &kind.Description)
		case "critical":
			err = parse(fields[key], &kind.Critical)
		default:
			err = notAProperty(key)
		}
		if err != nil {
			return kind, err
		}
	}
	return kind, nil
}

// putRegistration is the older endpoint. Here, an empty list of kinds deletes
// them all.
func (f *handlers) putRegistration(w http.ResponseWriter, r *http.Request) error {
	clientID, err := clientOf(r)
	if err != nil {
		return err
	}
	var body struct {
		Source string `json:"source_description"`
		Kinds  []struct {
			ID          string `json:"id"`
			Description string `json:"description"`
			Critical    bool   `json:"critical"`
		} `json:"kinds"`
	}
	raw, err := decode(w, r, &body)
	if err != nil {
		return err
	}
	var given struct{ Kinds json.RawMessage }
	if err := parse(raw, &given); err != nil {
		return err
	}

	var problems []string
	if body.Source == "" {
		problems = append(problems, `"source_description" is a required field`)
	}
	kinds := make([]notify.Kind, 0, len(body.Kinds))
	for _, k := range body.Kinds {
		bad := len(problems)
		if k.ID == "" {
			problems = append(problems, `"kind.id" is a required field`)
		} else if !kindForm().MatchString(k.ID) {
			problems = append(problems, `"kind.id" is improperly formatted`)
		}
		if k.Description == "" {
			problems = append(problems, `"kind.description" is a required field`)
		}
		if len(problems) > bad {
			break
		}
		kinds = append(kinds, notify.Kind{ClientID: clientID, ID: k.ID, Description: k.Description, Critical: k.Critical})
	}
	if err := invalid(problems, ", "); err != nil {
		return err
	}
	if err := f.register(r, notify.Client{ID: clientID, Description: body.Source}, kinds, given.Kinds != nil); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (f *handlers) register(r *http.Request, c notify.Client, kinds []notify.Kind, prune bool) error {
	if slices.ContainsFunc(kinds, func(k notify.Kind) bool { return k.Critical }) {
		if err := mayCritical(r); err != nil {
			return err
		}
	}
	return f.Store.Register(r.Context(), c, kinds, prune)
}

type kindBody struct {
	Description string `json:"description"`
	Template    string `json:"template"`
	Critical    bool   `json:"critical"`
}

type clientBody struct {
	Name          string              `json:"name"`
	Template      string              `json:"template"`
	Notifications map[string]kindBody `json:"notifications"`
}

// listNotifications lists the kinds of all clients.
func (f *handlers) listNotifications(w http.ResponseWriter, r *http.Request) error {
	clients, err := f.Store.Clients(r.Context())
	if err != nil {
		return err
	}
	kinds, err := f.Store.Kinds(r.Context(), "")
	if err != nil {
		return err
	}
	out := make(map[string]clientBody, len(clients))
	for _, c := range clients {
		out[c.ID] = clientBody{Name: c.Description, Template: c.TemplateID, Notifications: map[string]kindBody{}}
	}
	for _, k := range kinds {
		if c, ok := out[k.ClientID]; ok {
			c.Notifications[k.ID] = kindBody{Description: k.Description, Template: k.TemplateID, Critical: k.Critical}
		}
	}
	return web.Answer(w, http.StatusOK, out, nil)
}

// putKind replaces a kind of any client; an empty template keeps the current
// one.
func (f *handlers) putKind(w http.ResponseWriter, r *http.Request) error {
	object, err := members(w, r, kindBody{})
	if err != nil {
		return err
	}
	ref := notify.KindRef{ClientID: web.Param(r, "client"), KindID: web.Param(r, "kind")}
	kind := notify.Kind{ClientID: ref.ClientID, ID: ref.KindID}
	fields := map[string]any{"description": &kind.Description, "critical": &kind.Critical, "template": &kind.TemplateID}
	for key, raw := range object {
		into, known := fields[key]
		if !known {
			return errParse
		}
		if err := parse(raw, into); err != nil {
			return err
		}
	}
	for _, key := range []string{"description", "critical", "template"} {
		if _, given := object[key]; !given {
			return fault.New(fault.Unprocessable, "Missing required field '%s'", key)
		}
	}
	before, err := f.Store.Kind(r.Context(), ref)
	if err != nil {
		return missingKind(err, ref)
	}
	if kind.Critical && !before.Critical {
		if err := mayCritical(r); err != nil {
			return err
		}
	}
	if kind.TemplateID != "" {
		if err := f.templateExists(r.Context(), kind.TemplateID); err != nil {
			return err
		}
	}
	return web.Answer(w, http.StatusNoContent, nil,
		missingKind(f.Store.UpdateKind(r.Context(), kind), ref))
}

func missingKind(err error, ref notify.KindRef) error {
	return orMissing(err, "Notification with ID %q belonging to client %q could not be found", ref.KindID, ref.ClientID)
}
