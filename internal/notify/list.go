package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"golang.org/x/text/language"

	"ingot/internal/base/fault"
)

// Member is a recipient that the caller named, with what templates show to this one only.
type Member struct {
	UserID string `json:"u,omitempty"`
	// Email is the address. Of a member who has only a phone number it is that number: what is stored about them is found
	// and erased as that of an address.
	Email string `json:"e,omitempty"`
	// Phone is the number for SMS, in the form of E.164; "" means that of the user.
	Phone string `json:"p,omitempty"`
	// Locale is the member's language as a BCP 47 tag; "" means that of the send.
	Locale string `json:"l,omitempty"`
	// Data is a JSON object, whose fields replace those of the send's data.
	Data json.RawMessage `json:"d,omitempty"`
}

// OnlyPhone reports whether the member has only a phone number.
func (m *Member) OnlyPhone() bool { return m.UserID == "" && m.Email != "" && m.Email == m.Phone }

// Address returns the mail address; "" if there is none.
func (m *Member) Address() string {
	if m.OnlyPhone() {
		return ""
	}
	return m.Email
}

const (
	// ListBlock is the number of members that are stored together.
	ListBlock = 256
	// MaxList limits the members of a list.
	MaxList = 100_000

	// MaxData limits the data of a send, MaxMemberData that of a recipient.
	MaxData       = 256 << 10
	MaxMemberData = 16 << 10
	maxDataDepth  = 20
)

// Lists holds members of sends. A list is stored in blocks before its send is accepted, so that
// a long one never is in memory as a whole. The Audience of its recipients is their position in
// the list, not that of an audience of the send.
type Lists interface {
	// CreateList begins an empty list of a client.
	CreateList(ctx context.Context, clientID, id string) error
	// AddToList stores the block that begins at a position, a multiple of ListBlock. It fails if the client
	// has too much stored: see Bounds.
	AddToList(ctx context.Context, clientID, id string, position int, members []Member) error
	// ListedMembers returns the block that begins at a position; none after the last one.
	ListedMembers(ctx context.Context, id string, position int) ([]Member, error)
	// DeleteList deletes a list that no send uses. Purge deletes those that were left behind.
	DeleteList(ctx context.Context, id string) error
}

// ReadData decodes data and language of a message for templates, after checking them.
func ReadData(raw json.RawMessage, locale string, data *map[string]any, tag *language.Tag) error {
	var problems []string
	if why := CheckData(raw, MaxData); why != "" {
		problems = append(problems, `"data" `+why)
	}
	if why := CheckLocale(locale); why != "" {
		problems = append(problems, `"locale" `+why)
	}
	if err := fault.Invalid(problems...); err != nil {
		return err
	}
	if locale != "" {
		*tag = language.Make(locale)
	}
	var err error
	*data, err = DecodeData(raw)
	return err
}

// DecodeData returns data as templates have it: numbers as they were sent. It is nil for none.
func DecodeData(raw json.RawMessage) (data map[string]any, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&data); err != nil {
		return nil, fmt.Errorf("the data of the message: %w", err)
	}
	return data, nil
}

// MergeData returns data of a recipient over that of all, which it does not change.
func MergeData(common map[string]any, own json.RawMessage) (map[string]any, error) {
	data, err := DecodeData(own)
	if err != nil || len(common) == 0 {
		return data, err
	}
	merged := maps.Clone(common)
	maps.Copy(merged, data)
	return merged, nil
}

// CheckData returns why data cannot be used in templates, or "". Data is a JSON object.
func CheckData(raw json.RawMessage, most int) string {
	if len(raw) == 0 {
		return ""
	}
	if len(raw) > most {
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(raw), most)
	}
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '{' {
		return "must be an object"
	}
	if why := scanData(raw); why != "" {
		return why
	}
	if !json.Valid(raw) {
		return "is not valid JSON"
	}
	return ""
}

// scanData looks for what valid JSON may have and data may not. It does not decode: a list has 100,000 recipients with
// data, and what they say is decoded when it is shown.
func scanData(raw []byte) string {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if depth++; depth > maxDataDepth {
				return fmt.Sprintf("is nested more than %d levels deep", maxDataDepth)
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] != '\\' {
					continue
				}
				if bytes.HasPrefix(raw[i:], nulEscape) {
					return "contains a NUL character, which no message can show"
				}
				i++
			}
		}
	}
	return ""
}

// nulEscape is how a string in JSON has a NUL character.
var nulEscape = []byte(`\u0000`)

const maxLocale = 35

// CheckLocale returns why a language tag cannot be used, or "". No tag is allowed.
func CheckLocale(tag string) string {
	if tag == "" {
		return ""
	}
	if _, err := language.Parse(tag); err != nil || len(tag) > maxLocale {
		return "is not a language tag such as de or pt-BR"
	}
	return ""
}
