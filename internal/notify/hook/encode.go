package hook

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"ingot/internal/base/pattern"
	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

// message is what a webhook gets.
type message struct {
	ID        string         `json:"id"`
	SendID    string         `json:"send_id"`
	ClientID  string         `json:"client_id"`
	KindID    string         `json:"kind_id,omitempty"`
	Recipient recipient      `json:"recipient"`
	Subject   string         `json:"subject"`
	Text      string         `json:"text"`
	HTML      string         `json:"html"`
	Data      map[string]any `json:"data,omitempty"`
	// Unsubscribe is a link for the recipient.
	Unsubscribe string    `json:"unsubscribe_url,omitempty"`
	Attempt     int       `json:"attempt"`
	Created     time.Time `json:"created_at"`
}

type recipient struct {
	UserID string `json:"user_id,omitempty"`
	Email  string `json:"email,omitempty"`
}

// encode returns the body of the call for a message.
func (c *Channel) encode(to notify.Destination, o *notify.Outgoing) ([]byte, error) {
	if c.id == notify.Chat {
		return json.Marshal(inFormat(to.Format, o.Body))
	}
	own := func(s string) string { return strings.ReplaceAll(s, notify.UnsubscribeMark, o.Unsubscribe) }
	return json.Marshal(message{ID: o.ID, SendID: o.SendID, ClientID: o.ClientID, KindID: o.KindID,
		Recipient: recipient{o.UserID, o.To}, Subject: o.Body.Subject, Text: own(o.Body.Text), HTML: own(o.Body.HTML),
		Data: o.Data, Unsubscribe: o.Unsubscribe, Attempt: o.Attempt, Created: o.Received.UTC()})
}

// What the services show of a message; the rest is cut off.
const (
	slackRunes   = 4000
	teamsRunes   = 8000
	teamsLines   = 100
	discordRunes = 1900 // of 2000, with the marks of the subject

	ellipsis = "…"
)

// inFormat returns the message of a chat. What is in the body is shown as text: it mentions no one.
func inFormat(format string, b *notify.Body) any {
	subject, text := template.AsText(b, "")
	switch format {
	case notify.FormatTeams:
		return teams(subject, cut(text, teamsRunes))
	case notify.FormatDiscord:
		subject = cut(subject, discordRunes/4)
		return map[string]any{
			"content":          join("**", subject, "**", cut(text, discordRunes-utf8.RuneCountInString(subject))),
			"allowed_mentions": map[string]any{"parse": []string{}},
		}
	}
	subject = cut(subject, slackRunes/4)
	return map[string]any{"text": unmentioned(slackEscapes.Replace(
		join("*", subject, "*", cut(text, slackRunes-utf8.RuneCountInString(subject)))))}
}

// slackEscapes are the characters that begin links and mentions there.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// groups are mentions of many people that some servers of the Slack format find in plain text.
var groups = pattern.OnUse(`(?i)@(channel|all|here|everyone)\b`)

// unmentioned separates the sign from the name with a space that has no width.
func unmentioned(s string) string { return groups().ReplaceAllString(s, "@\u200b$1") }

// join puts the subject before the text, between marks.
func join(before, subject, after, text string) string {
	switch {
	case subject == "" && text == "":
		return "–" // services refuse empty messages
	case subject == "":
		return text
	case text == "":
		return before + subject + after
	}
	return before + subject + after + "\n" + text
}

// teams returns a message with an adaptive card, of text runs, which have no markup.
func teams(subject, text string) any {
	var body []any
	add := func(line, weight string) {
		run := map[string]any{"type": "TextRun", "text": line}
		if weight != "" {
			run["weight"] = weight
		}
		body = append(body, map[string]any{"type": "RichTextBlock", "inlines": []any{run}})
	}
	if subject != "" || text == "" {
		add(join("", cut(subject, teamsRunes/4), "", ""), "Bolder")
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if len(body) == teamsLines {
			add(ellipsis, "")
			break
		}
		add(line, "")
	}
	return map[string]any{"type": "message", "attachments": []any{map[string]any{
		"contentType": "application/vnd.microsoft.card.adaptive",
		"content": map[string]any{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard",
			"version": "1.4", "body": body},
	}}}
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + ellipsis
}
