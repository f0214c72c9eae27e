package httpv1

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/tracing"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// testContent is the content of a test; the caller may give another one.
var testContent = notify.Content{
	Subject: "Test",
	Text:    "This is a test. You asked for it yourself.",
	HTML:    "<p>This is a <b>test</b>. You asked for it yourself.</p>",
}

// testTemplate sends a message with a template to the caller's own address. It
// has no kind, so that it needs none and no subscription stops it.
func (f *handlers) testTemplate(w http.ResponseWriter, r *http.Request) error {
	t, err := f.findTemplate(r)
	if err != nil {
		return err
	}
	user, err := ownUser(r)
	if err != nil {
		return err
	}
	clientID, err := clientOf(r)
	if err != nil {
		return err
	}
	email, err := f.Service.AddressOf(r.Context(), user)
	if err != nil {
		return err
	}
	if email == "" {
		return fault.New(fault.Unprocessable, "You have no email address, so no test can be sent to you.")
	}
	return f.test(w, r, actions.Request{Client: clientID, Template: t.ID,
		Audiences: []notify.Audience{{Type: notify.ToEmail, ID: email}}})
}

// testKind sends a notification of any client's kind to the caller, as that
// client would: with the kind's template, if the caller subscribes to it.
func (f *handlers) testKind(w http.ResponseWriter, r *http.Request) error {
	user, err := ownUser(r)
	if err != nil {
		return err
	}
	ref := notify.KindRef{ClientID: web.Param(r, "client"), KindID: web.Param(r, "kind")}
	if _, err := f.Store.Kind(r.Context(), ref); err != nil {
		return missingKind(err, ref)
	}
	return f.test(w, r, actions.Request{
		Client: ref.ClientID, KindID: ref.KindID, MayCritical: caller(r).HasAny(scopeCritical),
		Audiences: []notify.Audience{{Type: notify.ToUser, ID: user}},
	})
}

// test sends a request with the content of the body, or of a sample.
func (f *handlers) test(w http.ResponseWriter, r *http.Request, request actions.Request) error {
	raw, err := readBody(r)
	if err != nil {
		return err
	}
	var body struct {
		Subject string `json:"subject"`
		Text    string `json:"text"`
		HTML    string `json:"html"`
	}
	if len(raw) > 0 {
		web.WarnUnknown(w, actions.WarningsHeader, raw, body)
		if err := parse(raw, &body); err != nil {
			return err
		}
	}
	request.Content = testContent
	if body.Subject != "" {
		request.Content.Subject = body.Subject
	}
	if body.Text != "" || body.HTML != "" {
		request.Content.Text, request.Content.HTML = body.Text, body.HTML
	}
	request.RequestID, request.Trace = r.Header.Get(web.RequestIDHeader), tracing.Traceparent(r.Context())
	receipt, err := f.Service.Send(r.Context(), request)
	if err != nil {
		return err
	}
	return f.list(w, r, receipt.Send)
}
