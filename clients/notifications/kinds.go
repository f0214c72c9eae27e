package notifications

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Registration is a client with its kinds.
type Registration struct {
	// Name is the client's name for users.
	Name  string          `json:"source_name"`
	Kinds map[string]Kind `json:"notifications,omitempty"`
}

// Kind is a kind of notification.
type Kind struct {
	Description string `json:"description"`
	// Critical kinds are delivered to users who unsubscribed.
	Critical bool `json:"critical"`
}

// Register sets the client's kinds: others are deleted, unless Kinds is empty.
func (c *Client) Register(ctx context.Context, r Registration) error {
	return c.call(ctx, http.MethodPut, "/notifications", r, nil)
}

// SetSchema sets the JSON Schema that the data of a kind must match, or removes it with nil.
func (c *Client) SetSchema(ctx context.Context, kind string, schema json.RawMessage) error {
	if schema == nil {
		return c.call(ctx, http.MethodDelete, "/kinds/"+url.PathEscape(kind)+"/schema", nil, nil)
	}
	return c.call(ctx, http.MethodPut, "/kinds/"+url.PathEscape(kind)+"/schema", schema, nil)
}

// SetWorkflow sets how notifications of a kind travel, as JSON, or removes it with nil.
func (c *Client) SetWorkflow(ctx context.Context, kind string, workflow json.RawMessage) error {
	if workflow == nil {
		return c.call(ctx, http.MethodDelete, "/kinds/"+url.PathEscape(kind)+"/workflow", nil, nil)
	}
	return c.call(ctx, http.MethodPut, "/kinds/"+url.PathEscape(kind)+"/workflow", workflow, nil)
}

// Digest says how notifications of a kind are collected and sent as one message.
type Digest struct {
	// Window is how long they are collected, from the first one, such as "15m"; Max how many end the digest before that.
	Window string `json:"window"`
	Max    int    `json:"max,omitempty"`
	// Key is a field of the data: notifications with different values are in different digests.
	Key string `json:"key,omitempty"`
	// Channels are those whose messages are collected; none means all.
	Channels []string `json:"channels,omitempty"`
}

// SetDigest sets how notifications of a kind are collected, or delivers them one by one with nil.
func (c *Client) SetDigest(ctx context.Context, kind string, d *Digest) error {
	path := "/kinds/" + url.PathEscape(kind) + "/digest"
	if d == nil {
		return c.call(ctx, http.MethodDelete, path, nil, nil)
	}
	return c.call(ctx, http.MethodPut, path, d, nil)
}

// Throttle says how many notifications of a kind a recipient gets by a channel within any window.
type Throttle struct {
	Limit  int    `json:"limit"`
	Window string `json:"window"` // such as "1h"
	// Over says what becomes of others: "drop", the default, or "digest", which collects them in the kind's digest.
	Over string `json:"over,omitempty"`
	// Channels are those that are limited; none means all.
	Channels []string `json:"channels,omitempty"`
}

// SetThrottle limits how many notifications of a kind a recipient gets, or removes the limit with nil.
func (c *Client) SetThrottle(ctx context.Context, kind string, t *Throttle) error {
	path := "/kinds/" + url.PathEscape(kind) + "/throttle"
	if t == nil {
		return c.call(ctx, http.MethodDelete, path, nil, nil)
	}
	return c.call(ctx, http.MethodPut, path, t, nil)
}

// SetRetention sets how long messages of a kind are kept after they are final, such as "36h" or "90d"; with "" as long as
// the server keeps others.
func (c *Client) SetRetention(ctx context.Context, kind, kept string) error {
	path := "/kinds/" + url.PathEscape(kind) + "/retention"
	if kept == "" {
		return c.call(ctx, http.MethodDelete, path, nil, nil)
	}
	return c.call(ctx, http.MethodPut, path, map[string]string{"retention": kept}, nil)
}

// Template is the text of notifications.
type Template struct {
	Name     string          `json:"name"`
	Subject  string          `json:"subject,omitempty"`
	Text     string          `json:"text,omitempty"`
	HTML     string          `json:"html"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// CreateTemplate creates a template and returns its id.
func (c *Client) CreateTemplate(ctx context.Context, t Template) (id string, err error) {
	var made struct {
		ID string `json:"template-id"`
	}
	err = c.call(ctx, http.MethodPost, "/templates", t, &made)
	return made.ID, err
}

// Templates returns the names of all templates by id.
func (c *Client) Templates(ctx context.Context) (map[string]string, error) {
	var all map[string]struct{ Name string }
	if err := c.call(ctx, http.MethodGet, "/templates", nil, &all); err != nil {
		return nil, err
	}
	names := make(map[string]string, len(all))
	for id, t := range all {
		names[id] = t.Name
	}
	return names, nil
}

// Template returns a template.
func (c *Client) Template(ctx context.Context, id string) (Template, error) {
	var t Template
	err := c.call(ctx, http.MethodGet, "/templates/"+url.PathEscape(id), nil, &t)
	return t, err
}

// UpdateTemplate replaces a template.
func (c *Client) UpdateTemplate(ctx context.Context, id string, t Template) error {
	return c.call(ctx, http.MethodPut, "/templates/"+url.PathEscape(id), t, nil)
}

// DeleteTemplate deletes a template. What used it uses the default then.
func (c *Client) DeleteTemplate(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/templates/"+url.PathEscape(id), nil, nil)
}

// Variant is the text of a template in another language. Empty parts are those of the template.
type Variant struct {
	Subject string `json:"subject,omitempty"`
	Text    string `json:"text,omitempty"`
	HTML    string `json:"html,omitempty"`
}

// SetVariant sets the text of a template in a language, a BCP 47 tag such as de or pt-BR.
func (c *Client) SetVariant(ctx context.Context, template, locale string, v Variant) error {
	path := "/templates/" + url.PathEscape(template) + "/variants/" + url.PathEscape(locale)
	return c.call(ctx, http.MethodPut, path, v, nil)
}

// AssignTemplate gives a kind of a client a template. With an empty kind it is the template of all the client's kinds
// without one.
func (c *Client) AssignTemplate(ctx context.Context, client, kind, template string) error {
	path := "/clients/" + url.PathEscape(client)
	if kind != "" {
		path += "/notifications/" + url.PathEscape(kind)
	}
	return c.call(ctx, http.MethodPut, path+"/template", map[string]string{"template": template}, nil)
}
