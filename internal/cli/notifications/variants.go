package notifications

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/cli/core"
)

// notifications variants

type variantsFlags struct {
	notifyFlags
	Set     string `long:"set" value-name:"LOCALE" description:"Set the text for this language, such as de or pt-BR"`
	Subject string `long:"subject" value-name:"TEXT" description:"With --set: subject template (default: the template's)"`
	Text    string `long:"text" value-name:"TEXT" description:"With --set: text template, or @FILE (default: the template's)"`
	HTML    string `long:"html" value-name:"HTML" description:"With --set: HTML template, or @FILE (default: the template's)"`
	Delete  string `long:"delete" value-name:"LOCALE" description:"Delete the text for this language"`
}

type variantRow struct {
	Locale  string `json:"locale"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	HTML    string `json:"html"`
}

func changeVariants(ctx context.Context, s *core.Session, w core.Words, f *variantsFlags) (core.Result, error) {
	path := "/templates/" + url.PathEscape(w["TEMPLATE"]) + "/variants"
	switch {
	case f.Set != "" && f.Delete != "":
		return nil, core.UsageError("--set and --delete cannot be used together")
	case f.Set != "":
		body := map[string]string{}
		for key, value := range map[string]string{"subject": f.Subject, "text": f.Text, "html": f.HTML} {
			content, err := contentOf(s, value)
			if err != nil {
				return nil, err
			}
			body[key] = content
		}
		s.Say("Setting variant %s of template %s...", s.Out.Bold(f.Set), s.Out.Bold(w["TEMPLATE"]))
		if err := f.call(ctx, s, http.MethodPut, path+"/"+url.PathEscape(f.Set), body, nil); err != nil {
			return nil, err
		}
		s.OK()
	case f.Delete != "":
		s.Say("Deleting variant %s of template %s...", s.Out.Bold(f.Delete), s.Out.Bold(w["TEMPLATE"]))
		if err := f.call(ctx, s, http.MethodDelete, path+"/"+url.PathEscape(f.Delete), nil, nil); err != nil {
			return nil, err
		}
		s.OK()
	default:
		s.Say("Getting variants of template %s...", s.Out.Bold(w["TEMPLATE"]))
	}
	var found struct{ Variants map[string]variantRow }
	if err := f.call(ctx, s, http.MethodGet, path, nil, &found); err != nil {
		return nil, err
	}
	list := &core.Listing[variantRow]{
		Key: "variants", None: "No variants found.", Heading: []string{"locale", "subject"}, Paint: core.Plain,
		Cells: func(v variantRow) []string { return []string{v.Locale, v.Subject} },
	}
	for _, locale := range core.SortedKeys(found.Variants) {
		v := found.Variants[locale]
		v.Locale = locale
		list.Rows = append(list.Rows, v)
	}
	return list, nil
}

// notifications missing-variants

type missingFlags struct {
	notifyFlags
	Locales string `long:"locales" value-name:"LIST" description:"Languages to look for, such as de,fr (default: all in use)"`
}

type missingRow struct {
	Template string   `json:"template_id"`
	Name     string   `json:"name"`
	Kinds    []string `json:"kinds"`
	Missing  []string `json:"missing"`
}

func listMissing(ctx context.Context, s *core.Session, _ core.Words, f *missingFlags) (core.Result, error) {
	s.Say("Getting missing variants...")
	path := "/missing_variants"
	if f.Locales != "" {
		path += "?locales=" + url.QueryEscape(f.Locales)
	}
	var found struct{ Templates []missingRow }
	if err := f.call(ctx, s, http.MethodGet, path, nil, &found); err != nil {
		return nil, err
	}
	return &core.Listing[missingRow]{
		Key: "templates", None: "No variants are missing.", Heading: []string{"template", "name", "kinds", "missing"},
		Paint: core.Plain, Rows: found.Templates,
		Cells: func(m missingRow) []string {
			return []string{m.Template, m.Name, strings.Join(m.Kinds, ", "), strings.Join(m.Missing, ", ")}
		},
	}, nil
}
