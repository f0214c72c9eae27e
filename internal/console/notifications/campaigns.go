package notifications

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/console/page"
)

// secondVersion selects the API with senders, campaign types and campaigns.
var secondVersion = map[string]string{"X-NOTIFICATIONS-VERSION": "2"}

// secondAuth are the headers of a command that uses it.
const secondAuth = ` -H "$A" -H 'X-NOTIFICATIONS-VERSION: 2'`

// sender is the sender of campaigns.
type sender struct {
	ID    string
	Name  string
	Types []campaignType `json:"-"`
}

type campaignType struct {
	ID          string
	Name        string
	Description string
	Critical    bool
	TemplateID  string `json:"template_id"`
	Key         string `json:"-"` // in the form of a message
}

// Template returns the id of the type's template on the pages of the console.
func (t campaignType) Template() string {
	return campaignPrefix + cmp.Or(t.TemplateID, defaultTemplate)
}

// campaignPrefix begins the kind of a message that is a campaign: it is followed by the ids of its
// sender and its type.
const campaignPrefix = "campaign:"

// sendersOf returns the senders of the console with their campaign types.
func sendersOf(c *page.Caller) ([]sender, error) {
	var answer struct{ Senders []sender }
	if err := c.With(secondVersion, http.MethodGet, "/senders", nil, &answer); err != nil {
		return nil, err
	}
	for i := range answer.Senders {
		s := &answer.Senders[i]
		var types struct {
			Types []campaignType `json:"campaign_types"`
		}
		if err := c.With(secondVersion, http.MethodGet, "/senders/"+url.PathEscape(s.ID)+"/campaign_types", nil,
			&types); err != nil && !page.Gone(err) {
			return nil, err
		}
		s.Types = types.Types
		for j := range s.Types {
			s.Types[j].Key = campaignPrefix + s.ID + "/" + s.Types[j].ID
		}
	}
	return answer.Senders, nil
}

// campaign returns the ids of the sender and the type of a message that is a campaign.
func (m *message) campaign() (senderID, typeID string, ok bool) {
	ids, ok := strings.CutPrefix(m.Kind, campaignPrefix)
	senderID, typeID, _ = strings.Cut(ids, "/")
	return senderID, typeID, ok
}

// checkCampaign returns an error for what a campaign cannot do.
func (m *message) checkCampaign() error {
	switch {
	case m.To == toEveryone || m.To == toScope || m.Role != "" && m.To == toOrg:
		return fault.New(fault.Unprocessable,
			"A campaign is sent to a user, a space, an organization or an address. Choose a kind to send to everyone, a scope "+
				"or a role.")
	case m.Subject == "":
		return fault.New(fault.Unprocessable, "A campaign needs a subject.")
	}
	return nil
}

// campaignBody returns the body of a campaign.
func (m *message) campaignBody(typeID string) map[string]any {
	key := map[string]string{toUser: "users", toSpace: "spaces", toOrg: "orgs", toEmail: "emails"}[m.To]
	return map[string]any{
		"send_to": map[string][]string{key: {m.id()}}, "campaign_type_id": typeID,
		"subject": m.Subject, "text": m.Text, "html": m.HTML, "reply_to": m.ReplyTo,
	}
}

type campaignsData struct {
	Senders     []sender
	Templates   []templateRow
	MayCritical bool
	// Curl is a command that lists senders; Create and Delete change them. Assign changes the
	// template of a campaign type.
	Curl, Create, Delete, Assign string
}

// campaigns is GET /console/notifications/campaigns: the senders and campaign types of the console.
func (c pages) campaigns(r *http.Request, s *page.Session) (any, error) {
	d := &campaignsData{
		MayCritical: s.Has(scopeCritical), Curl: `curl "$N/senders"` + secondAuth,
		Create: `curl "$N/senders"` + secondAuth + ` -d '{"name": "NAME"}'`,
		Delete: `curl -X DELETE "$N/senders/ID"` + secondAuth,
		Assign: `curl -X PUT "$N/campaign_types/ID"` + secondAuth + ` -d '{"template_id": "ID"}'`,
	}
	call := c.Notifications(r, s)
	var err error
	if d.Senders, err = sendersOf(call); err != nil {
		return nil, err
	}
	if d.Templates, err = campaignTemplates(call); err != nil {
		return nil, err
	}
	return d, nil
}

// senderOf reads the form of a sender: the field name.
func senderOf(form url.Values) (any, error) {
	return map[string]string{"name": strings.TrimSpace(form.Get("name"))}, nil
}

// typeOf reads the form of a campaign type: the fields name, description and critical.
func typeOf(form url.Values) (any, error) {
	return map[string]any{
		"name": strings.TrimSpace(form.Get("name")), "description": strings.TrimSpace(form.Get("description")),
		"critical": form.Get("critical") != "",
	}, nil
}

// templateOfType reads the form with the template of a campaign type: the field template.
func templateOfType(form url.Values) (any, error) {
	id, _ := ofCampaigns(form.Get("template"))
	if id == defaultTemplate {
		id = "" // it belongs to no client
	}
	return map[string]string{"template_id": id}, nil
}
