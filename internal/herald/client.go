package herald

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
	Tokens  Bearer
	HTTP    *http.Client
}

// source is what the platform is called in the messages it sends.
const source = "The application platform"

// Register makes the platform's kinds known.
func (c *Client) Register(ctx context.Context, kinds map[string]string) error {
	entries := map[string]any{}
	for id, description := range kinds {
		entries[id] = map[string]any{"description": description, "critical": false}
	}
	return c.call(ctx, http.MethodPut, "/notifications", "", map[string]any{"source_name": source, "notifications": entries})
}

// Send tells one user. A message that was sent before is no error, whatever its
// words were then.
func (c *Client) Send(ctx context.Context, m Message) error {
	err := c.call(ctx, http.MethodPost, "/users/"+url.PathEscape(m.UserGUID), m.Key,
		map[string]string{"kind_id": m.Kind, "subject": m.Subject, "text": m.Text})
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

func (c *Client) call(ctx context.Context, method, path, key string, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
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
	answer, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
	if res.StatusCode >= 300 {
		return &refusal{res.StatusCode, strings.TrimSpace(string(answer))}
	}
	return nil
}
