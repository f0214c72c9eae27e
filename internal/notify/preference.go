package notify

// Unwanted is a set of channels on which a user does not want a kind of notification. Stores keep it as a number.
type Unwanted uint16

// UnwantedAll is every channel, including those that kinds get later: the user unsubscribed from the kind.
const UnwantedAll Unwanted = 1<<15 - 1

// UnwantedOn returns a set.
func UnwantedOn(ids ...ChannelID) (u Unwanted) {
	for _, id := range ids {
		u |= 1 << id
	}
	return u
}

// Has reports whether the set contains a channel.
func (u Unwanted) Has(id ChannelID) bool { return u&(1<<id) != 0 }

// Names returns the names of the channels in order of their numbers; none for UnwantedAll.
func (u Unwanted) Names() []string {
	var names []string
	for id := range ChannelID(ChannelCount) {
		if u != UnwantedAll && u.Has(id) {
			names = append(names, id.String())
		}
	}
	return names
}

// Personal returns the channels that reach each recipient, which are those a user can turn off: not the Chat, which
// is read by others. A recipient without a user has neither Inbox nor Push.
func (c Channels) Personal(user bool) []ChannelID {
	var ids []ChannelID
	for _, id := range c.List() {
		if id != Chat && (user || !id.OnlyUsers()) {
			ids = append(ids, id)
		}
	}
	return ids
}

// All reports whether the set contains all channels that would reach a recipient.
func (u Unwanted) All(c Channels, user bool) bool {
	for _, id := range c.Personal(user) {
		if !u.Has(id) {
			return false
		}
	}
	return true
}

// Preference is a kind or campaign type in a user's preferences.
type Preference struct {
	Kind
	// CampaignType reports that it is a campaign type with this ID, not a kind.
	CampaignType      bool
	SourceDescription string
	Choice
}

// Ref returns what the user's choice is stored under.
func (p *Preference) Ref() KindRef {
	if p.CampaignType {
		return KindRef{KindID: p.ID}
	}
	return KindRef{ClientID: p.ClientID, KindID: p.ID}
}

// Wish is what a user wants to change about a kind. Parts that are not set change nothing; Subscribe is applied before
// Channels.
type Wish struct {
	// Subscribe unsubscribes from the kind with UnwantedAll, or takes that back. Channels that were turned off
	// one by one stay off.
	Subscribe *bool
	// Channels turns channels on or off.
	Channels map[ChannelID]bool
	// Mail is the choice of version 1, which knows no channels: the e-mail. Turning it on also takes back UnwantedAll,
	// because nothing else in that version would.
	Mail *bool
	// Digest is how messages are to be collected.
	Digest *DigestChoice
	// Tracking consents to counting opens and clicks, or takes that back.
	Tracking *bool
}

// PreferenceChange is a change of a user's preferences; nil leaves the global
// setting unchanged.
type PreferenceChange struct {
	Global *bool
	// Kinds holds true for a kind to receive on all channels, false to unsubscribe from all.
	Kinds map[KindRef]bool
	// Wishes are changes of parts of kinds, which Kinds does not name.
	Wishes map[KindRef]Wish
	// Topics holds true for a topic to subscribe to, false for one to leave.
	Topics map[TopicRef]bool
	// Quiet sets the quiet hours, NoQuiet deletes them.
	Quiet   *QuietHours
	NoQuiet bool
}

// Choice is what a user has chosen for a kind.
type Choice struct {
	Unwanted Unwanted
	Digest   DigestChoice
	// Tracking reports that the user consented to counting opens and clicks.
	Tracking bool
}

// After returns the choice after a change.
func (c Choice) After(w Wish) Choice {
	c.Unwanted = c.Unwanted.After(w)
	if w.Digest != nil {
		c.Digest = *w.Digest
	}
	if w.Tracking != nil {
		c.Tracking = *w.Tracking
	}
	return c
}

// After returns the set after a change.
func (u Unwanted) After(w Wish) Unwanted {
	if w.Subscribe != nil {
		u = u.subscribed(*w.Subscribe)
	}
	for id, on := range w.Channels {
		u = u.turned(id, on)
	}
	if w.Mail != nil {
		if *w.Mail {
			u = u.subscribed(true)
		}
		u = u.turned(Email, *w.Mail)
	}
	return u
}

func (u Unwanted) subscribed(on bool) Unwanted {
	switch {
	case !on:
		return UnwantedAll
	case u == UnwantedAll:
		return 0
	}
	return u
}

func (u Unwanted) turned(id ChannelID, on bool) Unwanted {
	if on {
		return u &^ UnwantedOn(id)
	}
	return u | UnwantedOn(id)
}
