package httpext

import (
	"net/http"
	"strconv"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

func (f *handlers) registerVersions(g *web.Group) {
	reader := web.Scope(scopeTemplatesRead, scopeTemplatesWrite, scopeAdmin)
	g.Handle("GET", "/templates/{template}/versions", reader, f.listVersions)
	g.Handle("GET", "/templates/{template}/versions/{version}", reader, f.showVersion)
	g.Handle("GET", "/templates/{template}/versions/{version}/difference", reader, f.versionDifference)
	g.Handle("POST", "/templates/{template}/rollback", web.Scope(scopeTemplatesWrite, scopeAdmin), f.rollback)
}

type versionBody struct {
	Version   int64     `json:"version"`
	Current   bool      `json:"current"`
	Updated   time.Time `json:"updated_at"`
	ChangedBy string    `json:"changed_by"`
}

// versions returns the template of the path and its versions, newest first.
func (f *handlers) versions(r *http.Request) ([]notify.Template, error) {
	t, err := f.findTemplate(r)
	if err != nil {
		return nil, err
	}
	all, err := f.Store.TemplateVersions(r.Context(), t.ID)
	return all, missing(err, "Template", t.ID)
}

func (f *handlers) listVersions(w http.ResponseWriter, r *http.Request) error {
	all, err := f.versions(r)
	if err != nil {
		return err
	}
	out := make([]versionBody, 0, len(all))
	for i, t := range all {
		out = append(out, presentVersion(t, i == 0))
	}
	return web.Answer(w, http.StatusOK, map[string]any{"versions": out}, nil)
}

func presentVersion(t notify.Template, current bool) versionBody {
	return versionBody{t.Version, current, t.Updated.UTC(), t.ChangedBy}
}

func findVersion(all []notify.Template, number string) (int, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err == nil {
		for i, t := range all {
			if t.Version == n {
				return i, nil
			}
		}
	}
	return 0, fault.New(fault.NotFound, "Version %q of the template could not be found; the newest %d are kept", number,
		notify.MaxVersions)
}

func (f *handlers) showVersion(w http.ResponseWriter, r *http.Request) error {
	all, err := f.versions(r)
	if err != nil {
		return err
	}
	i, err := findVersion(all, web.Param(r, "version"))
	if err != nil {
		return err
	}
	t := all[i]
	variants := make(map[string]variantBody, len(t.Variants))
	for locale, v := range t.Variants {
		variants[locale] = variantBody(v)
	}
	return web.Answer(w, http.StatusOK, struct {
		versionBody
		Name     string                 `json:"name"`
		Subject  string                 `json:"subject"`
		Text     string                 `json:"text"`
		HTML     string                 `json:"html"`
		Variants map[string]variantBody `json:"variants"`
	}{presentVersion(t, i == 0), t.Name, t.Subject, t.Text, t.HTML, variants}, nil)
}

type differenceBody struct {
	Part   string   `json:"part"`
	Locale string   `json:"locale"`
	Lines  []string `json:"lines"`
}

// versionDifference compares a version with the one before it, or with another one.
func (f *handlers) versionDifference(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "from")
	if err != nil {
		return err
	}
	all, err := f.versions(r)
	if err != nil {
		return err
	}
	to, err := findVersion(all, web.Param(r, "version"))
	if err != nil {
		return err
	}
	before := strconv.FormatInt(all[to].Version-1, 10)
	if q.Get("from") != "" {
		before = q.Get("from")
	}
	from, err := findVersion(all, before)
	if err != nil {
		return err
	}
	parts := []differenceBody{}
	for _, d := range notify.Difference(&all[from], &all[to]) {
		parts = append(parts, differenceBody(d))
	}
	return web.Answer(w, http.StatusOK, map[string]any{"from": all[from].Version, "to": all[to].Version,
		"parts": parts}, nil)
}

// rollback makes an earlier version the current one, unless it cannot be used with the partials of today.
func (f *handlers) rollback(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Version int64 `json:"version"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	t, err := f.changeableTemplate(r)
	if err != nil {
		return err
	}
	all, err := f.Store.TemplateVersions(r.Context(), t.ID)
	if err != nil {
		return missing(err, "Template", t.ID)
	}
	i, err := findVersion(all, strconv.FormatInt(body.Version, 10))
	if err != nil {
		return err
	}
	if i > 0 {
		restored := all[i]
		restored.Owner, restored.Creator = t.Owner, t.Creator
		if restored, err = notify.WithPartials(r.Context(), f.Store, restored); err != nil {
			return err
		}
		if err := template.CheckAll(restored); err != nil {
			return err
		}
		if err := f.Store.RestoreTemplate(r.Context(), t.ID, body.Version, time.Now(),
			token.FromContext(r.Context()).Display()); err != nil {
			return missing(err, "Version", strconv.FormatInt(body.Version, 10))
		}
		if all, err = f.Store.TemplateVersions(r.Context(), t.ID); err != nil {
			return missing(err, "Template", t.ID)
		}
	}
	return web.Answer(w, http.StatusOK, presentVersion(all[0], true), nil)
}
