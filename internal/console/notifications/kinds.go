package notifications

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/console/page"
)

// source is a client that registered kinds of notifications.
type source struct {
	ID, Name, Template string
	Kinds              []kind
}

// kind is a kind of notification.
type kind struct {
	ID, Description, Template string
	Critical                  bool
	Volume                    volume
}

// volume is how many messages of a kind were sent.
type volume struct {
	Total int
	Days  []int // the last is today
	Bars  []bar
}

// bar is a day in the picture of a volume.
type bar struct{ X, Y, Height int }

// Sizes of the picture of a volume.
const (
	barStep   = 10
	barHeight = 20
)

// volumeOf returns the volume of the messages of each day.
func volumeOf(days []int) volume {
	v := volume{Days: days}
	most := 0
	for _, n := range days {
		v.Total += n
		most = max(most, n)
	}
	for i, n := range days {
		if n > 0 {
			h := max(2, n*barHeight/most)
			v.Bars = append(v.Bars, bar{i * barStep, barHeight - h, h})
		}
	}
	return v
}

// sourcesOf returns what all clients registered, by name.
func sourcesOf(c *page.Caller) ([]source, error) {
	var all map[string]struct {
		Name          string
		Template      string
		Notifications map[string]struct {
			Description string
			Template    string
			Critical    bool
		}
	}
	if err := c.Get(&all, "/notifications", nil); err != nil {
		return nil, err
	}
	list := make([]source, 0, len(all))
	for id, one := range all {
		src := source{ID: id, Name: cmp.Or(one.Name, id), Template: one.Template}
		for _, name := range slices.Sorted(maps.Keys(one.Notifications)) {
			k := one.Notifications[name]
			src.Kinds = append(src.Kinds, kind{ID: name, Description: k.Description, Template: k.Template, Critical: k.Critical})
		}
		list = append(list, src)
	}
	slices.SortFunc(list, func(a, b source) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// addVolumes adds how many messages of each kind were sent.
func addVolumes(c *page.Caller, sources []source) error {
	var answer struct {
		Kinds []struct {
			ClientID string `json:"client_id"`
			KindID   string `json:"kind_id"`
			Messages []int  `json:"messages"`
		}
	}
	if err := c.Get(&answer, "/statistics", nil); err != nil {
		return err
	}
	of := map[string][]int{}
	for _, k := range answer.Kinds {
		of[k.ClientID+"\x00"+k.KindID] = k.Messages
	}
	for i := range sources {
		for j := range sources[i].Kinds {
			k := &sources[i].Kinds[j]
			k.Volume = volumeOf(of[sources[i].ID+"\x00"+k.ID])
		}
	}
	return nil
}

type kindsData struct {
	Sources               []source
	Templates             []templateRow
	MayTest, MayCritical  bool
	Command, RegisterLine string
	AssignLine, TestLine  string
}

// kinds is GET /console/notifications.
func (c pages) kinds(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	if tabs := tabsOfNotifications(s, ""); !s.Has(scopeNotifyManage) && len(tabs) > 0 {
		http.Redirect(w, r, tabs[0].Link, http.StatusSeeOther)
		return nil
	}
	d := &kindsData{
		MayTest: s.Has(scopeNotifyAdmin), MayCritical: s.Has(scopeCritical),
		Command: page.Command("ingot", "notifications", "kinds"),
		AssignLine: page.Command("ingot", "notifications", "templates", "--id", "ID", "--assign", "KIND",
			"--client", "CLIENT"),
		TestLine: page.Command("ingot", "notifications", "send", "KIND", "--user", s.UserName, "--text", "TEXT",
			"--client", "CLIENT"),
		RegisterLine: page.Command("ingot", "notifications", "register", "KIND", "--source", "NAME", "--description", "TEXT"),
	}
	call := c.Notifications(r, s)
	err := page.Together(
		func() (err error) {
			if d.Sources, err = sourcesOf(call); err == nil {
				err = addVolumes(call, d.Sources)
			}
			return err
		},
		func() (err error) {
			if s.Has(scopeTemplatesRead) {
				d.Templates, err = templatesOf(call)
			}
			return err
		},
	)
	if err != nil {
		return err
	}
	return c.showNotifications(w, r, s, http.StatusOK, "kinds.html", "Kinds", page.Page{Data: d})
}

// assigned reads the form that assigns a template: the field template.
func assigned(form url.Values) (any, error) {
	return map[string]string{"template": form.Get("template")}, nil
}

// registerKind is POST /console/notifications/kinds: it adds a kind of the console, with the fields
// id, description and critical. Registering replaces all kinds of a client, so those that exist
// are sent too.
func (c pages) registerKind(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	id, description := strings.TrimSpace(r.PostForm.Get("id")), strings.TrimSpace(r.PostForm.Get("description"))
	if id == "" || description == "" {
		return fault.New(fault.Unprocessable, "A kind needs an id and a description.")
	}
	call := c.Notifications(r, s)
	sources, err := sourcesOf(call)
	if err != nil {
		return err
	}
	body := map[string]any{"source_name": "Ingot", "notifications": registration(sources, id, description,
		r.PostForm.Get("critical") != "")}
	if err := call.Do(http.MethodPut, "/notifications", body, nil); err != nil {
		return err
	}
	return toNotifications(w, r, "", "kind")
}

// registration returns the kinds of the console with one more.
func registration(sources []source, id, description string, critical bool) map[string]any {
	all := map[string]any{}
	for _, k := range kindsOf(sources, page.ClientID) {
		all[k.ID] = map[string]any{"description": k.Description, "critical": k.Critical}
	}
	all[id] = map[string]any{"description": description, "critical": critical}
	return all
}

// kindsOf returns the kinds of a client.
func kindsOf(sources []source, client string) []kind {
	for _, src := range sources {
		if src.ID == client {
			return src.Kinds
		}
	}
	return nil
}
