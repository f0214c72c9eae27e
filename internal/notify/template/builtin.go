package template

import (
	"encoding/json"
	"strconv"
	"time"

	"ingot/internal/notify"
)

// FooterText and FooterHTML end the default template: a link to unsubscribe, for
// recipients who can. Critical messages have none.
const (
	FooterText = "{{if .UnsubscribeURL}}\n\n-- \nUnsubscribe: {{.UnsubscribeURL}}{{end}}"
	FooterHTML = `{{if .UnsubscribeURL}}<p style="color:#5a626d;font-size:smaller">-- <br><a href="{{.UnsubscribeURL}}">Unsubscribe</a></p>{{end}}`
)

// Default is the template of everything that has no other, in the v1 API.
func Default() notify.Template {
	return notify.Template{
		ID: notify.DefaultTemplate, Name: "Default Template", Metadata: json.RawMessage(`{}`),
		Subject: "CF Notification: {{.Subject}}",
		Text:    "{{.Endorsement}}\n{{.Text}}" + FooterText,
		HTML:    "<p>{{.Endorsement}}</p>{{.HTML}}" + FooterHTML,
	}
}

// DefaultV2 is the default template of the v2 API: only the caller's content.
func DefaultV2() notify.Template {
	return notify.Template{
		ID: notify.DefaultTemplateV2, Name: "The Default Template", Metadata: json.RawMessage(`{}`),
		Subject: "{{.Subject}}", Text: "{{.Text}}", HTML: "{{.HTML}}",
	}
}

// Endorse returns the sentence that says why a recipient gets a message. The two
// APIs quote names differently.
func Endorse(a notify.Audience, v2 bool) string {
	quote := func(s string) string { return `"` + s + `"` }
	org := quote(a.OrgName)
	if v2 {
		quote, org = strconv.Quote, a.OrgName
	}
	const because = "You received this message because you "
	switch a.Type {
	case notify.ToUser:
		return "This message was sent directly to you."
	case notify.ToEmail:
		return "This message was sent directly to your email address."
	case notify.ToEveryone:
		return "This message was sent to everyone."
	case notify.ToScope:
		return because + "have the " + a.ID + " scope."
	case notify.ToTopic:
		return because + "are subscribed to the topic " + quote(a.ID) + "."
	case notify.ToSpace:
		return because + "belong to the " + quote(a.SpaceName) + " space in the " + quote(a.OrgName) + " organization."
	case notify.ToOrg:
		if a.Role != "" {
			return because + "are an " + a.Role + " in the " + org + " organization."
		}
		return because + "belong to the " + org + " organization."
	}
	return ""
}

// sample fills missing values with samples.
func sample(v Values) Values {
	for _, f := range []struct {
		into  *string
		value string
	}{
		{&v.From, "no-reply@example.org"},
		{&v.ReplyTo, "support@example.org"},
		{&v.To, "user@example.org"},
		{&v.Subject, "Sample subject"},
		{&v.Text, "This is the text of a sample message."},
		{&v.HTML, "<p>This is the <b>HTML</b> of a sample message.</p>"},
		{&v.KindDescription, "Sample notification"},
		{&v.SourceDescription, "Sample source"},
		{&v.UserGUID, "00000000-0000-4000-8000-000000000001"},
		{&v.ClientID, "sample-client"},
		{&v.MessageID, "00000000-0000-4000-8000-000000000002"},
		{&v.Space, "sample-space"},
		{&v.SpaceGUID, "00000000-0000-4000-8000-000000000003"},
		{&v.Organization, "sample-organization"},
		{&v.OrganizationGUID, "00000000-0000-4000-8000-000000000004"},
		{&v.UnsubscribeID, "c2FtcGxl"},
		{&v.UnsubscribeURL, "https://notifications.example.org/unsubscribe/c2FtcGxl"},
		{&v.Scope, "sample.scope"},
		{&v.Endorsement, "This message was sent directly to you."},
		{&v.OrganizationRole, "OrgManager"},
		{&v.Domain, "example.org"},
	} {
		if *f.into == "" {
			*f.into = f.value
		}
	}
	if v.RequestReceived.IsZero() {
		v.RequestReceived = time.Date(2006, time.January, 2, 15, 4, 5, 0, time.UTC)
	}
	if v.Digest == nil {
		v.Digest = sampleDigest()
	}
	return v
}

func sampleDigest() map[string]any {
	item := func(subject string) any {
		return map[string]any{"Subject": subject, "Text": "This is the text of a sample message.",
			"At": "2006-01-02T15:04:05Z", "Data": map[string]any{}}
	}
	return map[string]any{"Count": json.Number("2"), "More": json.Number("0"),
		"Items": []any{item("Sample subject"), item("Another subject")}}
}
