package auth

import "time"

// OriginUAA is the identity provider of users whose password we keep.
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

// LoginState is what we remember of a user's logins. Changing it is no change
// of the user: version and modification time stay.
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

// Member belongs to a group.
type Member struct {
	ID     string
	Type   MemberType
	Origin string
}

// MemberType says what a member is.
type MemberType string

// The kinds of member.
const (
	MemberUser  MemberType = "USER"
	MemberGroup MemberType = "GROUP"
)
