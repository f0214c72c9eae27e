package httpext

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/mail"
	"net/url"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

// preview renders a template, with sample values for those that the request
// omits. Nothing is stored.
func (f *handlers) preview(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Template   variantBody     `json:"template"`
		Message    variantBody     `json:"message"`
		TemplateID string          `json:"template_id"`
		Data       json.RawMessage `json:"data"`
		Locale     string          `json:"locale"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	t := notify.Template{Name: "preview", Subject: body.Template.Subject, Text: body.Template.Text,
		HTML: body.Template.HTML}
	if t.Subject == "" {
		t.Subject = "{{.Subject}}"
	}
	if body.TemplateID != "" {
		if body.Template != (variantBody{}) {
			return fault.Invalid(`give either "template" or "template_id", not both`)
		}
		var err error
		if t, err = f.visibleTemplate(r, body.TemplateID); err != nil {
			return err
		}
	} else {
		t.Creator = client(r)
		var err error
		if t, err = notify.WithPartials(r.Context(), f.Store, t); err != nil {
			return err
		}
		if err := template.Check(t); err != nil {
			return err
		}
	}
	values := template.Values{Subject: body.Message.Subject, Text: body.Message.Text, HTML: body.Message.HTML,
		ClientID: client(r)}
	if err := notify.ReadData(present(body.Data), body.Locale, &values.Data, &values.Locale); err != nil {
		return err
	}
	variant := t.VariantFor(values.Locale)
	t, values.Locale, _ = t.For(values.Locale)
	rendered, err := template.Preview(t, values)
	if err != nil {
		return err
	}
	out := map[string]string{"subject": rendered.Subject, "text": rendered.Text, "html": rendered.HTML}
	if body.TemplateID != "" {
		out["variant"] = variant
	}
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}

// check returns the errors of a template with their places.
func (f *handlers) check(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Subject string `json:"subject"`
		Text    string `json:"text"`
		HTML    string `json:"html"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	t, err := notify.WithPartials(r.Context(), f.Store, notify.Template{Name: "preview", Creator: client(r),
		Subject: body.Subject, Text: body.Text, HTML: body.HTML})
	if err != nil {
		return err
	}
	problems := template.Problems(t)
	return web.Answer(w, http.StatusOK, map[string]any{"problems": problems}, nil)
}

// variables returns what templates can show.
func (f *handlers) variables(w http.ResponseWriter, _ *http.Request) error {
	return web.Answer(w, http.StatusOK, map[string]any{"variables": template.Variables()}, nil)
}

type webhookBody struct {
	ID      string          `json:"id"`
	URL     string          `json:"url"`
	Events  []notify.Status `json:"events"`
	Created time.Time       `json:"created_at"`
	// Secret is shown only in the response that created it.
	Secret string `json:"secret,omitempty"`
}

func presentWebhook(h notify.Webhook) webhookBody {
	events := h.Events
	if len(events) == 0 {
		events = []notify.Status{notify.Delivered, notify.Failed, notify.Undeliverable, notify.Unsubscribed}
	}
	return webhookBody{ID: h.ID, URL: h.URL, Events: events, Created: h.Created}
}

func (f *handlers) listWebhooks(w http.ResponseWriter, r *http.Request) error {
	list, err := f.Store.Webhooks(r.Context(), client(r))
	if err != nil {
		return err
	}
	out := make([]webhookBody, 0, len(list))
	for _, h := range list {
		out = append(out, presentWebhook(h))
	}
	return web.Answer(w, http.StatusOK, map[string]any{"webhooks": out}, nil)
}

const maxWebhooks = 10

func (f *handlers) createWebhook(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		URL    string          `json:"url"`
		Events []notify.Status `json:"events"`
		Secret string          `json:"secret"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	var problems []string
	if u, err := url.Parse(body.URL); err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" &&
		u.Scheme != "http" || len(body.URL) > 2000 {
		problems = append(problems, `"url" must be an http or https address without a user name`)
	}
	for _, e := range body.Events {
		if !e.Final() || e == notify.Canceled || e == notify.Skipped || e == notify.Digested || e == notify.Throttled {
			problems = append(problems, `"events" may hold "delivered", "failed", "undeliverable" and "unsubscribed"`)
			break
		}
	}
	if problem := notify.CheckSecret(body.Secret); problem != "" {
		problems = append(problems, problem)
	}
	if len(problems) == 0 && f.CheckWebhook != nil {
		if err := f.CheckWebhook(r.Context(), body.URL); err != nil {
			problems = append(problems, fmt.Sprintf(`"url" cannot be called: %s`, err))
		}
	}
	if err := fault.Invalid(problems...); err != nil {
		return err
	}
	have, err := f.Store.Webhooks(r.Context(), client(r))
	if err != nil {
		return err
	}
	if len(have) >= maxWebhooks {
		return fault.New(fault.Unprocessable, "A client may have at most %d webhooks. Delete one first.", maxWebhooks)
	}
	h := notify.Webhook{ID: uuid.NewString(), ClientID: client(r), URL: body.URL, Events: body.Events, Secret: body.Secret,
		Created: time.Now()}
	made := h.Secret == ""
	if made {
		h.Secret = newSecret()
	}
	if err := f.Store.CreateWebhook(r.Context(), h); err != nil {
		return err
	}
	out := presentWebhook(h)
	if made {
		out.Secret = h.Secret
	}
	return web.Answer(w, http.StatusCreated, out, nil)
}

func (f *handlers) deleteWebhook(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "webhook")
	return web.Answer(w, http.StatusNoContent, nil,
		missing(f.Store.DeleteWebhook(r.Context(), client(r), id), "Webhook", id))
}

type suppressionBody struct {
	Email   string    `json:"email"`
	Reason  string    `json:"reason"`
	Source  string    `json:"source"`
	Created time.Time `json:"created_at"`
}

func (f *handlers) listSuppressions(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "limit", "after")
	if err != nil {
		return err
	}
	limit, err := limitOf(q)
	if err != nil {
		return err
	}
	list, err := f.Store.Suppressions(r.Context(), q.Get("after"), limit)
	if err != nil {
		return err
	}
	return writePage(w, r, "suppressions", list, func(s notify.Suppression) suppressionBody { return suppressionBody(s) },
		limit, func(s suppressionBody) string { return s.Email })
}

// suppress adds an address to the suppression list.
func (f *handlers) suppress(w http.ResponseWriter, r *http.Request) error {
	email := web.Param(r, "email")
	parsed, err := mail.ParseAddress(email)
	if err != nil || parsed.Address != email {
		return fault.New(fault.Unprocessable, "%q is not a valid email address", email)
	}
	s := notify.Suppression{Email: email, Reason: "added by an administrator", Source: "manual", Created: time.Now()}
	return web.Answer(w, http.StatusNoContent, nil, f.Store.Suppress(r.Context(), s))
}

func (f *handlers) unsuppress(w http.ResponseWriter, r *http.Request) error {
	email := web.Param(r, "email")
	return web.Answer(w, http.StatusNoContent, nil,
		missing(f.Store.Unsuppress(r.Context(), email), "Suppression", email))
}
