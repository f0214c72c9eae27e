package httpext

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

// findTemplate returns the template of the path. Templates of the second version are visible to their
// client only.
func (f *handlers) findTemplate(r *http.Request) (notify.Template, error) {
	return f.visibleTemplate(r, web.Param(r, "template"))
}

func (f *handlers) visibleTemplate(r *http.Request, id string) (notify.Template, error) {
	t, err := f.Store.Template(r.Context(), id)
	if err == nil && t.Owner != "" && t.Owner != client(r) && !administers(r) {
		err = notify.ErrNotFound
	}
	return t, missing(err, "Template", id)
}

// changeableTemplate is findTemplate for a caller that changes it: the client that created it, or an
// administrator.
func (f *handlers) changeableTemplate(r *http.Request) (notify.Template, error) {
	t, err := f.findTemplate(r)
	if err == nil && !administers(r) && (t.Client() == "" || t.Client() != client(r)) {
		err = fault.New(fault.Forbidden,
			"The template %q belongs to another client or to all. Changing it requires the scope %s.", t.ID, scopeAdmin)
	}
	return t, err
}

type variantBody struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
	HTML    string `json:"html"`
}

func (f *handlers) listVariants(w http.ResponseWriter, r *http.Request) error {
	t, err := f.findTemplate(r)
	if err != nil {
		return err
	}
	out := make(map[string]variantBody, len(t.Variants))
	for locale, v := range t.Variants {
		out[locale] = variantBody(v)
	}
	return web.Answer(w, http.StatusOK, map[string]any{"variants": out}, nil)
}

func (f *handlers) setVariant(w http.ResponseWriter, r *http.Request) error {
	var body variantBody
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	v := notify.Variant(body)
	if v == (notify.Variant{}) {
		return fault.Invalid(`give at least one of "subject", "text" and "html"; the others are those of the template`)
	}
	return f.changeVariant(w, r, &v)
}

func (f *handlers) deleteVariant(w http.ResponseWriter, r *http.Request) error {
	return f.changeVariant(w, r, nil)
}

func (f *handlers) changeVariant(w http.ResponseWriter, r *http.Request, v *notify.Variant) error {
	locale, err := notify.CanonicalLocale(web.Param(r, "locale"))
	if err != nil {
		return err
	}
	t, err := f.changeableTemplate(r)
	if err != nil {
		return err
	}
	if v != nil {
		t.Variants = map[string]notify.Variant{locale: *v}
		changed, err := notify.WithPartials(r.Context(), f.Store, t)
		if err != nil {
			return err
		}
		changed, _, _ = changed.For(language.Make(locale))
		if err := template.Check(changed); err != nil {
			return err
		}
	}
	err = f.Store.SetVariant(r.Context(), t.ID, locale, v, time.Now(), token.FromContext(r.Context()).Display())
	if errors.Is(err, notify.ErrTooMany) {
		return fault.Wrap(err, fault.Unprocessable, "A template may have at most %d variants. Delete one first.",
			notify.MaxVariants)
	}
	return web.Answer(w, http.StatusNoContent, nil, missing(err, "Variant", locale))
}

// lackingBody is a template without some of the languages in use.
type lackingBody struct {
	TemplateID string   `json:"template_id"`
	Name       string   `json:"name"`
	Kinds      []string `json:"kinds"`
	Missing    []string `json:"missing"`
}

// missingVariants lists the client's templates, and those that its kinds use, that lack variants.
func (f *handlers) missingVariants(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "locales")
	if err != nil {
		return err
	}
	templates, kinds, err := f.usedTemplates(r)
	if err != nil {
		return err
	}
	inUse := map[string]bool{}
	for _, tag := range strings.FieldsFunc(q.Get("locales"), func(c rune) bool { return c == ',' }) {
		locale, err := notify.CanonicalLocale(strings.TrimSpace(tag))
		if err != nil {
			return err
		}
		inUse[locale] = true
	}
	if len(inUse) == 0 {
		for _, t := range templates {
			for locale := range t.Variants {
				inUse[locale] = true
			}
		}
	}
	locales := append([]string{}, slices.Sorted(maps.Keys(inUse))...) // a list also if there are none
	lacking := []lackingBody{}
	for _, t := range templates {
		out := lackingBody{TemplateID: t.ID, Name: t.Name, Kinds: kinds[t.ID]}
		for _, locale := range locales {
			if t.VariantFor(language.Make(locale)) == "" {
				out.Missing = append(out.Missing, locale)
			}
		}
		if len(out.Missing) > 0 {
			slices.Sort(out.Kinds)
			lacking = append(lacking, out)
		}
	}
	return web.Answer(w, http.StatusOK, map[string]any{"locales": locales, "templates": lacking}, nil)
}

// usedTemplates returns the templates of the caller's client and of its kinds, and the kinds by template.
func (f *handlers) usedTemplates(r *http.Request) ([]notify.Template, map[string][]string, error) {
	ctx, id := r.Context(), client(r)
	own, _, err := f.Store.Registration(ctx, notify.KindRef{ClientID: id})
	if err != nil {
		return nil, nil, err
	}
	all, err := f.Store.Kinds(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	kinds := map[string][]string{}
	for _, k := range all {
		use := k.TemplateID
		if use == notify.DefaultTemplate {
			use = cmp.Or(own.TemplateID, use)
		}
		kinds[use] = append(kinds[use], k.ID)
	}
	shared, err := f.Store.ListTemplates(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	shared = slices.DeleteFunc(shared, func(t notify.Template) bool { return t.Creator != id && kinds[t.ID] == nil })
	campaigns, err := f.Store.ListTemplates(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	templates := slices.Concat(shared, campaigns)
	if len(kinds[notify.DefaultTemplate]) > 0 {
		t, err := f.Store.Template(ctx, notify.DefaultTemplate)
		if err != nil && !errors.Is(err, notify.ErrNotFound) {
			return nil, nil, err
		}
		if err == nil {
			templates = append(templates, t)
		}
	}
	for _, t := range templates {
		if kinds[t.ID] == nil {
			kinds[t.ID] = []string{}
		}
	}
	return templates, kinds, nil
}
