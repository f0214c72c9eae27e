package notify

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ingot/internal/base/fault"
)

// ChannelID says how a message reaches its recipient. Numbers are stored.
type ChannelID uint8

const (
	Email ChannelID = iota
	Inbox
	// Hook is the channel "webhook": it calls an address of the client with each message.
	Hook
	// Chat posts to a room of the client, once for a send however many recipients it has.
	Chat
	// SMS sends texts to phones, by a Provider.
	SMS
	// Push sends to the browsers that users have subscribed, by Web Push, and to the devices they have registered, by a
	// Provider.
	Push

	// ChannelCount is the number of channels.
	ChannelCount = int(Push) + 1
)

var channelNames = [ChannelCount]string{Email: "email", Inbox: "inbox", Hook: "webhook", Chat: "chat",
	SMS: "sms", Push: "push"}

// String returns the name in APIs.
func (c ChannelID) String() string {
	if int(c) < len(channelNames) {
		return channelNames[c]
	}
	return fmt.Sprintf("channel %d", uint8(c))
}

// ChannelNames returns the names of all channels, for messages.
func ChannelNames() string { return strings.Join(channelNames[:], ", ") }

// Channels is the set of channels of a kind. The zero value means Email: what kinds had before there were others.
type Channels uint8

// ChannelsOf returns a set.
func ChannelsOf(ids ...ChannelID) (c Channels) {
	for _, id := range ids {
		c |= 1 << id
	}
	if c == 1<<Email {
		return 0
	}
	return c
}

// ParseChannels returns the set of named channels: at least one, each once.
func ParseChannels(names []string) (Channels, error) {
	var ids []ChannelID
	var problems []string
	for _, name := range names {
		i := slices.Index(channelNames[:], name)
		switch {
		case i < 0:
			problems = append(problems, fmt.Sprintf("%q is not a channel: use one of %s", name,
				strings.Join(channelNames[:], ", ")))
		case slices.Contains(ids, ChannelID(i)):
			problems = append(problems, fmt.Sprintf("%q is named more than once", name))
		default:
			ids = append(ids, ChannelID(i))
		}
	}
	if len(names) == 0 {
		problems = append(problems, `"channels" is empty: name at least one of `+strings.Join(channelNames[:], ", "))
	}
	return ChannelsOf(ids...), fault.Invalid(problems...)
}

const maxUser = 1000

// UserProblem returns why a user's id cannot be used outside of mail; "" if it can.
func UserProblem(user string) string {
	switch {
	case len(user) > maxUser:
		return fmt.Sprintf("the user's id has more than %d bytes", maxUser)
	case !utf8.ValidString(user) || strings.ContainsFunc(user, unicode.IsControl):
		return "the user's id has characters that cannot be stored"
	}
	return ""
}

// Has reports whether the set contains a channel.
func (c Channels) Has(id ChannelID) bool { return c == 0 && id == Email || c&(1<<id) != 0 }

// List returns the channels in order of their numbers.
func (c Channels) List() []ChannelID {
	var ids []ChannelID
	for id := range ChannelID(ChannelCount) {
		if c.Has(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Names returns the names of the channels in order of their numbers.
func (c Channels) Names() []string {
	var names []string
	for _, id := range c.List() {
		names = append(names, id.String())
	}
	return names
}

// OnlyUsers reports whether the channel reaches no recipient without a user.
func (c ChannelID) OnlyUsers() bool { return c == Inbox || c == Push }

// Primary is the channel whose messages stand for recipients in the APIs that know no others.
func (c Channels) Primary() ChannelID { return c.List()[0] }

// Messages returns one recipient for each message: every user on every channel, and one for the Chat, which has
// neither user nor address and stands for all: stores keep one of each send. An address has neither
// inbox nor browsers; if it has no other channel, its message says so. A phone number gets text messages only.
func (c Channels) Messages(members []Recipient) []Recipient {
	if c == 0 {
		return members
	}
	ids := c.List()
	all := make([]Recipient, 0, len(members)*len(ids))
	for _, m := range members {
		for _, id := range ids {
			if id == Chat || id != SMS && m.UserID == "" && UsablePhone(m.Email) {
				continue // a number instead of an address
			}
			if id.OnlyUsers() && m.UserID == "" && (c.Has(Email) || c.Has(Hook) || c.Has(SMS)) {
				continue
			}
			m.Channel = id
			all = append(all, m)
		}
	}
	if c.Has(Chat) && len(members) > 0 {
		all = append(all, Recipient{Audience: members[0].Audience, Channel: Chat})
	}
	return all
}
