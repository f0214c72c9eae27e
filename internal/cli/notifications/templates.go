package notifications

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications templates

type templatesFlags struct {
	notifyFlags
	Create  string `long:"create" value-name:"NAME" description:"Create a template with this name"`
	ID      string `long:"id" value-name:"ID" description:"Template to show, or to change or assign with other flags"`
	Name    string `long:"name" value-name:"NAME" description:"With --id: the new name"`
	Subject string `long:"subject" value-name:"TEXT" description:"Subject template; {{.Subject}} is the message's subject"`
	Text    string `long:"text" value-name:"TEXT" description:"Text template, or @FILE; {{.Text}} is the message's text"`
	HTML    string `long:"html" value-name:"HTML" description:"HTML template, or @FILE; {{.HTML}} is the message's HTML"`
	Assign  string `long:"assign" value-name:"KIND" description:"Assign the created template, or the one from --id, to this kind"`
	Delete  string `long:"delete" value-name:"ID" description:"Delete this template; what uses it then has the default one"`
}

type templateRow struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (r *templateRow) Show(p *term.Printer) { p.Pairs([2]string{"template", p.Bold(r.ID)}) }

// template is one with its texts. Changing it replaces all of them.
type template struct {
	ID       string `json:"id,omitempty"`
	Name     string `json:"name"`
	Subject  string `json:"subject"`
	Text     string `json:"text"`
	HTML     string `json:"html"`
	Metadata any    `json:"metadata,omitempty"`
}

func (t *template) Show(p *term.Printer) {
	p.Pairs([2]string{"template", p.Bold(t.ID)}, [2]string{"name", t.Name}, [2]string{"subject", t.Subject})
	for _, part := range [][2]string{{"text:", t.Text}, {"html:", t.HTML}} {
		p.Println("")
		p.Println(part[0])
		p.Println(part[1])
	}
}

// texts reports whether flags say what is in a template.
func (f *templatesFlags) texts() bool { return f.Subject != "" || f.Text != "" || f.HTML != "" }

func (f *templatesFlags) check() error {
	switch {
	case f.Create != "" && f.ID != "":
		return core.UsageError("--create and --id cannot be used together")
	case f.Delete != "" && (f.Create != "" || f.ID != "" || f.Assign != "" || f.Name != "" || f.texts()):
		return core.UsageError("--delete cannot be used with other flags")
	case f.Name != "" && f.ID == "":
		return core.UsageError("--name needs --id")
	case f.texts() && f.Create == "" && f.ID == "":
		return core.UsageError("--subject, --text and --html need a template: --id ID, or --create NAME")
	case f.Assign != "" && f.Create == "" && f.ID == "":
		return core.UsageError("--assign needs a template: --id ID, or --create NAME")
	}
	return nil
}

func changeTemplates(ctx context.Context, s *core.Session, _ core.Words, f *templatesFlags) (core.Result, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	id := f.ID
	var out core.Result
	switch {
	case f.Delete != "":
		s.Say("Deleting template %s...", s.Out.Bold(f.Delete))
		if err := f.call(ctx, s, http.MethodDelete, "/templates/"+url.PathEscape(f.Delete), nil, nil); err != nil {
			return nil, err
		}
		s.OK()
		return f.list(ctx, s)
	case f.Create != "":
		s.Say("Creating template %s...", s.Out.Bold(f.Create))
		made, err := f.create(ctx, s)
		if err != nil {
			return nil, err
		}
		id, out = made, &templateRow{made, f.Create}
		s.OK()
	case id != "" && (f.Name != "" || f.texts()):
		s.Say("Changing template %s...", s.Out.Bold(id))
		name, err := f.change(ctx, s)
		if err != nil {
			return nil, err
		}
		out = &templateRow{id, name}
		s.OK()
	}
	if f.Assign != "" {
		owner, err := f.clientID(ctx, s)
		if err != nil {
			return nil, err
		}
		s.Say("Assigning template %s to kind %s...", s.Out.Bold(id), s.Out.Bold(f.Assign))
		if err := f.assign(ctx, s, owner, f.Assign, id); err != nil {
			return nil, err
		}
		s.OK()
		if out == nil {
			out = &templateRow{ID: id}
		}
	}
	switch {
	case out != nil:
		return out, nil
	case id != "":
		s.Say("Getting template %s...", s.Out.Bold(id))
		one := &template{ID: id}
		return one, f.call(ctx, s, http.MethodGet, "/templates/"+url.PathEscape(id), nil, one)
	}
	s.Say("Getting templates...")
	return f.list(ctx, s)
}

func (f *templatesFlags) list(ctx context.Context, s *core.Session) (core.Result, error) {
	var all map[string]struct{ Name string }
	if err := f.call(ctx, s, http.MethodGet, "/templates", nil, &all); err != nil {
		return nil, err
	}
	list := &core.Listing[templateRow]{
		Key: "templates", Heading: []string{"id", "name"}, Paint: core.Plain,
		Cells: func(t templateRow) []string { return []string{t.ID, t.Name} },
	}
	for _, id := range core.SortedKeys(all) {
		list.Rows = append(list.Rows, templateRow{id, all[id].Name})
	}
	return list, nil
}

func (f *templatesFlags) create(ctx context.Context, s *core.Session) (string, error) {
	t := &template{Name: f.Create, Subject: "{{.Subject}}", Text: "{{.Text}}", HTML: "{{.HTML}}"}
	if err := f.fill(s, t); err != nil {
		return "", err
	}
	var out struct {
		ID  string `json:"template_id"`
		Old string `json:"template-id"`
	}
	err := f.call(ctx, s, http.MethodPost, "/templates", t, &out)
	return cmp.Or(out.ID, out.Old), err
}

// change replaces what flags say, leaves the rest as it is, and returns the name.
func (f *templatesFlags) change(ctx context.Context, s *core.Session) (string, error) {
	path := "/templates/" + url.PathEscape(f.ID)
	t := &template{}
	if err := f.call(ctx, s, http.MethodGet, path, nil, t); err != nil {
		return "", err
	}
	t.ID, t.Name = "", cmp.Or(f.Name, t.Name)
	if err := f.fill(s, t); err != nil {
		return "", err
	}
	return t.Name, f.call(ctx, s, http.MethodPut, path, t, nil)
}

// fill sets the texts that flags say.
func (f *templatesFlags) fill(s *core.Session, t *template) error {
	t.Subject = cmp.Or(f.Subject, t.Subject)
	for _, part := range []struct {
		flag string
		into *string
	}{{f.Text, &t.Text}, {f.HTML, &t.HTML}} {
		if part.flag == "" {
			continue
		}
		content, err := contentOf(s, part.flag)
		if err != nil {
			return err
		}
		*part.into = content
	}
	return nil
}
