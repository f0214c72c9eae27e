package notifications

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// provider is a service that delivers text messages, or push notifications to devices.
type provider struct {
	Name     string          `json:"name"`
	Channel  string          `json:"channel"`
	Service  string          `json:"service"` // whose tokens it takes, for devices
	Shared   bool            `json:"shared"`
	URL      string          `json:"url"`
	Weight   int             `json:"weight"`
	Disabled bool            `json:"disabled"`
	Secrets  []string        `json:"secrets"` // their names
	Health   *providerHealth `json:"health"`
	// Turn says when messages go to it.
	Turn string `json:"-"`
}

// providerHealth is the circuit breaker of a provider on the server that answers.
type providerHealth struct {
	State    string     `json:"state"`
	Failures int        `json:"failures"`
	Reason   string     `json:"reason"`
	Until    *time.Time `json:"until"`
}

// Link returns the address of the provider's page.
func (p provider) Link() string {
	return ofOwner(notificationsPath+"/providers/"+url.PathEscape(p.Name), p.Shared)
}

// Known reports whether the user sees more of it than its name.
func (p provider) Known() bool { return p.URL != "" }

// turns are the providers among which messages are shared: a text message, or a device of one service, has one of them.
type turns struct {
	shared           bool
	channel, service string
}

func (p provider) turns() turns { return turns{p.Shared, p.Channel, p.Service} }

// inTurn sorts providers as messages go to them: the console's before the shared ones, those that take over from each
// other together, by weight, reserves last.
func inTurn(list []provider) {
	total := map[turns]int{}
	for _, p := range list {
		if !p.Disabled {
			total[p.turns()] += p.Weight
		}
	}
	number := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b provider) int {
		return cmp.Or(number(a.Shared)-number(b.Shared), -cmp.Compare(a.Channel, b.Channel), // text messages first
			cmp.Compare(a.Service, b.Service), number(a.Disabled)-number(b.Disabled), b.Weight-a.Weight)
	})
	for i := range list {
		switch p := &list[i]; {
		case !p.Known():
		case p.Disabled:
			p.Turn = "none: switched off"
		case p.Weight == 0:
			p.Turn = "reserve, after the others"
		default:
			all := total[p.turns()]
			p.Turn = fmt.Sprintf("first for %d %%", (100*p.Weight+all/2)/all)
		}
	}
}

type providersData struct {
	Providers []provider
	Command   string
}

// providers is GET /console/notifications/providers: those of the console, and those that deliver for all clients.
func (c pages) providers(r *http.Request, s *page.Session) (any, error) {
	var answer struct{ Providers []provider }
	if err := need(s, providerScopes...); err != nil {
		return nil, err
	}
	err := c.Notifications(r, s).Get(&answer, "/providers", nil)
	inTurn(answer.Providers)
	return &providersData{answer.Providers, page.Command("ingot", "notifications", "providers", "--set", "NAME",
		"--definition", "@provider.json", "--secret", "NAME=@FILE")}, err
}

// secret is a field for the value of a secret, which is never shown.
type secret struct{ Name string }

type providerData struct {
	provider
	New             bool
	WeightText      string
	Definition      string
	MayShare        bool
	Command, Delete string
}

// Fields returns the fields of the secrets: those that it has, and empty ones.
func (d *providerData) Fields() []secret {
	const empty = 2
	var all []secret
	for _, name := range d.Secrets {
		all = append(all, secret{name})
	}
	return append(all, make([]secret, empty)...)
}

// exampleDefinition is what the form of a new provider begins with.
const exampleDefinition = `{
  "channel": "sms",
  "url": "https://sms.example.com/messages",
  "headers": {"Authorization": "Bearer {{secret \"token\"}}"},
  "json": {"to": "{{phone}}", "text": "{{text}}", "reference": "{{id}}"}
}`

// newProvider is GET /console/notifications/new-provider.
func (c pages) newProvider(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	d := &providerData{New: true, WeightText: "1", Definition: exampleDefinition}
	d.Shared, d.Secrets = s.Has(scopeNotifyAdmin), []string{"token"}
	return c.showProvider(w, r, s, http.StatusOK, "", d)
}

// provider is GET /console/notifications/providers/NAME; with ?shared=true the one of all clients.
func (c pages) provider(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	d, err := c.loadProvider(r, s, r.URL.Query().Get("shared") != "")
	if err != nil {
		return err
	}
	return c.showProvider(w, r, s, http.StatusOK, "", d)
}

// withField are the members of a definition that have a field of their own, or that the service adds. The channel is
// none: without it, a provider of push notifications would be saved as one of text messages.
var withField = []string{"name", "shared", "weight", "disabled", "secrets", "health", "created_at", "updated_at"}

// loadProvider returns the provider of the path.
func (c pages) loadProvider(r *http.Request, s *page.Session, shared bool) (*providerData, error) {
	var raw json.RawMessage
	err := c.Notifications(r, s).Get(&raw, providerPath(web.Param(r, "provider"), shared), nil)
	if err != nil {
		return nil, err
	}
	d := &providerData{}
	if err := json.Unmarshal(raw, &d.provider); err != nil {
		return nil, err
	}
	d.WeightText = strconv.Itoa(d.Weight)
	d.Definition, err = definitionText(raw)
	return d, err
}

func providerPath(name string, shared bool) string {
	return ofOwner("/providers/"+url.PathEscape(name), shared)
}

// definitionText returns a definition without what has a field of its own.
func definitionText(raw []byte) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return "", err
	}
	for _, name := range withField {
		delete(members, name)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(members)
	return strings.TrimSpace(b.String()), err
}

func (c pages) showProvider(w http.ResponseWriter, r *http.Request, s *page.Session, status int, problem string,
	d *providerData) error {
	if err := need(s, providerScopes...); err != nil {
		return err
	}
	d.MayShare = s.Has(scopeNotifyAdmin)
	title, name := "Provider "+d.Name, d.Name
	if d.New {
		title, name = "New provider", "NAME"
	}
	set := []string{"ingot", "notifications", "providers", "--set", name, "--definition", "@provider.json", "--secret",
		"NAME=@FILE"}
	remove := []string{"ingot", "notifications", "providers", "--delete", name}
	if d.Shared {
		set, remove = append(set, "--shared"), append(remove, "--shared")
	}
	d.Command, d.Delete = page.Command(set...), page.Command(remove...)
	return c.showNotifications(w, r, s, status, "provider.html", "Providers",
		page.Page{Title: title, Data: d, Problem: problem})
}

// saveProvider is POST /console/notifications/providers/save for a new provider, and
// /console/notifications/providers/NAME/save for another one. The service checks it; an error is shown in the form,
// which keeps what was written except for secrets.
func (c pages) saveProvider(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	f := r.PostForm
	d := &providerData{New: web.Param(r, "provider") == "", Definition: unix(f.Get("definition")),
		WeightText: strings.TrimSpace(f.Get("weight"))}
	d.Name, d.Shared, d.Disabled = web.Param(r, "provider"), f.Get("shared") != "", f.Get("disabled") != ""
	if d.New {
		d.Name = strings.TrimSpace(f.Get("name"))
	}
	body, err := definitionOf(f)
	if err == nil && d.New {
		err = c.unusedProvider(r, s, d)
	}
	if err == nil {
		err = c.Notifications(r, s).Do(http.MethodPut, providerPath(d.Name, d.Shared), body, nil)
	}
	if err == nil {
		http.Redirect(w, r, said(d.Link(), "provider"), http.StatusSeeOther)
		return nil
	}
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	for _, name := range f["secret_name"] {
		if name = strings.TrimSpace(name); name != "" {
			d.Secrets = append(d.Secrets, name)
		}
	}
	if without, err := definitionText([]byte(d.Definition)); err == nil && strings.Contains(d.Definition, `"secrets"`) {
		d.Definition = without // values of secrets are not shown again
	}
	return c.showProvider(w, r, s, status, text+" Values of secrets were not kept: enter them again.", d)
}

// unusedProvider returns an error if a provider has the name of a new one, which would replace it.
func (c pages) unusedProvider(r *http.Request, s *page.Session, d *providerData) error {
	if d.Name == "" {
		return fault.New(fault.Unprocessable, "The provider needs a name.")
	}
	err := c.Notifications(r, s).Get(&provider{}, providerPath(d.Name, d.Shared), nil)
	switch {
	case page.Gone(err):
		return nil
	case err != nil:
		return err
	}
	return fault.New(fault.Conflict, "There is a provider %s already. Open it to change it.", d.Name)
}

// definitionOf reads the form of a provider: what the API wants.
func definitionOf(f url.Values) (map[string]any, error) {
	var members map[string]json.RawMessage // the order in a body stays
	if err := json.Unmarshal([]byte(f.Get("definition")), &members); err != nil || members == nil {
		return nil, fault.New(fault.Unprocessable, "The definition is not an object in JSON.")
	}
	body := map[string]any{"channel": "sms"}
	for name, value := range members {
		body[name] = value
	}
	for _, name := range []string{"name", "weight", "disabled", "secrets"} {
		if _, has := body[name]; has {
			return nil, fault.New(fault.Unprocessable, "The definition has %q, which has its own field.", name)
		}
	}
	weight, err := strconv.Atoi(strings.TrimSpace(f.Get("weight")))
	if err != nil {
		return nil, fault.New(fault.Unprocessable, "The weight is a number from 0 to 1000.")
	}
	secrets := map[string]string{}
	names, values := f["secret_name"], f["secret_value"]
	for i := range min(len(names), len(values)) {
		name, value := strings.TrimSpace(names[i]), strings.TrimSpace(unix(values[i])) // a key has several lines
		switch {
		case value == "": // it keeps its value
		case name == "":
			return nil, fault.New(fault.Unprocessable, "A secret needs the name that the definition has for it.")
		default:
			secrets[name] = value
		}
	}
	body["weight"], body["disabled"], body["secrets"] = weight, f.Get("disabled") != "", secrets
	return body, nil
}

// deleteProvider is POST /console/notifications/providers/NAME/delete, with the name in the field confirm.
func (c pages) deleteProvider(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	name, shared := web.Param(r, "provider"), r.PostForm.Get("shared") != ""
	err := page.Confirmed(r, name)
	if err == nil {
		err = c.Notifications(r, s).Do(http.MethodDelete, providerPath(name, shared), nil, nil)
	}
	if err == nil {
		return toNotifications(w, r, "/providers", "provider-deleted")
	}
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	d, err := c.loadProvider(r, s, shared)
	if err != nil {
		return err
	}
	return c.showProvider(w, r, s, status, text, d)
}
