package template

import (
	"encoding/json"
	"strconv"

	"ingot/internal/notify"
)

// Default is the template of everything that has no other, in the v1 API.
func Default() notify.Template {
	return notify.Template{
		ID: notify.DefaultTemplate, Name: "Default Template", Metadata: json.RawMessage(`{}`),
		Subject: "CF Notification: {{.Subject}}",
		Text:    "{{.Endorsement}}\n{{.Text}}",
		HTML:    "<p>{{.Endorsement}}</p>{{.HTML}}",
	}
}

// DefaultV2 is the same in the v2 API: nothing but what the caller gave.
func DefaultV2() notify.Template {
	return notify.Template{
		ID: notify.DefaultTemplateV2, Name: "Default Template", Metadata: json.RawMessage(`{}`),
		Subject: "{{.Subject}}", Text: "{{.Text}}", HTML: "{{.HTML}}",
	}
}

// Endorse says why a recipient gets a message. The two APIs quote names
// differently.
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

// sample fills what is missing with values of the usual shape.
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
		{&v.Scope, "sample.scope"},
		{&v.Endorsement, "This message was sent directly to you."},
		{&v.OrganizationRole, "OrgManager"},
		{&v.RequestReceived, "2006-01-02T15:04:05Z"},
		{&v.Domain, "example.org"},
	} {
		if *f.into == "" {
			*f.into = f.value
		}
	}
	return v
}
