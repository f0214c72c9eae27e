package push

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

const (
	maxTitle = 200  // characters
	maxLink  = 1000 // bytes
	maxTopic = 200  // bytes
	ellipsis = "…"
	// less is how long a message is for a push service that takes no longer ones.
	less = 1500
)

// payload is what the service worker of the browser gets.
type payload struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Body  string `json:"body,omitempty"`
	URL   string `json:"url,omitempty"`
	Icon  string `json:"icon,omitempty"`
	// Tag is the same for notifications of which the later replaces the earlier one.
	Tag     string    `json:"tag"`
	KindID  string    `json:"kind_id,omitempty"`
	Created time.Time `json:"created_at"`

	topic string // of RFC 8030: the same for the same tag
}

// newPayload returns the payload of a message, or what is wrong with its data.
func newPayload(o *notify.Outgoing) (*payload, string) {
	title, body := template.AsText(o.Body, o.Unsubscribe)
	title = template.OneLine(title)
	if r := []rune(title); len(r) > maxTitle {
		title = string(r[:maxTitle-1]) + ellipsis
	}
	p := &payload{ID: o.ID, Title: title, Body: strings.TrimSpace(body), Tag: o.ID, KindID: o.KindID,
		Created: o.Received.UTC()}
	own, ok := o.Data["push"]
	if ok {
		if why := p.read(own); why != "" {
			return nil, why
		}
	}
	// The tag of a client says nothing to another one, and the push service cannot read it.
	sum := sha256.Sum256([]byte(o.ClientID + "\x00" + p.Tag))
	const topicSize = 24 // 32 characters, which is what RFC 8030 allows
	p.topic = base64.RawURLEncoding.EncodeToString(sum[:topicSize])
	return p, ""
}

// read reads data.push.
func (p *payload) read(v any) string {
	fields, ok := v.(map[string]any)
	if !ok {
		return `"data.push" must be an object`
	}
	for name, value := range fields {
		text, ok := value.(string)
		if !ok {
			return fmt.Sprintf(`"data.push.%.40s" must be a text`, name)
		}
		switch name {
		case "url", "icon":
			if !usableLink(text) {
				return fmt.Sprintf(`"data.push.%s" must begin with https://, http:// or one /, and have at most %d bytes`, name,
					maxLink)
			}
			if name == "url" {
				p.URL = text
			} else {
				p.Icon = text
			}
		case "topic":
			if text == "" || len(text) > maxTopic {
				return fmt.Sprintf(`"data.push.topic" must have 1 to %d bytes`, maxTopic)
			}
			p.Tag = text
		default:
			return fmt.Sprintf(`"data.push.%.40s" is not known: use url, icon, topic`, name)
		}
	}
	return ""
}

// usableLink accepts addresses of pages: others could be scripts.
func usableLink(text string) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxLink || strings.ContainsAny(text, "\\") {
		return false
	}
	if u.Scheme == "" {
		return strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//")
	}
	return (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != ""
}

// encode returns the payload in at most limit bytes: the body is cut off as far as necessary.
func (p *payload) encode(limit int) ([]byte, error) {
	short := *p
	if len(short.Body) > limit {
		short.Body = cut(short.Body, limit)
	}
	for {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		if err := e.Encode(&short); err != nil {
			return nil, err
		}
		text := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
		over := len(text) - limit
		switch body := strings.TrimSuffix(short.Body, ellipsis); {
		case over <= 0:
			return text, nil
		case body == "":
			return nil, fmt.Errorf("title, addresses and topic have %d bytes, at most %d are allowed", len(text), limit)
		default:
			// A character may take six times the bytes in JSON, so this may take several rounds.
			short.Body = cut(body, len(body)-max(over/6, len(ellipsis)+1))
		}
	}
}

// cut returns the beginning of a text, of at most n bytes, with an ellipsis; nothing if there is no beginning.
func cut(text string, n int) string {
	if n <= 0 {
		return ""
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	if n == 0 {
		return ""
	}
	return text[:n] + ellipsis
}
