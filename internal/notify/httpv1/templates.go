package httpv1

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

type templateBody struct {
	Name     string          `json:"name"`
	Subject  string          `json:"subject"`
	HTML     string          `json:"html"`
	Text     string          `json:"text"`
	Metadata json.RawMessage `json:"metadata"`
}

// templateFields are the fields of a template, in the order of the checks.
var templateFields = []string{"name", "subject", "html", "text", "metadata"}

// readTemplate decodes the body of POST and PUT, a complete template.
func readTemplate(w http.ResponseWriter, r *http.Request) (notify.Template, error) {
	var t notify.Template
	object, err := members(w, r, templateBody{})
	if err != nil {
		return t, err
	}
	for key := range object {
		known := false
		for _, field := range templateFields {
			known = known || strings.EqualFold(key, field)
		}
		if !known {
			return t, errParse
		}
	}
	for _, key := range []string{"name", "html"} {
		if _, given := object[key]; !given {
			return t, fault.New(fault.Unprocessable, "Missing required field '%s'", key)
		}
	}
	t.Metadata = json.RawMessage("{}")
	for key, into := range map[string]any{"name": &t.Name, "subject": &t.Subject, "html": &t.HTML, "text": &t.Text,
		"metadata": &t.Metadata} {
		if err := parse(object[key], into); err != nil {
			return t, err
		}
	}
	if t.Subject == "" {
		t.Subject = "{{.Subject}}"
	}
	if len(t.Uses()) > 0 { // partials are those of its client: see checkPartials
		return t, nil
	}
	return t, template.Check(t)
}

// checkPartials checks a template that uses partials.
func (f *handlers) checkPartials(ctx context.Context, t notify.Template) error {
	if len(t.Uses()) == 0 {
		return nil
	}
	t, err := notify.WithPartials(ctx, f.Store, t)
	if err != nil {
		return err
	}
	return template.CheckAll(t)
}

// createTemplate responds with the id only, in the field that the documented
// API has.
func (f *handlers) createTemplate(w http.ResponseWriter, r *http.Request) error {
	t, err := readTemplate(w, r)
	if err != nil {
		return err
	}
	t.ChangedBy = token.FromContext(r.Context()).Display()
	t.ID, t.Creator = uuid.NewString(), token.FromContext(r.Context()).ClientID
	t.Created = time.Now()
	t.Updated = t.Created
	if err := f.checkPartials(r.Context(), t); err != nil {
		return err
	}
	return web.Answer(w, http.StatusCreated, map[string]string{"template-id": t.ID},
		f.Store.CreateTemplate(r.Context(), t))
}

func (f *handlers) listTemplates(w http.ResponseWriter, r *http.Request) error {
	list, err := f.Store.ListTemplates(r.Context(), "")
	if err != nil {
		return err
	}
	type named struct {
		Name string `json:"name"`
	}
	out := make(map[string]named, len(list))
	for _, t := range list {
		out[t.ID] = named{t.Name}
	}
	return web.Answer(w, http.StatusOK, out, nil)
}

// findTemplate returns the template of the path, or the default if the path has
// none. Templates of the v2 API are not visible here.
func (f *handlers) findTemplate(r *http.Request) (notify.Template, error) {
	id := web.Param(r, "template")
	if id == "" {
		id = notify.DefaultTemplate
	}
	t, err := f.Store.Template(r.Context(), id)
	if err == nil && (t.Owner != "" || t.ID == notify.DefaultTemplateV2) {
		err = notify.ErrNotFound
	}
	return t, orMissing(err, "Template with ID %q could not be found", id)
}

func (f *handlers) showTemplate(w http.ResponseWriter, r *http.Request) error {
	t, err := f.findTemplate(r)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, templateBody{t.Name, t.Subject, t.HTML, t.Text, t.Metadata}, nil)
}

// mayChange rejects changes of templates that others use: those of another
// client, and the default. The original service allows them to every client
// with notification_templates.write.
func mayChange(r *http.Request, t notify.Template) error {
	caller := token.FromContext(r.Context())
	switch {
	case caller.HasAny(scopeAdmin):
		return nil
	case t.ID == notify.DefaultTemplate:
		return fault.New(fault.Forbidden, "The default template is shared by all clients. Changing it requires the scope %s.",
			scopeAdmin)
	case t.Creator == "" || t.Creator != caller.ClientID:
		return fault.New(fault.Forbidden,
			"The template %q was created by another client. Changing or deleting it requires the scope %s.", t.ID, scopeAdmin)
	}
	return nil
}

func (f *handlers) putTemplate(w http.ResponseWriter, r *http.Request) error {
	changed, err := readTemplate(w, r)
	if err != nil {
		return err
	}
	t, err := f.findTemplate(r)
	if err != nil {
		return err
	}
	if err := mayChange(r, t); err != nil {
		return err
	}
	changed.ID, changed.Creator, changed.Created, changed.Updated = t.ID, t.Creator, t.Created, time.Now()
	changed.Variants, changed.ChangedBy = t.Variants, token.FromContext(r.Context()).Display()
	if err := f.checkPartials(r.Context(), changed); err != nil {
		return err
	}
	changed.Overridden = t.ID == notify.DefaultTemplate
	return web.Answer(w, http.StatusNoContent, nil,
		orMissing(f.Store.UpdateTemplate(r.Context(), changed), "Template with ID %q could not be found", t.ID))
}

func (f *handlers) deleteTemplate(w http.ResponseWriter, r *http.Request) error {
	t, err := f.findTemplate(r)
	if err != nil {
		return err
	}
	if t.ID == notify.DefaultTemplate {
		return fault.New(fault.Unprocessable, "The default template cannot be deleted; change it with PUT /default_template.")
	}
	if err := mayChange(r, t); err != nil {
		return err
	}
	return web.Answer(w, http.StatusNoContent, nil,
		orMissing(f.Store.DeleteTemplate(r.Context(), t.ID), "Template with ID %q could not be found", t.ID))
}

func (f *handlers) associations(w http.ResponseWriter, r *http.Request) error {
	t, err := f.findTemplate(r)
	if err != nil {
		return err
	}
	list, err := f.Store.Associations(r.Context(), t.ID)
	if err != nil {
		return err
	}
	type association struct {
		Client       string `json:"client"`
		Notification string `json:"notification,omitempty"`
	}
	// Clients first, then kinds.
	out := make([]association, 0, len(list))
	for _, kinds := range []bool{false, true} {
		for _, a := range list {
			if (a.KindID != "") == kinds {
				out = append(out, association{a.ClientID, a.KindID})
			}
		}
	}
	return web.Answer(w, http.StatusOK, map[string]any{"associations": out}, nil)
}

// assign assigns a template to a client or one of its kinds; an empty id means
// the default.
func (f *handlers) assign(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Template string `json:"template"`
	}
	_, err := decode(w, r, &body)
	if err != nil {
		return err
	}
	id := cmp.Or(body.Template, notify.DefaultTemplate)
	to := notify.Association{ClientID: web.Param(r, "client"), KindID: web.Param(r, "kind")}
	if to.KindID == "" {
		_, err = f.Store.Client(r.Context(), to.ClientID)
		err = orMissing(err, "Client with ID %q could not be found", to.ClientID)
	} else {
		ref := notify.KindRef(to)
		_, err = f.Store.Kind(r.Context(), ref)
		err = missingKind(err, ref)
	}
	if err != nil {
		return err
	}
	if err := f.templateExists(r.Context(), id); err != nil {
		return err
	}
	return web.Answer(w, http.StatusNoContent, nil,
		orMissing(f.Store.AssignTemplate(r.Context(), to, id), "Client with ID %q could not be found", to.ClientID))
}
