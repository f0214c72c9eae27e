package httpext

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

func (f *handlers) registerPartials(g *web.Group) {
	author := web.Scope(scopeTemplatesRead, scopeTemplatesWrite, scopeAdmin)
	writer := web.Scope(scopeTemplatesWrite, scopeAdmin)
	g.Handle("GET", "/partials", author, f.listPartials)
	g.Handle("GET", "/partials/{partial}", author, f.showPartial)
	g.Handle("PUT", "/partials/{partial}", writer, f.setPartial)
	g.Handle("DELETE", "/partials/{partial}", writer, f.deletePartial)
}

type partialVariant struct {
	Text string `json:"text"`
	HTML string `json:"html"`
}

type partialUserBody struct {
	TemplateID string `json:"template_id,omitempty"`
	Partial    string `json:"partial,omitempty"`
	Name       string `json:"name"`
	ClientID   string `json:"client_id,omitempty"`
}

// partialBody describes a partial without its texts.
type partialBody struct {
	Name    string    `json:"name"`
	Shared  bool      `json:"shared"`
	Blocks  []string  `json:"blocks"`
	Locales []string  `json:"locales"`
	Updated time.Time `json:"updated_at"`
}

func presentPartial(p notify.Partial) partialBody {
	out := partialBody{Name: p.Name, Shared: p.Owner == "", Blocks: []string{}, Locales: []string{},
		Updated: p.Updated.UTC()}
	out.Blocks = append(out.Blocks, p.Blocks()...)
	out.Locales = append(out.Locales, slices.Sorted(maps.Keys(p.Variants))...)
	return out
}

// listPartials lists those that the caller's templates can use: its own, and the shared ones that these do not replace.
func (f *handlers) listPartials(w http.ResponseWriter, r *http.Request) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	all := map[string]notify.Partial{}
	for _, owner := range []string{"", client(r)} {
		list, err := f.Store.Partials(r.Context(), owner)
		if err != nil {
			return err
		}
		for _, p := range list {
			all[p.Name] = p
		}
	}
	out := make([]partialBody, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, presentPartial(all[name]))
	}
	return web.Answer(w, http.StatusOK, map[string]any{"partials": out}, nil)
}

// partialOwner returns the owner of the partial of a request. Only an administrator changes shared ones.
func partialOwner(r *http.Request) (string, error) {
	return ownerOrShared(r, r.Method == http.MethodGet,
		"All clients use a shared partial. Changing it requires the scope %s.")
}

// ownerOrShared returns the owner of what a request is about: the caller's client, or with shared=true "". Unless it is
// open to all, that is for administrators, and refusal is told to others, with the scope that they lack.
func ownerOrShared(r *http.Request, open bool, refusal string) (string, error) {
	q, err := readQuery(r, "shared")
	if err != nil {
		return "", err
	}
	switch q.Get("shared") {
	case "", "false":
		return client(r), nil
	case "true":
		if !open && !token.FromContext(r.Context()).HasAny(scopeAdmin) {
			return "", fault.New(fault.Forbidden, refusal, scopeAdmin)
		}
		return "", nil
	}
	return "", fault.Invalid(`"shared" must be true or false`)
}

func (f *handlers) showPartial(w http.ResponseWriter, r *http.Request) error {
	owner, err := partialOwner(r)
	if err != nil {
		return err
	}
	name := web.Param(r, "partial")
	p, err := f.Store.Partial(r.Context(), owner, name)
	if errors.Is(err, notify.ErrNotFound) && owner != "" {
		p, err = f.Store.Partial(r.Context(), "", name)
	}
	if err != nil {
		return missing(err, "Partial", name)
	}
	users, err := f.Store.PartialUsers(r.Context(), p.Owner, p.Name)
	if err != nil {
		return err
	}
	variants := make(map[string]partialVariant, len(p.Variants))
	for locale, v := range p.Variants {
		variants[locale] = partialVariant{v.Text, v.HTML}
	}
	used := make([]partialUserBody, 0, len(users))
	for _, u := range users {
		if u.Client == client(r) || administers(r) {
			used = append(used, partialUserBody{u.TemplateID, u.Partial, u.Name, u.Client})
		}
	}
	return web.Answer(w, http.StatusOK, struct {
		partialBody
		Text     string                    `json:"text"`
		HTML     string                    `json:"html"`
		Variants map[string]partialVariant `json:"variants"`
		UsedBy   []partialUserBody         `json:"used_by"`
	}{presentPartial(p), p.Text, p.HTML, variants, used}, nil)
}

func (f *handlers) setPartial(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Text     string                    `json:"text"`
		HTML     string                    `json:"html"`
		Variants map[string]partialVariant `json:"variants"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	owner, err := partialOwner(r)
	if err != nil {
		return err
	}
	now := time.Now()
	p := notify.Partial{Owner: owner, Name: web.Param(r, "partial"), Text: body.Text, HTML: body.HTML,
		Created: now, Updated: now}
	for tag, v := range body.Variants {
		locale, err := notify.CanonicalLocale(tag)
		if err != nil {
			return err
		}
		if p.Variants == nil {
			p.Variants = map[string]notify.Variant{}
		}
		if _, twice := p.Variants[locale]; twice {
			return fault.Invalid(fmt.Sprintf("the variant %s is given twice", locale))
		}
		p.Variants[locale] = notify.Variant{Text: v.Text, HTML: v.HTML}
	}
	if err := p.Check(); err != nil {
		return err
	}
	if err := f.checkPartial(r.Context(), p); err != nil {
		return err
	}
	err = f.Store.SetPartial(r.Context(), p)
	if errors.Is(err, notify.ErrTooMany) {
		err = fault.Wrap(err, fault.Unprocessable, "A client may have at most %d partials. Delete one first.",
			notify.MaxPartials)
	}
	return web.Answer(w, http.StatusNoContent, nil, err)
}

// checkPartial checks a partial, and all that use it, as they would be with it.
func (f *handlers) checkPartial(ctx context.Context, p notify.Partial) error {
	others, err := f.Store.PartialsFor(ctx, p.Owner, p.Uses())
	if err != nil {
		return err
	}
	if err := template.CheckPartial(p, others); err != nil {
		return err
	}
	seen := map[notify.PartialUser]bool{}
	for next := []notify.Partial{p}; len(next) > 0; next = next[1:] {
		users, err := f.Store.PartialUsers(ctx, next[0].Owner, next[0].Name)
		if err != nil {
			return err
		}
		for _, u := range users {
			if seen[u] {
				continue
			}
			seen[u] = true
			if err := f.checkUser(ctx, u, p); err != nil {
				return fault.Wrap(err, fault.Unprocessable, "The partial would break %s: %s", userName(u),
					template.Reason(err))
			}
			if u.Partial != "" {
				next = append(next, notify.Partial{Owner: u.Client, Name: u.Partial})
			}
		}
	}
	return nil
}

// checkUser checks a template or partial that uses p, directly or not.
func (f *handlers) checkUser(ctx context.Context, u notify.PartialUser, p notify.Partial) error {
	with := func(uses []string) (map[string]notify.Partial, error) {
		all, err := f.Store.PartialsFor(ctx, u.Client, append(uses, p.Uses()...))
		if all == nil {
			all = map[string]notify.Partial{}
		}
		all[p.Name] = p
		return all, err
	}
	var err error
	if u.Partial != "" {
		user, err := f.Store.Partial(ctx, u.Client, u.Partial)
		if err != nil {
			return orGone(err)
		}
		others, err := with(user.Uses())
		if err != nil {
			return err
		}
		return template.CheckPartial(user, others)
	}
	t, err := f.Store.Template(ctx, u.TemplateID)
	if err != nil {
		return orGone(err)
	}
	if t.Partials, err = with(t.Uses()); err != nil {
		return err
	}
	return template.CheckAll(t)
}

// orGone ignores that something was deleted meanwhile.
func orGone(err error) error {
	if errors.Is(err, notify.ErrNotFound) {
		return nil
	}
	return err
}

func userName(u notify.PartialUser) string {
	if u.Partial != "" {
		return fmt.Sprintf("the partial %q", u.Partial)
	}
	return fmt.Sprintf("the template %q (%s)", u.Name, u.TemplateID)
}

func (f *handlers) deletePartial(w http.ResponseWriter, r *http.Request) error {
	owner, err := partialOwner(r)
	if err != nil {
		return err
	}
	name := web.Param(r, "partial")
	users, err := f.Store.DeletePartial(r.Context(), owner, name)
	if errors.Is(err, notify.ErrConflict) {
		const most = 20
		var names []string
		for _, u := range users[:min(len(users), most)] {
			names = append(names, userName(u))
		}
		if len(users) > most {
			names = append(names, fmt.Sprintf("and %d more", len(users)-most))
		}
		err = fault.Wrap(err, fault.Unprocessable, "The partial %q is in use by %s. Change them first.", name,
			strings.Join(names, ", "))
	}
	return web.Answer(w, http.StatusNoContent, nil, missing(err, "Partial", name))
}
