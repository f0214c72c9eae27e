package notifications

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// partialRow is a partial as the API lists it.
type partialRow struct {
	Name    string    `json:"name"`
	Shared  bool      `json:"shared"`
	Blocks  []string  `json:"blocks"`
	Locales []string  `json:"locales"`
	Updated time.Time `json:"updated_at"`
}

// Link returns the address of the partial's page.
func (p partialRow) Link() string {
	return ofOwner(notificationsPath+"/partials/"+url.PathEscape(p.Name), p.Shared)
}

// ofOwner returns the address of something that belongs to the console, or to all clients.
func ofOwner(path string, shared bool) string {
	if shared {
		path += "?shared=true"
	}
	return path
}

// partialTexts are the texts of a partial in a language.
type partialTexts struct {
	Locale string `json:"-"`
	Text   string `json:"text"`
	HTML   string `json:"html"`
}

// partialUser is a template or a partial that uses a partial. Link is empty if the console has no page about it.
type partialUser struct {
	Template string `json:"template_id"`
	Partial  string `json:"partial"`
	Name     string `json:"name"`
	Client   string `json:"client_id"`
	Link     string `json:"-"`
}

type partialsData struct {
	Rows     []partialRow
	MayWrite bool
	Command  string
}

// partials is GET /console/notifications/partials: those of the console, and those that all clients share.
func (c pages) partials(r *http.Request, s *page.Session) (any, error) {
	d := &partialsData{MayWrite: s.Has(scopeTemplatesWrite), Command: page.Command("ingot", "notifications", "partials",
		"--set", "footer", "--text", "@footer.txt", "--html", "@footer.html")}
	var answer struct{ Partials []partialRow }
	if err := need(s, scopeTemplatesRead); err != nil {
		return nil, err
	}
	err := c.Notifications(r, s).Get(&answer, "/partials", nil)
	d.Rows = answer.Partials
	return d, err
}

type partialData struct {
	partialRow
	partialTexts
	New      bool
	Variants []partialTexts
	UsedBy   []partialUser
	// MayWrite reports that the user may change this partial, and MayShare those of all clients.
	MayWrite, MayShare bool
	Command, Delete    string
}

// newPartial is GET /console/notifications/new-partial.
func (c pages) newPartial(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.showPartial(w, r, s, http.StatusOK, "", &partialData{New: true})
}

// partial is GET /console/notifications/partials/NAME; with ?shared=true the one of all clients.
func (c pages) partial(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	d, err := c.loadPartial(r, s, r.URL.Query().Get("shared") != "")
	if err != nil {
		return err
	}
	return c.showPartial(w, r, s, http.StatusOK, "", d)
}

// loadPartial returns the partial of the path.
func (c pages) loadPartial(r *http.Request, s *page.Session, shared bool) (*partialData, error) {
	call := c.Notifications(r, s)
	var answer struct {
		partialRow
		partialTexts
		Variants map[string]partialTexts
		UsedBy   []partialUser `json:"used_by"`
	}
	path := ofOwner("/partials/"+url.PathEscape(web.Param(r, "partial")), shared)
	if err := call.Get(&answer, path, nil); err != nil {
		return nil, err
	}
	d := &partialData{partialRow: answer.partialRow, partialTexts: answer.partialTexts, UsedBy: answer.UsedBy}
	for _, locale := range slices.Sorted(maps.Keys(answer.Variants)) {
		v := answer.Variants[locale]
		v.Locale = locale
		d.Variants = append(d.Variants, v)
	}
	return d, linkUsers(call, s, d.UsedBy)
}

// linkUsers adds the addresses of the pages about what uses a partial. Those of templates depend on the version of the
// API to which they belong.
func linkUsers(call *page.Caller, s *page.Session, users []partialUser) error {
	if len(users) == 0 || !s.Has(scopeTemplatesRead) {
		return nil
	}
	rows, err := templatesOf(call)
	if err == nil && s.Has(scopeNotifyWrite) {
		var second []templateRow
		second, err = campaignTemplates(call)
		rows = append(rows, second...)
	}
	for i := range users {
		u := &users[i]
		if u.Partial != "" {
			u.Link = partialRow{Name: u.Partial, Shared: u.Client == ""}.Link()
			continue
		}
		for _, row := range rows {
			if own, _ := ofCampaigns(row.ID); own == u.Template {
				u.Link = notificationsPath + "/templates/" + url.PathEscape(row.ID)
			}
		}
	}
	return err
}

func (c pages) showPartial(w http.ResponseWriter, r *http.Request, s *page.Session, status int, problem string,
	d *partialData) error {
	if err := need(s, scopeTemplatesRead); err != nil {
		return err
	}
	d.MayShare = s.Has(scopeNotifyAdmin)
	d.MayWrite = s.Has(scopeTemplatesWrite) && (!d.Shared || d.MayShare)
	if d.MayWrite {
		d.Variants = append(d.Variants, partialTexts{}) // for one more language
	}
	title, words := "Partial "+d.Name, []string{"ingot", "notifications", "partials"}
	name := d.Name
	if d.New {
		title, name = "New partial", "NAME"
	}
	var shared []string
	if d.Shared {
		shared = []string{"--shared"}
	}
	d.Command = page.Command(slices.Concat(words, []string{"--set", name, "--text", "@partial.txt", "--html",
		"@partial.html"}, shared)...)
	d.Delete = page.Command(slices.Concat(words, []string{"--delete", name}, shared)...)
	return c.showNotifications(w, r, s, status, "partial.html", "Partials",
		page.Page{Title: title, Data: d, Problem: problem})
}

// savePartial is POST /console/notifications/partials/save for a new partial, and
// /console/notifications/partials/NAME/save for another one. An error is shown in the form, which keeps what was
// written.
func (c pages) savePartial(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	f := r.PostForm
	d := &partialData{New: web.Param(r, "partial") == "",
		partialTexts: partialTexts{Text: unix(f.Get("text")), HTML: unix(f.Get("html"))}}
	d.Name, d.Shared = web.Param(r, "partial"), f.Get("shared") != ""
	if d.New {
		d.Name = strings.TrimSpace(f.Get("name"))
	}
	for i, locale := range f["locale"] {
		v := partialTexts{Locale: strings.TrimSpace(locale)}
		if i < len(f["locale_text"]) && i < len(f["locale_html"]) {
			v.Text, v.HTML = unix(f["locale_text"][i]), unix(f["locale_html"][i])
		}
		if v.Text+v.HTML != "" {
			d.Variants = append(d.Variants, v)
		}
	}
	err := storePartial(c.Notifications(r, s), d)
	if err == nil {
		http.Redirect(w, r, said(d.Link(), "partial"), http.StatusSeeOther)
		return nil
	}
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	if !d.New {
		have, err := c.loadPartial(r, s, d.Shared)
		if err != nil {
			return err
		}
		d.Blocks, d.Locales, d.UsedBy = have.Blocks, have.Locales, have.UsedBy
	}
	return c.showPartial(w, r, s, status, text, d)
}

// said returns the address of a page that says what was done.
func said(link, what string) string {
	if strings.Contains(link, "?") {
		return link + "&said=" + what
	}
	return link + "?said=" + what
}

// storePartial creates or replaces a partial.
func storePartial(call *page.Caller, d *partialData) error {
	path := ofOwner("/partials/"+url.PathEscape(d.Name), d.Shared)
	if d.Name == "" {
		return fault.New(fault.Unprocessable, "The partial needs a name.")
	}
	variants := map[string]partialTexts{}
	for _, v := range d.Variants {
		if _, twice := variants[v.Locale]; twice || v.Locale == "" {
			return fault.New(fault.Unprocessable, "Each text in another language needs that language, such as de or pt-BR, "+
				"and each language may have one text.")
		}
		variants[v.Locale] = v
	}
	if d.New {
		var have partialRow
		err := call.Get(&have, path, nil)
		if err == nil && have.Shared == d.Shared {
			return fault.New(fault.Conflict, "There is a partial %s already. Open it to change it.", d.Name)
		}
		if err != nil && !page.Gone(err) {
			return err
		}
	}
	return call.Do(http.MethodPut, path, map[string]any{"text": d.Text, "html": d.HTML, "variants": variants}, nil)
}

// deletePartial is POST /console/notifications/partials/NAME/delete. One in use is shown again, with what uses it.
func (c pages) deletePartial(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	shared := r.PostForm.Get("shared") != ""
	err := c.Notifications(r, s).Do(http.MethodDelete,
		ofOwner("/partials/"+url.PathEscape(web.Param(r, "partial")), shared), nil, nil)
	if err == nil {
		return toNotifications(w, r, "/partials", "partial-deleted")
	}
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	d, err := c.loadPartial(r, s, shared)
	if err != nil {
		return err
	}
	return c.showPartial(w, r, s, status, text, d)
}
