package alerts

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
)

// Bearer returns tokens of the platform's own client.
type Bearer interface {
	Token(ctx context.Context) (string, error)
}

// Client is a Notifier over HTTP.
type Client struct {
	BaseURL string
	// ClientID is the OAuth client of the tokens.
	ClientID string
	Tokens   Bearer
	HTTP     *http.Client
}

// maxAnswer is enough for a list of ten thousand templates.
const maxAnswer = 4 << 20

// source names the platform in its messages.
const source = "The application platform"

// The template of the platform's messages: the messages themselves say why the recipient
// gets them.
const (
	templateName = "Ingot platform"
	templateText = "{{.Text}}{{if .UnsubscribeURL}}\nUnsubscribe: {{.UnsubscribeURL}}{{end}}"
	templateHTML = "{{.HTML}}"
)

// Register registers the platform's notification kinds and their template.
func (c *Client) Register(ctx context.Context, kinds map[string]string) error {
	entries := map[string]any{}
	for id, description := range kinds {
		entries[id] = map[string]any{"description": description, "critical": false}
	}
	if err := c.call(ctx, http.MethodPut, "/notifications", "", map[string]any{"source_name": source,
		"notifications": entries}, nil); err != nil {
		return err
	}
	id, err := c.template(ctx)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPut, "/clients/"+url.PathEscape(c.ClientID)+"/template", "",
		map[string]string{"template": id}, nil)
}

// template returns the id of the template, which it updates or creates.
func (c *Client) template(ctx context.Context) (string, error) {
	content := map[string]string{"name": templateName, "subject": "{{.Subject}}", "text": templateText,
		"html": templateHTML}
	var known map[string]struct{ Name string }
	if err := c.call(ctx, http.MethodGet, "/templates", "", nil, &known); err != nil {
		return "", err
	}
	for id, t := range known {
		if t.Name != templateName {
			continue
		}
		err := c.call(ctx, http.MethodPut, "/templates/"+url.PathEscape(id), "", content, nil)
		var refused *refusal
		if errors.As(err, &refused) && (refused.status == http.StatusForbidden || refused.status == http.StatusNotFound) {
			continue // another client's, or just deleted
		}
		return id, err
	}
	var created struct {
		ID string `json:"template-id"`
	}
	err := c.call(ctx, http.MethodPost, "/templates", "", content, &created)
	return created.ID, err
}

// Send notifies one user. A message that was already sent is not an error, even if its text
// differed.
func (c *Client) Send(ctx context.Context, m Message) error {
	err := c.call(ctx, http.MethodPost, "/users/"+url.PathEscape(m.UserGUID), m.Key,
		map[string]string{"kind_id": m.Kind, "subject": m.Subject, "text": m.Text}, nil)
	var refused *refusal
	if errors.As(err, &refused) && refused.status == http.StatusConflict {
		return nil
	}
	if refused != nil && refused.final() {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

type refusal struct {
	status int
	body   string
}

// final reports whether another attempt would have the same answer. That is not so for those
// that depend on the token, the load, or the set-up of the service.
func (r *refusal) final() bool {
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooEarly,
		http.StatusTooManyRequests:
		return false
	}
	return r.status >= 400 && r.status < 500
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the notification service answered %d: %s", r.status, r.body)
}

// call sends body, which may be nil, and decodes the response into answer unless that is
// nil.
func (c *Client) call(ctx context.Context, method, path, key string, body, answer any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	raw, err := c.Tokens.Token(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.BaseURL+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+raw)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		messages, _ := io.ReadAll(io.LimitReader(res.Body, 4096)) // part of a message
		return &refusal{res.StatusCode, strings.TrimSpace(string(messages))}
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(answer); err != nil {
		return fmt.Errorf("decode the notification service's response to %s %s: %w", method, path, err)
	}
	return nil
}
