package notify

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
)

// Destination is where the messages of a client go on a channel whose receiver is not the recipient: Hook or Chat.
type Destination struct {
	ClientID string
	Channel  ChannelID
	// URL is called with each message. It is stored sealed, because who knows that of a chat may write there.
	URL string
	// Secret signs the calls of a Hook; it is stored sealed too.
	Secret string
	// Format is that of a Chat, one of ChatFormats.
	Format  string
	Updated time.Time
}

// Formats of chats.
const (
	FormatSlack   = "slack" // also understood by Mattermost, Rocket.Chat and others
	FormatTeams   = "teams"
	FormatDiscord = "discord"
)

// ChatFormats are the formats of chats; the first is the default.
var ChatFormats = []string{FormatSlack, FormatTeams, FormatDiscord}

// Destinations holds the destinations of clients, one for each channel that has any.
type Destinations interface {
	// Destination is ErrNotFound if the client has none for the channel.
	Destination(ctx context.Context, clientID string, c ChannelID) (Destination, error)
	// Destinations returns those of a client, by channel.
	Destinations(ctx context.Context, clientID string) ([]Destination, error)
	// SetDestination creates or replaces one.
	SetDestination(ctx context.Context, d Destination) error
	// DeleteDestination is ErrNotFound if there is none.
	DeleteDestination(ctx context.Context, clientID string, c ChannelID) error
}

// HasDestination reports whether messages of a channel go to a Destination.
func (c ChannelID) HasDestination() bool { return c == Hook || c == Chat }

// ParseDestination returns the channel of that name, if it has a Destination.
func ParseDestination(name string) (ChannelID, error) {
	i := slices.Index(channelNames[:], name)
	if i < 0 || !ChannelID(i).HasDestination() {
		return 0, fault.New(fault.NotFound, "The channel %q has no destination: use %s or %s.", name, Hook, Chat)
	}
	return ChannelID(i), nil
}

const (
	minSecret = 16
	maxSecret = 200
)

// CheckSecret returns what is wrong with a secret that signs calls; "" if nothing is. An empty one is generated.
func CheckSecret(secret string) string {
	if secret != "" && len(secret) < minSecret || len(secret) > maxSecret {
		return fmt.Sprintf(`"secret" must have %d to %d characters; if omitted, one is generated`, minSecret, maxSecret)
	}
	return ""
}

// Check validates a destination, and sets its defaults.
func (d *Destination) Check() error {
	var problems []string
	if err := CheckWebhookURL(d.URL); err != nil {
		problems = append(problems, err.Error())
	}
	if d.Channel == Chat {
		if d.Format == "" {
			d.Format = ChatFormats[0]
		}
		if !slices.Contains(ChatFormats, d.Format) {
			problems = append(problems, fmt.Sprintf(`"format" must be one of %s`, strings.Join(ChatFormats, ", ")))
		}
		if d.Secret != "" {
			problems = append(problems, `"secret" is for webhooks: messages to a chat are not signed`)
		}
		return fault.Invalid(problems...)
	}
	if d.Format != "" {
		problems = append(problems, `"format" is for chats: a webhook gets JSON`)
	}
	if p := CheckSecret(d.Secret); p != "" {
		problems = append(problems, p)
	}
	return fault.Invalid(problems...)
}

// Shown returns the URL without what makes it a secret: scheme and host only.
func (d *Destination) Shown() string {
	u, err := url.Parse(d.URL)
	if err != nil {
		return "…"
	}
	return u.Scheme + "://" + u.Host + "/…"
}

const maxWebhookURL = 2000

// CheckWebhookURL validates the URL of a webhook. Whether it resolves to a
// private network is checked when it is called.
func CheckWebhookURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxWebhookURL:
		return fault.New(fault.Unprocessable, `"url" is %d bytes long, at most %d are allowed`, len(text), maxWebhookURL)
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return fault.New(fault.Unprocessable, `"url" must begin with https:// or http://`)
	case u.User != nil:
		return fault.New(fault.Unprocessable,
			`"url" must not contain a user name or password: calls are signed with the webhook's secret instead`)
	}
	return nil
}
