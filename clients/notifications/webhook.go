package notifications

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Webhook is an address that is called with the final status of the client's messages.
type Webhook struct {
	ID     string   `json:"id"`
	URL    string   `json:"url"`
	Events []string `json:"events"`
	// Secret verifies calls. Only CreateWebhook returns it.
	Secret string `json:"secret"`
}

// CreateWebhook creates a webhook for events: delivered, failed, undeliverable, unsubscribed; none means all.
func (c *Client) CreateWebhook(ctx context.Context, address string, events ...string) (Webhook, error) {
	var w Webhook
	err := c.call(ctx, http.MethodPost, "/webhooks", struct {
		URL    string   `json:"url"`
		Events []string `json:"events,omitempty"`
	}{address, events}, &w)
	return w, err
}

// DeleteWebhook deletes a webhook and its pending calls.
func (c *Client) DeleteWebhook(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/webhooks/"+url.PathEscape(id), nil, nil)
}

// Event is a message that has its final status.
type Event struct {
	NotificationID string    `json:"notification_id"`
	SendID         string    `json:"send_id"`
	Status         string    `json:"status"`
	ClientID       string    `json:"client_id"`
	KindID         string    `json:"kind_id"`
	Recipient      string    `json:"recipient"`
	Attempts       int       `json:"attempts"`
	Reason         string    `json:"reason"`
	UpdatedAt      time.Time `json:"updated_at"`
}

const (
	// maxCall limits the body of a webhook's call.
	maxCall = 4 << 20
	// maxAge is how old, or how far ahead, a call may be.
	maxAge = 5 * time.Minute
)

// Events verifies a call of a webhook with its secret and returns what it says. A call may come more than once.
func Events(r *http.Request, secret string) ([]Event, error) {
	if secret == "" {
		return nil, errors.New("notifications: the webhook's secret is empty")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCall+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("notifications: %w", err)
	case len(body) > maxCall:
		return nil, errors.New("notifications: the call is too large")
	}
	if err := verify(r.Header.Get("X-Ingot-Signature"), body, secret, time.Now()); err != nil {
		return nil, err
	}
	var call struct{ Events []Event }
	if err := json.Unmarshal(body, &call); err != nil {
		return nil, fmt.Errorf("notifications: %w", err)
	}
	return call.Events, nil
}

// verify checks a signature of the form t=SECONDS,v1=HEX.
func verify(signature string, body []byte, secret string, now time.Time) error {
	refused := errors.New("notifications: the call is not signed with the webhook's secret")
	stamp, sum, ok := strings.Cut(strings.TrimPrefix(signature, "t="), ",v1=")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	got, hexErr := hex.DecodeString(sum)
	if !ok || err != nil || hexErr != nil {
		return refused
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), got) {
		return refused
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > maxAge || age < -maxAge {
		return fmt.Errorf("notifications: the call was signed %s ago, at most %s are accepted",
			age.Round(time.Second), maxAge)
	}
	return nil
}
