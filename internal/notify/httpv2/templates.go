package httpv2

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

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

// template returns the template of the path; a path without one means the default.
func (f *handlers) template(r *http.Request) (notify.Template, error) {
	return f.findTemplate(r, cmp.Or(web.Param(r, "template"), notify.DefaultTemplate))
}

// templateChange is the body of POST and PUT; omitted fields are nil.
type templateChange struct {
	Name     *string          `json:"name"`
	Text     *string          `json:"text"`
	HTML     *string          `json:"html"`
	Subject  *string          `json:"subject"`
	Metadata *json.RawMessage `json:"metadata"`
}

func (c *templateChange) apply(t notify.Template) (notify.Template, error) {
	web.Set(&t.Name, c.Name)
	web.Set(&t.Text, c.Text)
	web.Set(&t.HTML, c.HTML)
	web.Set(&t.Subject, c.Subject)
	web.Set(&t.Metadata, c.Metadata)
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
	return t, nil
}

// check checks a template with its partials.
func (f *handlers) check(ctx context.Context, t notify.Template) error {
	if len(t.Uses()) == 0 {
		return template.Check(t)
	}
	t, err := notify.WithPartials(ctx, f.Store, t)
	if err != nil {
		return err
	}
	return template.CheckAll(t)
}

func (f *handlers) createTemplate(r *http.Request, body *templateChange) (notify.Template, error) {
	now := time.Now()
	t, err := body.apply(notify.Template{ID: uuid.NewString(), Owner: caller(r).ClientID,
		ChangedBy: caller(r).Display(), Created: now, Updated: now})
	if err == nil {
		err = f.check(r.Context(), t)
	}
	if err != nil {
		return t, err
	}
	if t.Owner == "" {
		return t, fault.New(fault.Unprocessable, "The token has no client, which is required to create a template.")
	}
	return t, f.Store.CreateTemplate(r.Context(), t)
}

func (f *handlers) listTemplates(w http.ResponseWriter, r *http.Request) error {
	list, err := f.Store.ListTemplates(r.Context(), caller(r).ClientID)
	return web.Answer(w, http.StatusOK,
		map[string]any{"templates": presentAll(list, presentTemplate), "_links": linksOf("self", "/templates")}, err)
}

func (f *handlers) updateTemplate(r *http.Request, body *templateChange) (notify.Template, error) {
	t, err := f.template(r)
	if err != nil {
		return t, err
	}
	if t, err = body.apply(t); err == nil {
		err = f.check(r.Context(), t)
	}
	if err != nil {
		return t, err
	}
	t.Updated, t.ChangedBy = time.Now(), caller(r).Display()
	t.Overridden = t.ID == notify.DefaultTemplateV2
	return t, missing(f.Store.UpdateTemplate(r.Context(), t), "Template", shownID(t.ID))
}

func (f *handlers) deleteTemplate(ctx context.Context, t notify.Template) error {
	if t.ID == notify.DefaultTemplateV2 {
		return fault.New(fault.Unprocessable, "The default template cannot be deleted; a client with the scope "+
			"notifications.admin may change it with PUT /templates/default.")
	}
	return missing(f.Store.DeleteTemplate(ctx, t.ID), "Template", t.ID)
}
