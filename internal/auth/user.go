package auth

import "time"

// OriginUAA is the identity provider of users whose password is stored here.
const OriginUAA = "uaa"

// ZoneID is the only identity zone.
const ZoneID = "uaa"

// User is a person.
type User struct {
	ID         string
	UserName   string
	Origin     string
	ExternalID string
	GivenName  string
	FamilyName string
	Email      string
	Phone      string
	Locale     string // a BCP 47 tag such as de-CH; may be empty
	Active     bool
	Verified   bool
	// PasswordHash is empty for users of other origins.
	PasswordHash    string
	PasswordChanged time.Time
	Created         time.Time
	Modified        time.Time
	Version         int
	Login           LoginState
}

// LoginState holds the times of a user's logins. Changing it does not change the
// user's version and modification time.
type LoginState struct {
	Last, Previous time.Time
}

// succeeded records a login.
func (s *LoginState) succeeded(now time.Time) { s.Previous, s.Last = s.Last, now }

// Group is a named set of users and groups; its name is the scope that its
// members have.
type Group struct {
	ID          string
	Name        string
	Description string
	Members     []Member
	Created     time.Time
	Modified    time.Time
	Version     int
}

// Member is a user or group in a group.
type Member struct {
	ID     string
	Type   MemberType
	Origin string
}

// MemberType tells users from groups.
type MemberType string

// The kinds of member.
const (
	MemberUser  MemberType = "USER"
	MemberGroup MemberType = "GROUP"
)
