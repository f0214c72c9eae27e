package httpv2

import (
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

type templateBody struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Text     string          `json:"text"`
	HTML     string          `json:"html"`
	Subject  string          `json:"subject"`
	Metadata json.RawMessage `json:"metadata"`
	Links    links           `json:"_links"`
}

// shownID returns the public id of a template: the default of this API is shown
// as "default".
func shownID(id string) string {
	if id == notify.DefaultTemplateV2 {
		return notify.DefaultTemplate
	}
	return id
}

func presentTemplate(t notify.Template) templateBody {
	id := shownID(t.ID)
	return templateBody{id, t.Name, t.Text, t.HTML, t.Subject, t.Metadata, linksOf("self", "/templates/"+id)}
}

// findTemplate returns one of the caller's templates, or the default.
func (f *handlers) findTemplate(r *http.Request, id string) (notify.Template, error) {
	if id == notify.DefaultTemplate {
		t, err := f.Store.Template(r.Context(), notify.DefaultTemplateV2)
		return t, missing(err, "Template", id)
	}
	t, err := f.Store.Template(r.Context(), id)
	return t, missing(owned(err, t.Owner, caller(r).ClientID), "Template", id)
}

// templateChange is the body of POST and PUT; omitted fields are nil.
type templateChange struct {
	Name     *string          `json:"name"`
	Text     *string          `json:"text"`
	HTML     *string          `json:"html"`
	Subject  *string          `json:"subject"`
	Metadata *json.RawMessage `json:"metadata"`
}

func (c templateChange) apply(t notify.Template) (notify.Template, error) {
	set(&t.Name, c.Name)
	set(&t.Text, c.Text)
	set(&t.HTML, c.HTML)
	set(&t.Subject, c.Subject)
	set(&t.Metadata, c.Metadata)
	if t.Subject == "" {
		t.Subject = "{{.Subject}}"
	}
	if len(t.Metadata) == 0 || string(t.Metadata) == "null" {
		t.Metadata = json.RawMessage("{}")
	}
	switch {
	case t.Name == "":
		return t, fault.New(fault.Unprocessable, `Template "name" field cannot be empty`)
	case t.Text == "" && t.HTML == "":
		return t, fault.New(fault.Unprocessable, "missing either template text or html")
	}
	return t, template.Check(t)
}

func (f *handlers) createTemplate(w http.ResponseWriter, r *http.Request) error {
	var body templateChange
	if _, err := read(w, r, &body, invalidJSON); err != nil {
		return err
	}
	now := f.Now()
	t, err := body.apply(notify.Template{ID: uuid.NewString(), Owner: caller(r).ClientID, Created: now, Updated: now})
	if err != nil {
		return err
	}
	if t.Owner == "" {
		return fault.New(fault.Unprocessable, "The token has no client, which is required to create a template.")
	}
	if err := f.Store.CreateTemplate(r.Context(), t); err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusCreated, presentTemplate(t))
	return nil
}

func (f *handlers) listTemplates(w http.ResponseWriter, r *http.Request) error {
	list, err := f.Store.ListTemplates(r.Context(), caller(r).ClientID)
	if err != nil {
		return err
	}
	out := make([]templateBody, 0, len(list))
	for _, t := range list {
		out = append(out, presentTemplate(t))
	}
	web.WriteJSON(w, http.StatusOK, map[string]any{"templates": out, "_links": linksOf("self", "/templates")})
	return nil
}

func (f *handlers) showTemplate(w http.ResponseWriter, r *http.Request) error {
	t, err := f.findTemplate(r, web.Param(r, "template"))
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, presentTemplate(t))
	return nil
}

func (f *handlers) updateTemplate(w http.ResponseWriter, r *http.Request) error {
	return f.change(w, r, web.Param(r, "template"))
}

func (f *handlers) updateDefault(w http.ResponseWriter, r *http.Request) error {
	return f.change(w, r, notify.DefaultTemplate)
}

func (f *handlers) change(w http.ResponseWriter, r *http.Request, id string) error {
	var body templateChange
	if _, err := read(w, r, &body, "malformed JSON request"); err != nil {
		return err
	}
	t, err := f.findTemplate(r, id)
	if err != nil {
		return err
	}
	if t, err = body.apply(t); err != nil {
		return err
	}
	t.Updated = f.Now()
	t.Overridden = t.ID == notify.DefaultTemplateV2
	if err := f.Store.UpdateTemplate(r.Context(), t); err != nil {
		return missing(err, "Template", id)
	}
	web.WriteJSON(w, http.StatusOK, presentTemplate(t))
	return nil
}

func (f *handlers) deleteTemplate(w http.ResponseWriter, r *http.Request) error {
	t, err := f.findTemplate(r, web.Param(r, "template"))
	if err != nil {
		return err
	}
	if t.ID == notify.DefaultTemplateV2 {
		return fault.New(fault.Unprocessable,
			"The default template cannot be deleted; a client with the scope notifications.admin may change it with PUT "+
				"/templates/default.")
	}
	if err := f.Store.DeleteTemplate(r.Context(), t.ID); err != nil {
		return missing(err, "Template", t.ID)
	}
	return noContent(w)
}
