package httpv2

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/mail"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/tracing"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

type audienceKey struct {
	key string
	as  notify.AudienceType
}

// audiences are the keys of send_to, in the order in which they are read: a
// recipient in several of them is attributed to the last.
var audiences = []audienceKey{{"users", notify.ToUser}, {"spaces", notify.ToSpace}, {"orgs", notify.ToOrg},
	{"emails", notify.ToEmail}}

type campaignRequest struct {
	SendTo         map[string]json.RawMessage `json:"send_to"`
	CampaignTypeID string                     `json:"campaign_type_id"`
	Text           string                     `json:"text"`
	HTML           string                     `json:"html"`
	Subject        string                     `json:"subject"`
	TemplateID     string                     `json:"template_id"`
	ReplyTo        string                     `json:"reply_to"`
}

// recipients decodes send_to.
func (c *campaignRequest) recipients() ([]notify.Audience, error) {
	for _, key := range slices.Sorted(maps.Keys(c.SendTo)) {
		if !slices.ContainsFunc(audiences, func(a audienceKey) bool { return a.key == key }) {
			return nil, fault.New(fault.Unprocessable, "%q is not a valid audience", key)
		}
	}
	var out []notify.Audience
	for _, a := range audiences {
		raw, given := c.SendTo[a.key]
		if !given {
			continue
		}
		var ids []string
		if err := json.Unmarshal(raw, &ids); err != nil {
			return nil, fault.Wrap(err, fault.MessageParse, invalidJSON)
		}
		for _, id := range ids {
			if a.as == notify.ToEmail && !isAddress(id) {
				return nil, fault.New(fault.Unprocessable, "%q is not a valid email address", id)
			}
			out = append(out, notify.Audience{Type: a.as, ID: id})
		}
	}
	return out, nil
}

// isAddress reports whether text is a bare address.
func isAddress(text string) bool {
	parsed, err := mail.ParseAddress(text)
	return err == nil && parsed.Address == text
}

func (f *handlers) createCampaign(w http.ResponseWriter, r *http.Request) error {
	var body campaignRequest
	raw, err := read(w, r, &body, invalidJSON)
	if err != nil {
		return err
	}
	to, err := body.recipients()
	if err != nil {
		return err
	}
	switch {
	case len(to) == 0:
		return fault.New(fault.Unprocessable, `missing send_to: name at least one of "users", "spaces", "orgs" or "emails"`)
	case body.CampaignTypeID == "":
		return fault.New(fault.Unprocessable, "missing campaign_type_id")
	case strings.TrimSpace(body.Text) == "" && strings.TrimSpace(body.HTML) == "":
		return fault.New(fault.Unprocessable, "missing either campaign text or html")
	case body.Subject == "":
		return fault.New(fault.Unprocessable, "missing subject")
	}
	sender, err := f.sender(r)
	if err != nil {
		return err
	}
	t, err := f.Store.CampaignType(r.Context(), body.CampaignTypeID)
	if err == nil && t.SenderID != sender.ID {
		err = notify.ErrNotFound
	}
	if err != nil {
		return missing(err, "Campaign type", body.CampaignTypeID)
	}
	look, err := f.findTemplate(r, cmp.Or(body.TemplateID, t.TemplateID, notify.DefaultTemplate))
	if err != nil {
		return err
	}
	receipt, err := f.Service.Send(r.Context(), actions.Request{
		Client: sender.ClientID, MayCritical: mayCritical(r), Campaign: &t, Template: look.ID, Audiences: to,
		Content:   notify.Content{Subject: body.Subject, Text: body.Text, HTML: body.HTML, ReplyTo: body.ReplyTo},
		RequestID: r.Header.Get(web.RequestIDHeader), Trace: tracing.Traceparent(r.Context()),
		IdempotencyKey: r.Header.Get("Idempotency-Key"), Hash: actions.RequestHash(r.Method, r.URL.Path, raw),
		Async: true,
	})
	for name, value := range f.Service.RateLimit(sender.ClientID).Headers() {
		w.Header().Set(name, value)
	}
	if err != nil {
		return err
	}
	if receipt.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	return web.Answer(w, http.StatusAccepted, f.presentCampaign(receipt.Send), nil)
}

type campaignBody struct {
	ID             string              `json:"id"`
	SendTo         map[string][]string `json:"send_to"`
	CampaignTypeID string              `json:"campaign_type_id"`
	Text           string              `json:"text"`
	HTML           string              `json:"html"`
	Subject        string              `json:"subject"`
	TemplateID     string              `json:"template_id"`
	ReplyTo        string              `json:"reply_to"`
	Links          links               `json:"_links"`
}

func (f *handlers) presentCampaign(s notify.Send) campaignBody {
	id, look := f.Service.IDs().Send(s.Number), shownID(s.TemplateID)
	to := map[string][]string{}
	for _, known := range audiences {
		for _, a := range s.Audiences {
			if a.Type == known.as {
				to[known.key] = append(to[known.key], a.ID)
			}
		}
	}
	self := "/campaigns/" + id
	return campaignBody{
		id, to, s.CampaignTypeID, s.Content.Text, s.Content.HTML, s.Content.Subject, look, s.Content.ReplyTo,
		linksOf("self", self, "template", "/templates/"+look, "campaign_type", "/campaign_types/"+s.CampaignTypeID, "status",
			self+"/status"),
	}
}

// campaign returns the caller's campaign of the path. Deleting a sender deletes
// its campaigns too.
func (f *handlers) campaign(r *http.Request) (notify.Send, error) {
	id := web.Param(r, "campaign")
	number, ok := f.Service.IDs().SendNumber(id)
	if !ok {
		return notify.Send{}, missing(notify.ErrNotFound, "Campaign", id)
	}
	s, err := f.Store.Send(r.Context(), number)
	if err = owned(err, s.ClientID, caller(r).ClientID); err == nil && s.CampaignTypeID == "" {
		err = notify.ErrNotFound
	}
	if err == nil {
		_, err = f.Store.Sender(r.Context(), s.SenderID)
	}
	return s, missing(err, "Campaign", id)
}

func (f *handlers) campaignStatus(w http.ResponseWriter, r *http.Request) error {
	s, err := f.campaign(r)
	if err != nil {
		return err
	}
	id, c := f.Service.IDs().Send(s.Number), s.Counts
	out := struct {
		ID            string     `json:"id"`
		Status        string     `json:"status"`
		Total         int        `json:"total_messages"`
		Sent          int        `json:"sent_messages"`
		Retry         int        `json:"retry_messages"`
		Failed        int        `json:"failed_messages"`
		Queued        int        `json:"queued_messages"`
		Undeliverable int        `json:"undeliverable_messages"`
		Started       time.Time  `json:"start_time"`
		Completed     *time.Time `json:"completed_time"`
		Links         links      `json:"_links"`
	}{
		id, "sending", c.Total, c.Delivered + c.Unsubscribed + c.Skipped + c.Throttled, c.Retry, c.Failed, c.Queued,
		c.Undeliverable + c.Canceled, s.Received, nil,
		linksOf("self", "/campaigns/"+id+"/status", "campaign", "/campaigns/"+id),
	}
	if s.Expanded && c.Done() >= c.Total {
		at := s.Finished
		if at.IsZero() {
			at = s.Received // the audience was empty
		}
		out.Status, out.Completed = "completed", &at
	}
	return web.Answer(w, http.StatusOK, out, nil)
}
