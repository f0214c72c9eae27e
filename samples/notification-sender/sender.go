package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// message is a message to send.
type message struct {
	To, Subject, Text, HTML, ReplyTo string
}

// audiences are the API paths, by the part of the recipient before the colon.
var audiences = map[string]string{"user": "/users/", "space": "/spaces/", "org": "/organizations/",
	"scope": "/uaa_scopes/"}

// request returns the API path and the body for the message. Recipients are part
// of the path, except for an address, which is a field.
func (m message) request(kind string) (path string, body map[string]string, err error) {
	if strings.TrimSpace(m.Text) == "" && strings.TrimSpace(m.HTML) == "" {
		return "", nil, errors.New("the message has no text: use --text")
	}
	body = map[string]string{"kind_id": kind, "subject": m.Subject, "text": m.Text}
	for name, value := range map[string]string{"html": m.HTML, "reply_to": m.ReplyTo} {
		if value != "" {
			body[name] = value
		}
	}
	if m.To == "everyone" {
		return "/everyone", body, nil
	}
	what, who, _ := strings.Cut(m.To, ":")
	switch base := audiences[what]; {
	case who == "":
	case what == "email":
		body["to"] = who
		return "/emails", body, nil
	case base != "":
		return base + url.PathEscape(who), body, nil
	}
	return "", nil,
		fmt.Errorf("%q is not a valid recipient: use everyone, user:GUID, space:GUID, org:GUID, scope:NAME or email:ADDRESS",
			m.To)
}

// sender is a client of the notification service.
type sender struct {
	*settings
	client *http.Client
}

func newSender(c *settings) *sender {
	return &sender{c, &http.Client{Transport: &http.Transport{IdleConnTimeout: time.Minute}, Timeout: 30 * time.Second}}
}

// send performs all steps of sending and describes them. It can be repeated: a
// kind is registered again, and an existing template is used.
func (s *sender) send(ctx context.Context, m message) (steps []string, err error) {
	path, body, err := m.request(s.kind)
	if err != nil {
		return nil, err
	}
	did := func(format string, args ...any) { steps = append(steps, fmt.Sprintf(format, args...)) }

	token, err := s.token(ctx)
	if err != nil {
		return steps, err
	}
	did("Got a token for the client %s", s.clientID)

	registration := map[string]any{"source_name": s.source, "notifications": map[string]any{
		s.kind: map[string]any{"description": "News of the sample app", "critical": false},
	}}
	if err := s.call(ctx, token, http.MethodPut, "/notifications", registration, nil); err != nil {
		return steps, fmt.Errorf("the kind %s is not registered: %w", s.kind, err)
	}
	did("Registered the kind %s of %q", s.kind, s.source)

	template, made, err := s.template(ctx, token)
	if err != nil {
		return steps, fmt.Errorf("no template: %w", err)
	}
	if made {
		did("Created the template %s", template)
	} else {
		did("Found the template %s", template)
	}
	association := "/clients/" + url.PathEscape(s.clientID) + "/notifications/" + url.PathEscape(s.kind) + "/template"
	if err := s.call(ctx, token, http.MethodPut, association, map[string]string{"template": template}, nil); err != nil {
		return steps, fmt.Errorf("the template is not associated with the kind: %w", err)
	}
	did("Associated the template with the kind")

	var sent []struct {
		Status, Recipient string
		ID                string `json:"notification_id"`
	}
	if err := s.call(ctx, token, http.MethodPost, path, body, &sent); err != nil {
		return steps, fmt.Errorf("the notification is not sent: %w", err)
	}
	noun := "notifications"
	if len(sent) == 1 {
		noun = "notification"
	}
	did("Sent to %s: %d %s", m.To, len(sent), noun)
	for i, n := range sent {
		if i == 20 {
			did("  and %d more", len(sent)-i)
			break
		}
		did("  %s %s %s", n.ID, n.Status, n.Recipient)
	}
	return steps, nil
}

// template returns the id of the template, and whether it was just created.
func (s *sender) template(ctx context.Context, token string) (id string, made bool, err error) {
	var all map[string]struct{ Name string }
	if err := s.call(ctx, token, http.MethodGet, "/templates", nil, &all); err != nil {
		return "", false, err
	}
	for id, t := range all {
		if t.Name == defaultTemplate {
			return id, false, nil
		}
	}
	var created struct {
		ID string `json:"template-id"`
	}
	err = s.call(ctx, token, http.MethodPost, "/templates", map[string]string{
		"name": defaultTemplate, "subject": "[sample] {{.Subject}}",
		"text": "{{.Text}}\n\n-- \nSent by the sample app notification-sender.\n",
		"html": "<div>{{.HTML}}</div><hr><p>Sent by the sample app <em>notification-sender</em>.</p>",
	}, &created)
	if err == nil && created.ID == "" {
		err = errors.New("the service does not say which template it made")
	}
	return created.ID, true, err
}

// token requests a token with the client credentials grant.
func (s *sender) token(ctx context.Context) (string, error) {
	// Send the credentials in the form, because servers differ in how they decode
	// special characters in the header.
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {s.clientID}, "client_secret": {s.secret}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.auth+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var got struct {
		Token string `json:"access_token"`
	}
	err = s.do(r, &got)
	if err == nil && got.Token == "" {
		err = errors.New("the answer has none")
	}
	if err != nil {
		return "", fmt.Errorf("no token for the client %s: %w", s.clientID, err)
	}
	return got.Token, nil
}

// call calls the notification service.
func (s *sender) call(ctx context.Context, token, method, path string, body, into any) error {
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.notifications+path, content)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-NOTIFICATIONS-VERSION", "1")
	return s.do(r, into)
}

// do sends a request and decodes the response. The service's error message
// becomes the error.
func (s *sender) do(r *http.Request, into any) error {
	answer, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	const largest = 16 << 20
	text, err := io.ReadAll(io.LimitReader(answer.Body, largest))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: the answer breaks off: %w", r.Method, r.URL.Path, err)
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return fmt.Errorf("%s %s answers %s: %.500s", r.Method, r.URL.Path, answer.Status, bytes.TrimSpace(text))
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %s: the answer is not what was expected: %w", r.Method, r.URL.Path, err)
	}
	return nil
}
