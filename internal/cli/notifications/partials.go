package notifications

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

// notifications partials

type partialsFlags struct {
	notifyFlags
	Show   string `long:"show" value-name:"NAME" description:"Show the texts of this partial and what uses it"`
	Set    string `long:"set" value-name:"NAME" description:"Create or change this partial"`
	Text   string `long:"text" value-name:"TEXT" description:"With --set: for texts and subjects, or @FILE (default: unchanged)"`
	HTML   string `long:"html" value-name:"HTML" description:"With --set: for HTML, or @FILE (default: unchanged)"`
	Locale string `long:"locale" value-name:"LOCALE" description:"With --set: change the text for this language, such as de or pt-BR"`
	Delete string `long:"delete" value-name:"NAME" description:"Delete this partial; refused while it is in use"`
	Shared bool   `long:"shared" description:"With --show, --set and --delete: the partial that all clients share"`
}

type partialTexts struct {
	Text string `json:"text"`
	HTML string `json:"html"`
}

type partialRow struct {
	Name    string    `json:"name"`
	Shared  bool      `json:"shared"`
	Blocks  []string  `json:"blocks"`
	Locales []string  `json:"locales"`
	Updated time.Time `json:"updated_at"`
}

type partialSheet struct {
	partialRow
	partialTexts
	Variants map[string]partialTexts `json:"variants"`
	UsedBy   []partialUser           `json:"used_by"`
}

type partialUser struct {
	Template string `json:"template_id,omitempty"`
	Partial  string `json:"partial,omitempty"`
	Name     string `json:"name"`
	Client   string `json:"client_id,omitempty"`
}

func (f *partialsFlags) path(name string) string {
	path := "/partials/" + url.PathEscape(name)
	if f.Shared {
		f.administers()
		path += "?shared=true"
	}
	return path
}

func changePartials(ctx context.Context, s *core.Session, _ core.Words, f *partialsFlags) (core.Result, error) {
	asked := 0
	for _, name := range []string{f.Show, f.Set, f.Delete} {
		if name != "" {
			asked++
		}
	}
	switch {
	case asked > 1:
		return nil, core.UsageError("only one of --show, --set and --delete can be used")
	case f.Set == "" && (f.Text != "" || f.HTML != "" || f.Locale != ""):
		return nil, core.UsageError("--text, --html and --locale require --set")
	case f.Shared && asked == 0:
		return nil, core.UsageError("--shared requires --show, --set or --delete")
	case f.Set != "" && f.Text == "" && f.HTML == "":
		return nil, core.UsageError("--set requires --text or --html")
	case f.Show != "":
		s.Say("Getting partial %s...", s.Out.Bold(f.Show))
		return showPartial(ctx, s, f)
	case f.Set != "":
		s.Say("Setting partial %s...", s.Out.Bold(f.Set))
		if err := setPartial(ctx, s, f); err != nil {
			return nil, err
		}
		s.OK()
	case f.Delete != "":
		s.Say("Deleting partial %s...", s.Out.Bold(f.Delete))
		if err := f.call(ctx, s, http.MethodDelete, f.path(f.Delete), nil, nil); err != nil {
			return nil, err
		}
		s.OK()
	default:
		s.Say("Getting partials...")
	}
	var found struct{ Partials []partialRow }
	if err := f.call(ctx, s, http.MethodGet, "/partials", nil, &found); err != nil {
		return nil, err
	}
	return &core.Listing[partialRow]{Key: "partials", None: "No partials found.", Paint: core.Plain, Rows: found.Partials,
		Heading: []string{"name", "shared", "blocks", "locales"},
		Cells: func(p partialRow) []string {
			shared := ""
			if p.Shared {
				shared = "yes"
			}
			return []string{p.Name, shared, strings.Join(p.Blocks, ", "), strings.Join(p.Locales, ", ")}
		}}, nil
}

// setPartial replaces the given texts of a partial and keeps the others.
func setPartial(ctx context.Context, s *core.Session, f *partialsFlags) error {
	body := struct {
		partialTexts
		Variants map[string]partialTexts `json:"variants"`
	}{Variants: map[string]partialTexts{}}
	var have partialSheet
	switch err := f.call(ctx, s, http.MethodGet, f.path(f.Set), nil, &have); {
	case client.Status(err) == http.StatusNotFound:
	case err != nil:
		return err
	case have.Shared == f.Shared: // and not one that the client's own will replace
		body.partialTexts = have.partialTexts
		if have.Variants != nil {
			body.Variants = have.Variants
		}
	}
	texts, locale := body.partialTexts, f.Locale
	if locale != "" {
		for have := range body.Variants {
			if strings.EqualFold(have, strings.ReplaceAll(locale, "_", "-")) {
				locale = have
			}
		}
		texts = body.Variants[locale]
	}
	for value, into := range map[*string]*string{&f.Text: &texts.Text, &f.HTML: &texts.HTML} {
		content, err := contentOf(s, *value)
		if err != nil {
			return err
		}
		if content != "" {
			*into = content
		}
	}
	if locale != "" {
		body.Variants[locale] = texts
	} else {
		body.partialTexts = texts
	}
	return f.call(ctx, s, http.MethodPut, f.path(f.Set), body, nil)
}

func showPartial(ctx context.Context, s *core.Session, f *partialsFlags) (core.Result, error) {
	var p partialSheet
	if err := f.call(ctx, s, http.MethodGet, f.path(f.Show), nil, &p); err != nil {
		return nil, err
	}
	var users []string
	for _, u := range p.UsedBy {
		if u.Partial != "" {
			users = append(users, "partial "+u.Partial)
		} else {
			users = append(users, u.Name+" ("+u.Template+")")
		}
	}
	text := ""
	for _, part := range []struct{ about, content string }{{"text", p.Text}, {"html", p.HTML}} {
		if part.content != "" {
			text += "\n" + part.about + ":\n" + strings.TrimRight(part.content, "\n") + "\n"
		}
	}
	return &core.Sheet{JSON: p, Text: strings.TrimRight(text, "\n"), Pairs: [][2]string{
		{"name", p.Name}, {"blocks", strings.Join(p.Blocks, ", ")}, {"locales", strings.Join(p.Locales, ", ")},
		{"used by", strings.Join(users, ", ")}}}, nil
}
