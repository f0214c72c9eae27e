package notifications

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// defaultTemplate is the id of the default template.
const defaultTemplate = "default"

// mailTemplate is a template as the API has it.
type mailTemplate struct {
	Name     string          `json:"name"`
	Subject  string          `json:"subject"`
	Text     string          `json:"text"`
	HTML     string          `json:"html"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

type templateRow struct {
	ID, Name string
	Uses     []string
	Own      string // the id in the API of a template of campaigns
}

type templatesData struct {
	Rows     []templateRow
	MayWrite bool
	Command  string
	// Campaigns are the templates of version 2 of the API that belong to the console.
	Campaigns        []templateRow
	MayCampaigns     bool
	CampaignsCommand string
}

// templates is GET /console/notifications/templates.
func (c pages) templates(r *http.Request, s *page.Session) (any, error) {
	call := c.Notifications(r, s)
	rows, err := templatesOf(call)
	if err != nil {
		return nil, err
	}
	if s.Has(scopeNotifyManage) {
		sources, err := sourcesOf(call)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			rows[i].Uses = usesOf(rows[i].ID, sources)
		}
	}
	d := &templatesData{
		Rows: rows, MayWrite: s.Has(scopeTemplatesWrite), Command: page.Command("ingot", "notifications", "templates"),
		MayCampaigns: s.Has(scopeNotifyWrite), CampaignsCommand: `curl "$N/templates"` + secondAuth,
	}
	if d.MayCampaigns {
		if d.Campaigns, err = campaignTemplates(call); err != nil {
			return nil, err
		}
		senders, err := sendersOf(call)
		if err != nil {
			return nil, err
		}
		for i := range d.Campaigns {
			d.Campaigns[i].Uses = campaignUses(d.Campaigns[i].ID, senders)
		}
	}
	return d, nil
}

// ofCampaigns returns the id of a template in the API, and whether it belongs to version 2, whose
// templates are for campaigns.
func ofCampaigns(id string) (own string, second bool) { return strings.CutPrefix(id, campaignPrefix) }

// onTemplate calls the version of the API to which a template belongs.
func onTemplate(c *page.Caller, method, id string, body, out any) error {
	id, second := ofCampaigns(id)
	var header map[string]string
	if second {
		header = secondVersion
	}
	return c.With(header, method, "/templates/"+url.PathEscape(id), body, out)
}

// campaignTemplates returns the console's templates for campaigns by name, the default one first.
func campaignTemplates(c *page.Caller) ([]templateRow, error) {
	var answer struct{ Templates []struct{ ID, Name string } }
	if err := c.With(secondVersion, http.MethodGet, "/templates", nil, &answer); err != nil {
		return nil, err
	}
	rows := make([]templateRow, 0, len(answer.Templates)+1)
	for _, t := range answer.Templates {
		rows = append(rows, templateRow{ID: t.ID, Name: t.Name})
	}
	rows = withDefault(rows)
	for i := range rows {
		rows[i].Own, rows[i].ID = rows[i].ID, campaignPrefix+rows[i].ID
	}
	return rows, nil
}

// withDefault sorts templates by name, and adds the default one as the first.
func withDefault(rows []templateRow) []templateRow {
	slices.SortFunc(rows, func(a, b templateRow) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.ID, b.ID))
	})
	return append([]templateRow{{ID: defaultTemplate, Name: "Default template"}}, rows...)
}

// campaignUses returns the campaign types that use a template, with their senders.
func campaignUses(id string, senders []sender) []string {
	var uses []string
	for _, s := range senders {
		for _, t := range s.Types {
			if t.Template() == id {
				uses = append(uses, s.Name+" / "+t.Name)
			}
		}
	}
	return uses
}

// templatesOf returns all templates by name, the default one first.
func templatesOf(c *page.Caller) ([]templateRow, error) {
	var named map[string]struct{ Name string }
	if err := c.Get(&named, "/templates", nil); err != nil {
		return nil, err
	}
	rows := make([]templateRow, 0, len(named)+1)
	for id, t := range named {
		rows = append(rows, templateRow{ID: id, Name: t.Name})
	}
	return withDefault(rows), nil
}

// usesOf returns what uses a template: clients, and kinds as CLIENT/KIND.
func usesOf(id string, sources []source) []string {
	var uses []string
	for _, src := range sources {
		if src.Template == id && id != defaultTemplate {
			uses = append(uses, src.ID)
		}
		for _, k := range src.Kinds {
			// A kind without a template uses the client's.
			if k.Template == id && (id != defaultTemplate || src.Template == defaultTemplate) {
				uses = append(uses, src.ID+"/"+k.ID)
			}
		}
	}
	return uses
}

// templateProblem is an error in a template, with its line and column.
type templateProblem struct {
	Part    string `json:"part"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

// partProblems are the problems of one part.
type partProblems struct {
	Part string
	List []templateProblem
}

type templateVariable struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type templateData struct {
	ID                                    string // empty for a new one
	Campaigns                             bool   // it belongs to version 2 of the API
	Name, Subject, Text, HTML             string
	Metadata                              string
	SampleSubject, SampleText, SampleHTML string
	Variables                             []templateVariable
	Problems                              map[string][]templateProblem // by part
	Error                                 string
	MayWrite, IsDefault                   bool
	Command                               string
	Delete, Versions                      string
}

// forCampaigns is the value of the field for of a new template of version 2 of the API.
const forCampaigns = "campaigns"

// newTemplate is GET /console/notifications/templates/new.
func (c pages) newTemplate(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.editor(w, r, s, http.StatusOK, &templateData{
		Campaigns: r.URL.Query().Get("for") == forCampaigns,
		Subject:   "{{.Subject}}", Metadata: "{}",
		Text: "{{.Text}}\n{{if .UnsubscribeURL}}\n-- \nUnsubscribe: {{.UnsubscribeURL}}{{end}}",
		HTML: "<h1>{{.Subject}}</h1>\n{{.HTML}}\n{{if .UnsubscribeURL}}<p><a " +
			"href=\"{{.UnsubscribeURL}}\">Unsubscribe</a></p>{{end}}",
	})
}

// template is GET /console/notifications/templates/ID.
func (c pages) template(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	id := web.Param(r, "template")
	var t mailTemplate
	if err := onTemplate(c.Notifications(r, s), http.MethodGet, id, nil, &t); err != nil {
		return err
	}
	return c.editor(w, r, s, http.StatusOK, &templateData{ID: id, Name: t.Name, Subject: t.Subject, Text: t.Text,
		HTML: t.HTML, Metadata: page.Indented(t.Metadata)})
}

// editor shows the editor of a template.
func (c pages) editor(w http.ResponseWriter, r *http.Request, s *page.Session, status int, d *templateData) error {
	if err := need(s, scopeTemplatesRead); err != nil {
		return err
	}
	var answer struct{ Variables []templateVariable }
	if err := c.Notifications(r, s).Get(&answer, "/template_variables", nil); err != nil {
		return err
	}
	id, second := ofCampaigns(d.ID)
	d.Variables, d.IsDefault, d.Campaigns = answer.Variables, id == defaultTemplate, d.Campaigns || second
	// The default template is shared by everyone, and what other clients made belongs to them.
	scope := scopeTemplatesWrite
	if d.Campaigns {
		scope = scopeNotifyWrite
	}
	d.MayWrite = s.Has(scope) && (!d.IsDefault || s.Has(scopeNotifyAdmin))
	d.Command = page.Command("ingot", "notifications", "templates", "--create", cmp.Or(d.Name, "NAME"), "--subject",
		cmp.Or(d.Subject, "SUBJECT"), "--text", "@mail.txt", "--html", "@mail.html")
	if d.ID != "" {
		d.Versions = page.Command("ingot", "notifications", "versions", versionedID(d.ID))
		d.Command = page.Command("ingot", "notifications", "templates", "--id", d.ID, "--text", "@mail.txt", "--html",
			"@mail.html")
		d.Delete = page.Command("ingot", "notifications", "templates", "--delete", d.ID)
	}
	if d.Campaigns {
		at := ` "$N/templates"` + secondAuth
		d.Command = "curl" + at + ` -d @template.json`
		if d.ID != "" {
			at = ` "$N/templates/` + url.PathEscape(id) + `"` + secondAuth
			d.Command, d.Delete = "curl -X PUT"+at+` -d @template.json`, "curl -X DELETE"+at
		}
	}
	title := d.Name
	if d.ID == "" {
		title = "New template"
	}
	return c.showNotifications(w, r, s, status, "template.html", "Templates",
		page.Page{Title: cmp.Or(title, d.ID), Data: d})
}

// templateOf reads the editor's form.
func templateOf(r *http.Request) *templateData {
	f := r.PostForm
	return &templateData{
		Campaigns: f.Get("for") == forCampaigns,
		Name:      strings.TrimSpace(f.Get("name")), Subject: f.Get("subject"), Text: unix(f.Get("text")),
		HTML: unix(f.Get("html")), Metadata: unix(f.Get("metadata")),
		SampleSubject: f.Get("sample_subject"), SampleText: unix(f.Get("sample_text")),
		SampleHTML: unix(f.Get("sample_html")),
	}
}

// source returns the parts as the API wants them for a check.
func (d *templateData) source() map[string]string {
	return map[string]string{"subject": d.Subject, "text": d.Text, "html": d.HTML}
}

// problemsOf returns the errors of a template.
func problemsOf(c *page.Caller, d *templateData) ([]templateProblem, error) {
	answer := struct{ Problems []templateProblem }{[]templateProblem{}}
	err := c.Do(http.MethodPost, "/templates/check", d.source(), &answer)
	for i := range answer.Problems {
		// The editor has a list of them.
		p := &answer.Problems[i]
		p.Message, _, _ = strings.Cut(p.Message, "; known are ")
	}
	return answer.Problems, err
}

type rendered struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
	HTML    string `json:"html"`
}

// previewOf returns how a message with the template would look.
func previewOf(c *page.Caller, d *templateData) (*rendered, error) {
	var out rendered
	err := c.Do(http.MethodPost, "/templates/preview", map[string]any{
		"template": d.source(), "message": map[string]string{"subject": d.SampleSubject, "text": d.SampleText,
			"html": d.SampleHTML},
	}, &out)
	return &out, err
}

// checkTemplate is POST /console/notifications/templates/check, for scripts: the errors of the
// editor's fields, or the subject that they give.
func (c pages) checkTemplate(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	d, call := templateOf(r), c.Notifications(r, s)
	problems, err := problemsOf(call, d)
	if err != nil {
		return err
	}
	answer := struct {
		Problems []templateProblem `json:"problems"`
		Subject  string            `json:"subject"`
	}{Problems: problems}
	if len(problems) == 0 {
		shown, err := previewOf(call, d)
		if err != nil {
			return err
		}
		answer.Subject = shown.Subject
	}
	web.WriteJSON(w, http.StatusOK, answer)
	return nil
}

// previewTemplate is POST /console/notifications/templates/preview: a document for a frame. The
// field view is text for the text part; dark is set for dark colors.
func (c pages) previewTemplate(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	d, call := templateOf(r), c.Notifications(r, s)
	dark := r.PostForm.Get("dark") != ""
	problems, err := problemsOf(call, d)
	if err != nil {
		return err
	}
	shown := &rendered{}
	if len(problems) == 0 {
		if shown, err = previewOf(call, d); err != nil {
			return err
		}
	}
	if len(problems) == 0 && r.PostForm.Get("view") != "text" {
		if shown.HTML == "" {
			shown.HTML = "<p>Messages with this template have no HTML part.</p>"
		}
		writeFrame(w, r, dark, []byte(shown.HTML)) // without active content, in a document that cannot run any
		return nil
	}
	html, err := c.Render("preview.html", map[string]any{"Subject": shown.Subject, "Text": shown.Text,
		"Problems": problems})
	if err != nil {
		return err
	}
	writeFrame(w, r, dark, html)
	return nil
}

// saveTemplate is POST /console/notifications/templates/save for a new template, and
// /console/notifications/templates/ID/save for another one. With the field test, a test is sent
// to the user. An error is shown in the editor, which keeps what was written.
func (c pages) saveTemplate(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	d, call := templateOf(r), c.Notifications(r, s)
	d.ID = web.Param(r, "template")
	id, err := storeTemplate(call, d)
	done := "template"
	if err == nil {
		if d.ID = id; r.PostForm.Get("test") != "" {
			done = "template-test"
			err = call.Do(http.MethodPost, "/templates/"+url.PathEscape(id)+"/test",
				map[string]string{"subject": d.SampleSubject, "text": d.SampleText, "html": d.SampleHTML}, nil)
		}
	}
	if err == nil {
		return toNotifications(w, r, "/templates/"+url.PathEscape(id), done)
	}
	text, ok := forUsers(err)
	if !ok {
		return err
	}
	d.Error = text
	problems, err := problemsOf(call, d)
	if err != nil {
		return err
	}
	d.Problems = map[string][]templateProblem{}
	for _, p := range problems {
		d.Problems[p.Part] = append(d.Problems[p.Part], p)
	}
	if len(problems) > 0 {
		d.Error = "The template was not saved: it has errors."
	}
	return c.editor(w, r, s, http.StatusUnprocessableEntity, d)
}

// storeTemplate creates or replaces a template and returns its id.
func storeTemplate(c *page.Caller, d *templateData) (string, error) {
	t := mailTemplate{Name: d.Name, Subject: d.Subject, Text: d.Text, HTML: d.HTML}
	if text := strings.TrimSpace(d.Metadata); text != "" {
		if !json.Valid([]byte(text)) {
			return "", fault.New(fault.Unprocessable, "The metadata is not JSON.")
		}
		t.Metadata = json.RawMessage(text)
	}
	if t.Name == "" {
		return "", fault.New(fault.Unprocessable, "The template needs a name.")
	}
	if d.ID != "" {
		return d.ID, onTemplate(c, http.MethodPut, d.ID, t, nil)
	}
	if d.Campaigns {
		var made struct{ ID string }
		err := c.With(secondVersion, http.MethodPost, "/templates", t, &made)
		return campaignPrefix + made.ID, err
	}
	var made struct {
		ID string `json:"template-id"`
	}
	err := c.Do(http.MethodPost, "/templates", t, &made)
	return made.ID, err
}

// deleteTemplate is POST /console/notifications/templates/ID/delete.
func (c pages) deleteTemplate(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	if err := onTemplate(c.Notifications(r, s), http.MethodDelete, web.Param(r, "template"), nil, nil); err != nil {
		return err
	}
	return toNotifications(w, r, "/templates", "template-deleted")
}
