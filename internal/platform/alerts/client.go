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

// Bearer gives out tokens of the platform's own client.
type Bearer interface {
	Token(ctx context.Context) (string, error)
}

// Client is a Notifier over HTTP.
type Client struct {
	BaseURL string
	// ClientID is the OAuth client that Tokens are of.
	ClientID string
	Tokens   Bearer
	HTTP     *http.Client
}

// maxAnswer is more than a list of ten thousand templates.
const maxAnswer = 4 << 20

// source is what the platform is called in the messages it sends.
const source = "The application platform"

// The template of the platform's messages: they say by themselves why somebody
// receives them.
const (
	templateName = "Ingot platform"
	templateText = "{{.Text}}{{if .UnsubscribeURL}}\nUnsubscribe: {{.UnsubscribeURL}}{{end}}"
	templateHTML = "{{.HTML}}"
)

// Register makes the platform's kinds and their template known.
func (c *Client) Register(ctx context.Context, kinds map[string]string) error {
	entries := map[string]any{}
	for id, description := range kinds {
		entries[id] = map[string]any{"description": description, "critical": false}
	}
	if err := c.call(ctx, http.MethodPut, "/notifications", "", map[string]any{"source_name": source, "notifications": entries}, nil); err != nil {
		return err
	}
	id, err := c.template(ctx)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPut, "/clients/"+url.PathEscape(c.ClientID)+"/template", "", map[string]string{"template": id}, nil)
}

// template returns the id of the template, which is brought up to date or
// created.
func (c *Client) template(ctx context.Context) (string, error) {
	content := map[string]string{"name": templateName, "subject": "{{.Subject}}", "text": templateText, "html": templateHTML}
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

// Send tells one user. A message that was sent before is no error, whatever its
// words were then.
func (c *Client) Send(ctx context.Context, m Message) error {
	err := c.call(ctx, http.MethodPost, "/users/"+url.PathEscape(m.UserGUID), m.Key,
		map[string]string{"kind_id": m.Kind, "subject": m.Subject, "text": m.Text}, nil)
	var refused *refusal
	if errors.As(err, &refused) && refused.status == http.StatusConflict {
		return nil
	}
	return err
}

type refusal struct {
	status int
	body   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the notification service answered %d: %s", r.status, r.body)
}

// call sends body, which may be nil, and reads the answer into answer unless
// that is nil.
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
		said, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		return &refusal{res.StatusCode, strings.TrimSpace(string(said))}
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(answer); err != nil {
		return fmt.Errorf("read the notification service's answer to %s %s: %w", method, path, err)
	}
	return nil
}
